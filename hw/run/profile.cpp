#include "hw/run/profile.h"

#include <algorithm>
#include <set>

#include "traces/model/error.h"

namespace corun::hw {
namespace {

Profile measure(const LibraryKernel& k, Time solo, const Gpu& gpu, Workbench& work) {
  constexpr int kRepeats = 3;
  Driver& driver = work.driver();
  const Plain& plain = work.plain(k);
  const std::uint32_t fits = gpu.sms * plain.blocks_per_sm;
  const Taking taking = taking_for(k.blocks(), fits, solo);
  const Persistent& how = work.persistent(k, taking);
  const auto most =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(k.blocks(), gpu.sms * how.workers_per_sm));
  std::set<std::uint32_t> counts{most};
  for (std::uint32_t c = 1; c < std::min(gpu.sms, most); c *= 2) counts.insert(c);
  for (std::uint32_t c = gpu.sms; c < most; c += gpu.sms) counts.insert(c);

  const Stream s = driver.stream(0, {});
  const Event from = driver.event(), to = driver.event();
  const DevicePointer control = driver.allocate(sizeof(Control));
  const HostMemory progress = driver.allocate_host(sizeof(Progress));
  Profile profile;
  {
    Instance instance(driver, k);
    work.prepare(instance, 1, s);
    for (std::uint32_t ctas : counts) {
      std::vector<double> ms;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        LaunchParameters p = launch_parameters(0, static_cast<std::uint32_t>(k.blocks()), taking, ctas);
        p.control = control, p.progress = progress.device;
        driver.fill(s, control, 0, sizeof(Control));
        driver.record(from, s);
        work.launch(instance, how, ctas, p, s);
        driver.record(to, s);
        driver.synchronize(s);
        ms.push_back(driver.milliseconds(from, to));
      }
      std::sort(ms.begin(), ms.end());
      profile.push_back(
          {ctas, from_ns(ms[kRepeats / 2] * 1e6), std::min(ctas, gpu.sms), (ctas + gpu.sms - 1) / gpu.sms});
    }
  }
  driver.free(control), driver.free(progress);
  driver.destroy(from), driver.destroy(to), driver.destroy(s);
  return profile;
}

}  // namespace

std::map<std::uint32_t, Profile> measure_profiles(const Trace& trace, const Gpu& gpu, Workbench& work) {
  std::map<std::uint32_t, Profile> all;
  for (const Client& client : trace.clients)
    for (const Op& op : trace.programs[client.program.value].ops)
      if (const auto* launch = std::get_if<corun::Launch>(&op.what);
          launch != nullptr && !all.contains(launch->kernel.value)) {
        const Kernel& kernel = trace.kernels[launch->kernel.value];
        all[launch->kernel.value] =
            measure(work.device_kernel(kernel), kernel.solo_time.value_or(Time{}), gpu, work);
      }
  return all;
}

}  // namespace corun::hw
