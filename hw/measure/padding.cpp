// Two kernels as one grid: what it costs the first, how many blocks of the second run beside it, and the
// results of both, bit by bit.
#include <fmt/format.h>

#include <algorithm>

#include "hw/measure/jobs.h"
#include "policies/kernel_padding.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

constexpr std::uint32_t kMostLaunches = 4000;

struct One {
  const LibraryKernel* kernel;
  std::unique_ptr<Instance> instance;
  std::uint64_t expected = 0;
  double plain_us = 0;
};

struct Pair {
  double us = 0;
  std::uint32_t first_done = 0, second_done = 0;  // blocks
};

class Padding {
 public:
  explicit Padding(Bench& bench)
      : bench_(bench),
        gpu_(read_gpu("h200")),
        s_(bench.driver.stream(0, {})),
        from_(bench.driver.event()),
        to_(bench.driver.event()),
        controls_(bench.driver, 2) {}
  ~Padding() { bench_.driver.destroy(from_), bench_.driver.destroy(to_), bench_.driver.destroy(s_); }

  One prepare(const std::string& name, std::uint32_t seed) {
    One o{find_kernel(name), nullptr};
    o.instance = std::make_unique<Instance>(bench_.driver, *o.kernel);
    bench_.work.prepare(*o.instance, seed, s_);
    bench_.work.launch(*o.instance, s_);
    o.expected = bench_.work.digest(*o.instance, s_);
    std::vector<double> us;
    for (int i = 0; i < 7; ++i) us.push_back(timed([&] { bench_.work.launch(*o.instance, s_); }));
    o.plain_us = median(us);
    return o;
  }

  Paddable paddable(const One& o) {
    const Plain& plain = bench_.work.plain(*o.kernel);
    Kernel k;
    k.grid = o.kernel->grid, k.block = o.kernel->block;
    k.registers_per_thread = plain.facts.registers;
    k.static_shared_memory_bytes = plain.facts.static_shared_bytes;
    k.dynamic_shared_memory_bytes = o.kernel->dynamic_shared_bytes;
    return {demand_of(k, gpu_.sm), k.blocks(), k.blocks(), from_ns(o.plain_us * 1000)};
  }

  /// As the backend would take them.
  const Padded& how(One& a, One& b, std::uint32_t sms) {
    const auto on_each = static_cast<std::uint32_t>((a.kernel->blocks() + sms - 1) / sms);
    if (bench_.work.faster_once(*a.instance, gpu_.sms, s_))
      if (const Padded& once = bench_.work.padded(*a.kernel, *b.kernel, true); once.workers_per_sm >= on_each)
        return once;
    return bench_.work.padded(*a.kernel, *b.kernel, false);
  }

  /// The first on `sms` SMs beside the second's blocks [first, first + blocks).
  Pair run(One& a, One& b, const Padded& how, std::uint32_t sms, std::uint32_t first, std::uint32_t blocks) {
    PaddedParameters p;
    const auto all = static_cast<std::uint32_t>(a.kernel->blocks());
    p.first = launch_parameters(0, all, {}, 1);
    p.second = launch_parameters(first, first + blocks, {}, 1);
    p.first.control = controls_.at(0), p.first.progress = controls_.progress(0);
    p.second.control = controls_.at(1), p.second.progress = controls_.progress(1);
    p.sms = sms, p.per_sm = std::min(how.workers_per_sm, (all + sms - 1) / sms);
    p.seats = how.workers_per_sm > p.per_sm;
    controls_.clear(s_);
    Pair result;
    result.us = timed(
        [&] { bench_.work.launch(*a.instance, *b.instance, how, gpu_.sms * how.workers_per_sm, p, s_); });
    result.first_done = chunks_done(controls_.read(0, s_), p.first.chunks);
    result.second_done = chunks_done(controls_.read(1, s_), p.second.chunks);
    return result;
  }

