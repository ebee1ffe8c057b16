#include <fmt/format.h>

#include <algorithm>

#include "hw/measure/jobs.h"

namespace corun::hw {
namespace {

struct Variant {
  std::string name;
  Taking taking;
  bool plain = false;
  std::vector<double> us{};
};

/// Time of a launch in a row of `launches`.
double time_row(Bench& bench, Instance& instance, const Variant& v, std::uint32_t launches,
                std::uint32_t workers, Controls& controls, Stream s, Event from, Event to) {
  const LibraryKernel& k = instance.kernel();
  LaunchParameters p = launch_parameters(0, static_cast<std::uint32_t>(k.blocks()), v.taking, workers);
  const Persistent* how = v.plain ? nullptr : &bench.work.persistent(k, v.taking);
  controls.clear(s);
  bench.driver.synchronize(s);
  bench.driver.record(from, s);
  for (std::uint32_t i = 0; i < launches; ++i) {
    if (v.plain) {
      bench.work.launch(instance, s);
    } else {
      p.control = controls.at(i), p.progress = controls.progress(i);
      bench.work.launch(instance, *how, workers_of(p, v.taking, workers), p, s);
    }
  }
  bench.driver.record(to, s);
  bench.driver.synchronize(s);
  return bench.driver.milliseconds(from, to) * 1000 / launches;
}

}  // namespace

Json measure_overhead(Bench& bench) {
  constexpr std::uint32_t kMostLaunches = 32;
  const DeviceFacts gpu = bench.driver.facts();
  const Stream s = bench.driver.stream(0, {});
  const Event from = bench.driver.event(), to = bench.driver.event();
  Controls controls(bench.driver, kMostLaunches);
  Json rows = Json::array();
  for (const LibraryKernel& k : kernel_library()) {
    if (!bench.wants(k.name)) continue;
    Instance instance(bench.driver, k);
    bench.work.prepare(instance, 1, s);
    bench.work.launch(instance, s);
    bench.driver.synchronize(s);
    const std::string wrong = bench.work.check(instance, 1, s);
    const std::uint64_t expected = bench.work.digest(instance, s);
    const Plain& plain = bench.work.plain(k);
    Variant base{"plain", {}, true};
    const double first_us = time_row(bench, instance, base, 4, 0, controls, s, from, to);
    const auto most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(k.blocks(), std::uint64_t{gpu.sms} * plain.blocks_per_sm));
    // What the backend uses for launches that may be stopped, and for those whose size may be changed.
    const Time solo = from_ns(first_us * 1000);
    const std::uint32_t room = gpu.sms * plain.blocks_per_sm;
    const auto choose = [&](std::vector<Taking> takings) {
      return bench.work.fastest(instance, takings, gpu.sms, s).taking;
    };
    const Taking stoppable = choose(stoppable_takings_for(k.blocks(), room, solo)),
                 staying = choose(sized_takings_for(k.blocks(), room, solo));
    const Taking sized = k.blocks() <= room ? choose({staying, {1, false, true}}) : staying;
    std::vector<Variant> variants{base, {"stoppable", stoppable}, {"sized", sized}};
    for (const Taking t : {Taking{1, false}, Taking{1, true}, Taking{2, false}, Taking{2, true},
                           Taking{4, false}, Taking{4, true}, Taking{8, false}})
      if (t.chunk == 1 || k.blocks() >= std::uint64_t{most} * t.chunk * 4)
        variants.push_back({fmt::format("chunk {}{}", t.chunk, t.prefetch ? ", prefetch" : ""), t});
    for (const std::uint32_t chunk : {1u, 2u, 4u, 8u})
      if (chunk == 1 || k.blocks() >= std::uint64_t{room} * chunk)
        variants.push_back({fmt::format("once, chunk {}", chunk), {chunk, false, true}});
    const auto launches = static_cast<std::uint32_t>(std::clamp(2000 / first_us, 2.0, double{kMostLaunches}));
    for (std::uint32_t repeat = 0; repeat < 11 * bench.scale; ++repeat)
      for (std::size_t i = 0; i < variants.size(); ++i) {
        Variant& v = variants[(i + repeat) % variants.size()];
        const std::uint32_t workers =
            v.plain ? 0 : std::min(most, gpu.sms * bench.work.persistent(k, v.taking).workers_per_sm);
        const double us = time_row(bench, instance, v, launches, workers, controls, s, from, to);
        if (repeat > 0) v.us.push_back(us);
      }
    Json all = Json::array();
    const double alone = median(variants[0].us);
    for (Variant& v : variants) {
      Json row{{"name", v.name},        {"chunk", v.taking.chunk}, {"prefetch", v.taking.prefetch},
               {"once", v.taking.once}, {"us", summary(v.us)},     {"over_plain", median(v.us) / alone - 1}};
      if (!v.plain) {
        const Persistent& how = bench.work.persistent(k, v.taking);
        row["registers"] = how.facts.registers, row["workers_per_sm"] = how.workers_per_sm,
        row["local_bytes"] = how.facts.local_bytes;
        bench.work.poison(instance, 0xa5, s);
        time_row(bench, instance, v, 1, std::min(most, gpu.sms * how.workers_per_sm), controls, s, from, to);
        row["identical"] = bench.work.digest(instance, s) == expected;
      } else {
        row["registers"] = plain.facts.registers, row["blocks_per_sm"] = plain.blocks_per_sm;
      }
      all.push_back(row);
    }
    fmt::print(
        "{:<20} {:>9.1f} us {:>7} blocks, {} regs, {}/SM, check {}; stoppable {:+.2f} % (chunk {}{}{}), "
        "sized "
        "{:+.2f} %, {}\n",
        k.name, alone, k.blocks(), plain.facts.registers, plain.blocks_per_sm, wrong.empty() ? "ok" : wrong,
        100 * (median(variants[1].us) / alone - 1), stoppable.chunk, stoppable.prefetch ? ", prefetch" : "",
        stoppable.once ? ", once" : "", 100 * (median(variants[2].us) / alone - 1),
        all[1]["identical"] == true && all[2]["identical"] == true ? "identical" : "DIFFERENT");
    for (std::size_t i = 3; i < variants.size(); ++i)
      fmt::print("    {:<20} {:+.2f} %, {} regs{}\n", variants[i].name,
                 100 * (median(variants[i].us) / alone - 1), all[i]["registers"].get<int>(),
                 all[i]["identical"] == true ? "" : " DIFFERENT");
    rows.push_back({{"kernel", k.name},
                    {"grid", {k.grid.x, k.grid.y, k.grid.z}},
                    {"block", {k.block.x, k.block.y, k.block.z}},
                    {"launches", launches},
                    {"reference", wrong.empty() ? "ok" : wrong},
                    {"variants", all}});
  }
  bench.driver.destroy(from), bench.driver.destroy(to), bench.driver.destroy(s);
  for (const std::size_t variant : {1, 2}) {
    std::vector<double> over;
    for (const Json& row : rows)
      if (row["variants"][0]["us"]["p50"].get<double>() > 100 &&
          !row["kernel"].get<std::string>().starts_with("spin") &&
          !row["kernel"].get<std::string>().starts_with("wait"))
        over.push_back(row["variants"][variant]["over_plain"].get<double>());
    if (over.empty()) continue;  // without those that only pass time, which are for latencies
    fmt::print("kernels over 100 us: {}, {}: overhead median {:.2f} %, worst {:.2f} %\n", over.size(),
               variant == 1 ? "stoppable" : "sized", 100 * median(over), 100 * quantile(over, 1));
  }
  return rows;
}

