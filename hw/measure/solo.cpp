// The kernels of a trace alone: time, registers, blocks per SM.
#include <fmt/format.h>

#include <algorithm>

#include "hw/measure/jobs.h"
#include "traces/json/trace_json.h"

namespace corun::hw {

Json measure_solo(Bench& bench) {
  constexpr int kRepeats = 9;
  const Stream s = bench.driver.stream(0, {});
  const Event from = bench.driver.event(), to = bench.driver.event();
  const auto time = [&](auto&& launch) {
    std::vector<double> us;
    for (int i = 0; i < kRepeats; ++i) {
      bench.driver.record(from, s);
      launch();
      bench.driver.record(to, s);
      bench.driver.synchronize(s);
      us.push_back(bench.driver.milliseconds(from, to) * 1000);
    }
    return median(us);
  };
  // What two events around a kernel see of no kernel at all.
  const LibraryKernel& least = *find_kernel("tick");
  double nothing = 0;
  {
    Instance instance(bench.driver, least);
    bench.work.launch(instance, s);
    nothing = time([] {});
  }
  Json rows = Json::object();
  const Trace trace = read_trace(bench.trace);
  for (const Kernel& kernel : trace.kernels) {
    const LibraryKernel& k = bench.work.device_kernel(kernel);
    Instance instance(bench.driver, k);
    bench.work.prepare(instance, 1, s);
    bench.work.launch(instance, s);
    const double us = time([&] { bench.work.launch(instance, s); }) - nothing;
    const Plain& plain = bench.work.plain(k);
    rows[kernel.name] = {
        {"us", us}, {"registers", plain.facts.registers}, {"blocks_per_sm", plain.blocks_per_sm}};
  }
  fmt::print("{} kernels of {}; two events see {:.2f} us of nothing\n", trace.kernels.size(), trace.name,
             nothing);
  bench.driver.destroy(from), bench.driver.destroy(to), bench.driver.destroy(s);
  return rows;
}

}  // namespace corun::hw