  Json pair(One& a, One& b) {
    const Plain &pa = bench_.work.plain(*a.kernel), &pb = bench_.work.plain(*b.kernel);
    const auto rule = pad(paddable(a), paddable(b), gpu_);
    const auto most = static_cast<std::uint32_t>(b.kernel->blocks());
    // By the rule or, where it has none, on half of the GPU: the results must be right in any case.
    const std::uint32_t sms = rule ? rule->sms : gpu_.sms / 2;
    const std::uint32_t blocks = rule ? static_cast<std::uint32_t>(rule->blocks) : most;
    const Padded& how = this->how(a, b, sms);
    const bool once = &how != &bench_.work.padded(*a.kernel, *b.kernel, false);
    Json row{{"real_time", a.kernel->name},
             {"best_effort", b.kernel->name},
             {"plain_us", {a.plain_us, b.plain_us}},
             {"blocks_per_sm", {pa.blocks_per_sm, pb.blocks_per_sm, how.workers_per_sm}},
             {"registers", {pa.facts.registers, pb.facts.registers, how.facts.registers}},
             {"one_block_a_worker", once},
             {"rule", rule ? Json{{"sms", rule->sms}, {"blocks", rule->blocks}} : Json()}};
    std::vector<double> confined, padded;
    std::vector<std::uint32_t> done;
    for (std::uint32_t i = 0; i < 11 * bench_.scale; ++i) {
      const double without = run(a, b, how, sms, 0, 0).us;
      const Pair with = run(a, b, how, sms, 0, blocks);
      if (i == 0) continue;
      confined.push_back(without), padded.push_back(with.us), done.push_back(with.second_done);
    }
    std::uint32_t runs = 0, rounds = 0;
    bench_.work.poison(*a.instance, 0xa5, s_);
    bench_.work.poison(*b.instance, 0xa5, s_);
    // All of the second, some at a time beside the first.
    for (std::uint32_t next = 0; next < most && rounds < kMostLaunches; ++rounds) {
      const Pair p = run(a, b, how, sms, next, std::min(most - next, blocks));
      next += p.second_done;
      runs += p.first_done == a.kernel->blocks();
      if (p.second_done == 0) break;
      if (next == most)
        row["identical"] = runs == rounds + 1 && bench_.work.digest(*a.instance, s_) == a.expected &&
                           bench_.work.digest(*b.instance, s_) == b.expected;
    }
    std::sort(done.begin(), done.end());
    row["confined_us"] = summary(confined), row["padded_us"] = summary(padded);
    row["blocks_beside"] = done[done.size() / 2];
    row["launches_for_all"] = rounds;
    fmt::print(
        "{:<18} + {:<14} {:>8.1f} us plain, {} SMs {:>8.1f} us ({:+.1f} %), padded {:>8.1f} us ({:+.1f} %) "
        "with {} of "
        "{} blocks {}{}; {} + {} -> {} a SM; {} launches: {}\n",
        a.kernel->name, b.kernel->name, a.plain_us, sms, median(confined),
        100 * (median(confined) / a.plain_us - 1), median(padded), 100 * (median(padded) / a.plain_us - 1),
        done[done.size() / 2], blocks, rule ? "by the rule" : "(no rule)", once ? ", one block a worker" : "",
        pa.blocks_per_sm, pb.blocks_per_sm, how.workers_per_sm, rounds,
        !row.contains("identical") ? "not all done"
        : row["identical"] == true ? "identical"
                                   : "DIFFERENT");
    return row;
  }

 private:
  template <class F>
  double timed(F launch) {
    bench_.driver.record(from_, s_);
    launch();
    bench_.driver.record(to_, s_);
    bench_.driver.synchronize(s_);
    return bench_.driver.milliseconds(from_, to_) * 1000;
  }

  Bench& bench_;
  Gpu gpu_;
  Stream s_;
  Event from_, to_;
  Controls controls_;
};

}  // namespace

Json measure_padding(Bench& bench) {
  Padding padding(bench);
  Json rows = Json::array();
  for (const char* real_time : {"sgemm_small", "hgemm_small", "quasirandom", "tpacf", "fdtd3d", "traps"}) {
    One a = padding.prepare(real_time, 1);
    for (const char* best_effort :
         {"lavamd", "md5", "conv3x3", "reduction", "transpose", "hgemm", "gather", "traps"})
      if (bench.wants(real_time) || bench.wants(best_effort)) {
        One b = padding.prepare(best_effort, 2);
        try {
          rows.push_back(padding.pair(a, b));
        } catch (const InputError& e) {
          const std::string what = e.what();
          fmt::print("{} + {}: {}\n", real_time, best_effort, what);
          rows.push_back({{"real_time", real_time}, {"best_effort", best_effort}, {"not_compiled", what}});
        }
      }
  }
  return rows;
}

}  // namespace corun::hw