Json measure_identity(Bench& bench) {
  const DeviceFacts gpu = bench.driver.facts();
  const Stream s = bench.driver.stream(0, {}), control = bench.driver.stream(gpu.highest_priority, {}),
               second = bench.driver.stream(0, {});
  Controls controls(bench.driver, 2);
  Json rows = Json::array();
  std::uint32_t random = 12345, runs_in_all = 0, wrong_in_all = 0;
  for (const LibraryKernel& k : kernel_library()) {
    if (!bench.wants(k.name)) continue;
    Instance instance(bench.driver, k);
    bench.work.prepare(instance, 2, s);
    bench.work.launch(instance, s);
    const std::uint64_t expected = bench.work.digest(instance, s);
    const Plain& plain = bench.work.plain(k);
    const auto most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(k.blocks(), std::uint64_t{gpu.sms} * plain.blocks_per_sm));
    std::uint32_t runs = 0, wrong = 0, stops = 0, resizes = 0;
    std::string first_wrong;
    for (std::uint32_t repeat = 0; repeat < 6 * bench.scale; ++repeat) {
      bench.work.poison(instance, 0xa5, s);
      const Taking taking{repeat % 3 == 2 ? 3u : 1u, repeat % 2 == 1};
      const Persistent& how = bench.work.persistent(k, taking);
      std::uint32_t next = 0;
      const auto blocks = static_cast<std::uint32_t>(k.blocks());
      // Stopped at random moments and resumed with another number of workers; made smaller and larger
      // between.
      for (std::uint32_t part = 0; next < blocks; ++part) {
        random = random * 1664525 + 1013904223;
        const std::uint32_t room = std::min(most, gpu.sms * how.workers_per_sm),
                            workers = part > 6 ? room : 1 + random % room;
        LaunchParameters p = launch_parameters(next, blocks, taking, workers);
        p.control = controls.at(0), p.progress = controls.progress(0);
        controls.clear(s);
        bench.driver.synchronize(s);
        bench.work.launch(instance, how, workers, p, s);
        std::uint32_t launched = workers;
        const double wait_us = (random >> 8) % 200;
        const Time begin = bench.driver.now();
        while (to_ns(bench.driver.now() - begin) < wait_us * 1000) bench.driver.pause();
        if (part % 3 == 1 && workers > 1) {
          bench.driver.write(control, controls.at(0) + offsetof(Control, leave), workers / 2);
          bench.driver.write(control, controls.at(0) + offsetof(Control, command), 1);
          ++resizes;
        }
        if (part % 3 == 2) {  // a further instance
          const std::uint32_t extra = 1 + workers / 3;
          bench.work.launch(instance, how, extra, p, second);
          launched += extra;
          ++resizes;
        }
        if (part <= 6) {
          bench.driver.write(control, controls.at(0) + offsetof(Control, command), kStop | 7);
          ++stops;
        }
        bench.driver.synchronize(s);
        bench.driver.synchronize(second);
        bench.driver.synchronize(control);
        const Control c = controls.read(0, s);
        const std::uint32_t done = chunks_done(c, p.chunks);
        next += blocks_in(p, done);
      }
      ++runs;
      if (bench.work.digest(instance, s) != expected) {
        ++wrong;
        if (first_wrong.empty()) first_wrong = bench.work.check(instance, 2, s);
      }
    }
    runs_in_all += runs, wrong_in_all += wrong;
    fmt::print("{:<20} {} runs, {} stops, {} changes of size, {} different {}\n", k.name, runs, stops,
               resizes, wrong, first_wrong);
    rows.push_back({{"kernel", k.name},
                    {"runs", runs},
                    {"stops", stops},
                    {"changes_of_size", resizes},
                    {"different", wrong},
                    {"first", first_wrong}});
  }
  fmt::print("identity: {} of {} runs bit-identical\n", runs_in_all - wrong_in_all, runs_in_all);
  bench.driver.destroy(s), bench.driver.destroy(control), bench.driver.destroy(second);
  return rows;
}

}  // namespace corun::hw
