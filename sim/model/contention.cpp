#include "sim/model/contention.h"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cmath>

#include "sim/model/memory_balance.h"
#include "traces/model/expects.h"

namespace corun::sim {
namespace {

constexpr int kRandomnessBisections = 12;
constexpr int kRounds = 5;
/// Those beyond are taken to wait unstretched.
constexpr std::size_t kMostContenders = kMostPressers;
constexpr int kNewtonSteps = 20;
constexpr double kClose = 1e-6;

/// The same as `kOwnTurnover` of the others in a block's time.
constexpr double kOthersTurnover = 0.6;
/// How long it is between two uses of what a launch finds in L2 from those before it, in lengths of the
/// launch: its input is a launch old, a shortcut past some launches or what several read is older.
constexpr double kLaunchesBetweenUses = 2;

/// Launches on an SM.
constexpr std::size_t kMostShares = 64;
constexpr double kLeastShare = 0.002;
/// An instruction of a younger block that is under way when an older one is ready.
constexpr double kUnderWay = 0.5;
/// How strictly each serves the oldest first: 1, or by turns: 0.  Of its rate alone the older of two codes
/// that fill the data pipe of L1 and shared memory has 0.56 to 0.77, of those that fill another 0.99 to 1.00
/// (experiments/h200/contention, `pairs`).
constexpr PipeUse kByAge{1, 1, 0.4, 1, 1, 1};

/// What a contender asks of the memory under a given company.
struct Asked {
  double read, write;  // ps of DRAM a block, at the rate of streaming
  double missing;      // share of its waits that is for DRAM
  double issue, fixed;
  double clock;  // what they are longer by
  double delay(const BlockLoad& load, const MemoryLimits& m, double f, double g) const {
    const double inflation = load.memory.staged ? g + missing * m.dram.over_l2_ratio * (f - 1)
                                       : (1 - missing) * g + missing * m.dram.over_l2_ratio * f;
    return fixed + load.memory.wait_ps * inflation;
  }
};

/// What the company leaves a launch of its data in L2.
struct Kept {
  double rereads = 1;  // share of what it re-reads
  double uncached = 1;  // share of the rest that is not in L2 from launches before

  double bytes_read(const BlockLoad& load) const { return (load.memory.read_bytes + load.memory.reread_bytes * (1 - rereads)) * uncached; }
  double bytes_moved(const BlockLoad& load) const { return bytes_read(load) + load.memory.write_bytes * uncached; }
};

/// The share that is not in L2, if others have moved `bytes` since.
double uncached_after(const BlockLoad& load, double bytes, const MemoryLimits& m) {
  const double own = (load.memory.read_bytes + load.memory.write_bytes) * load.extent.blocks;
  const double alone = survival(own, m.l2.shared_bytes, m.l2.own_bytes);
  if (alone <= 0) return load.memory.uncached_share;
  return 1 - (1 - load.memory.uncached_share) * survival(own + bytes, m.l2.shared_bytes, m.l2.own_bytes) / alone;
}

/// What a block takes where launches of wgmma may be on `sms` SMs, each counted by itself, over what it took when they were on as many as
/// its own was alone.
double wgmma_time_on(const BlockLoad& load, double sms, const MemoryLimits& m) {
  const auto time = [&](double on) { return m.sm.wgmma_least + (1 - m.sm.wgmma_least) * std::min(1.0, on / m.sm.sms); };
  return 1 - load.sm.wgmma_share * (1 - std::min(1.0, time(sms) / time(load.sm.wgmma_sms)));
}

Asked ask(const BlockLoad& load, const MemoryLimits& m, const Kept& kept, bool slow_clock, double wgmma_sms) {
  Asked a;
  const double read = kept.bytes_read(load);
  a.read = read / m.dram.read_bytes_per_ps;
  a.write = load.memory.write_bytes * kept.uncached / m.dram.write_bytes_per_ps;
  a.missing = load.memory.l2_read_bytes <= 0 ? 0 : load.memory.staged ? kept.uncached : std::min(1.0, read / load.memory.l2_read_bytes);
  // A tensor kernel anywhere slows the clock for others, unless it is slower already; what wgmma gains on few SMs is a matter of the clock too.
  const double clock = load.sm.wgmma_share > 0                ? wgmma_time_on(load, wgmma_sms, m)
                       : slow_clock && !load.sm.tensor ? std::max(1.0, m.sm.tensor_clock_ratio / load.sm.clock_ratio)
                                                    : 1;
  a.issue = load.sm.issue_ps * clock;
  a.fixed = load.sm.fixed_ps * clock;
  a.clock = clock;
  return a;
}

Presser presser(const Contender& c, const Asked& asked, const MemoryLimits& m) {
  const BlockLoad& load = *c.load;
  Presser p;
  p.blocks = c.blocks, p.per_sm = c.blocks / c.sms;
  p.issue = asked.issue, p.arrival_randomness = load.sm.arrival_randomness;
  p.by_f = load.memory.wait_ps * asked.missing * m.dram.over_l2_ratio;
  p.by_g = load.memory.staged ? load.memory.wait_ps : load.memory.wait_ps * (1 - asked.missing);
  p.delay = load.memory.staged ? asked.fixed - p.by_f : asked.fixed;
  p.l2 = load.memory.l2_ps, p.read = asked.read, p.write = asked.write;
  p.dram_cost = load.memory.dram_cost_ratio, p.random = load.memory.random;
  return p;
}

void by_age(std::span<const SmShare> shares, bool at_random, std::span<double> times) {
  // From the oldest on: what the older ones leave (Sevcik's shadow server), and part of what is under way.
  // What does not come at random waits less, as in `queue`.
  double older = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const SmShare& s = shares[i];
    const double issue = s.issue_ps / std::max(kLeastShare, 1 - older);
    const double random = queue(issue, s.blocks, s.delay_ps);
    times[i] = s.delay_ps + (at_random ? random
                                    : std::max(s.issue_ps + s.arrival_randomness * (random - s.issue_ps),
                                               s.blocks * issue - s.delay_ps));
    older += s.blocks * s.issue_ps / times[i];
  }
  double younger = 0;
  for (std::size_t i = shares.size(); i-- > 0;) {
    const double use = shares[i].blocks * shares[i].issue_ps / times[i];
    times[i] += kUnderWay * (at_random ? 1 : shares[i].arrival_randomness) * younger * shares[i].issue_ps;
    younger += use;
  }
}

void processor_sharing_times(std::span<const SmShare> shares, std::span<double> times) {
  // Whoever arrives at the slots finds `waiting` others there, less itself.  How many it finds grows ever
  // more slowly with how many wait: Newton's steps come down to where both are the same.
  double waiting = 0;
  for (const SmShare& s : shares) waiting += s.blocks;
  for (int i = 0; i < kNewtonSteps; ++i) {
    double found = 0, slope = 0;
    for (std::size_t k = 0; k < shares.size(); ++k) {
      const SmShare& s = shares[k];
      const double b = s.issue_ps * waiting - s.delay_ps;
      const double root = std::sqrt(b * b + 4 * s.issue_ps * (1 + waiting) * s.delay_ps);
      const double r = (b + root) / 2;
      times[k] = r + s.delay_ps;
      if (s.issue_ps <= 0) continue;
      found += s.blocks * r / times[k];
      slope += s.blocks * s.delay_ps * s.issue_ps / 2 * (1 + (b + 2 * s.delay_ps) / root) / (times[k] * times[k]);
    }
    const double step = (waiting - found) / (1 - slope);
    if (step < kClose * waiting) break;
    waiting -= step;
  }
}

/// From the times that all would take if they came to the slots at random: what does not waits less, as far
/// as the slots can serve all.
void less_randomness(std::span<const SmShare> shares, std::span<double> times) {
  if (std::none_of(shares.begin(), shares.end(), [](const SmShare& s) { return s.arrival_randomness < 1; }))
    return;
  const auto time = [&](std::size_t i, double more) {
    const SmShare& s = shares[i];
    const double least = s.delay_ps + s.issue_ps;
    return least + (s.arrival_randomness + more * (1 - s.arrival_randomness)) * (times[i] - least);
  };
  const auto use = [&](double more) {
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum += shares[i].blocks * shares[i].issue_ps / time(i, more);
    return sum;
  };
  const double most = std::max(1.0, use(1));
  double low = 0, high = 1;
  if (use(0) <= most) high = 0;
  for (int i = 0; i < kRandomnessBisections && high > 0; ++i) {
    const double middle = (low + high) / 2;
    (use(middle) > most ? low : high) = middle;
  }
  for (std::size_t i = 0; i < shares.size(); ++i) times[i] = time(i, high);
}

}  // namespace

MemoryLimits limits_of(const Gpu& gpu) {
  // Divided, not multiplied by 1e-12: correctly rounded.
  const auto per_ps = [](double per_second) { return per_second / 1e12; };
  const auto ps = [](Time time) { return static_cast<double>(time.count()); };
  const Contention& c = gpu.contention;
  MemoryLimits m;
  m.dram.read_bytes_per_ps = per_ps(c.dram_read_bytes_per_second);
  m.dram.write_bytes_per_ps = per_ps(c.dram_write_bytes_per_second);
  m.l2.read_bytes_per_ps = per_ps(c.l2_read_bytes_per_second);
  m.l2.write_bytes_per_ps = per_ps(c.l2_write_bytes_per_second);
  m.dram.over_l2_ratio = c.dram_over_l2_latency_ratio;
  m.dram.latency_ps = ps(c.dram_latency);
  m.dram.read_queueing = c.dram_read_queueing_factor;
  m.dram.write_queueing = c.dram_write_queueing_factor;
  m.dram.queue_full_use = c.dram_queue_full_use;
  m.dram.backlog = c.dram_backlog_factor;
  m.l2.queueing = c.l2_queueing_factor;
  m.l2.sector_cost_ratio = c.l2_sector_cost_ratio;
  m.l2.wait_ps = ps(c.l2_wait);
  m.l2.own_bytes = static_cast<double>(c.l2_own_bytes);
  m.l2.shared_bytes = static_cast<double>(c.l2_shared_bytes);
  m.l2.first_loss_bytes = static_cast<double>(c.l2_first_loss_bytes);
  m.l2.dirty_bytes = static_cast<double>(c.l2_dirty_bytes);
  m.sm.read_bytes_per_ps = per_ps(c.sm_read_bytes_per_second);
  m.sm.write_bytes_per_ps = per_ps(c.sm_write_bytes_per_second);
  m.sm.sector_bytes_per_ps = per_ps(c.sm_sector_bytes_per_second);
  m.sm.issue_by_age = c.issue_by_age_share;
  m.sm.tensor_clock_ratio = c.tensor_clock_ratio;
  m.sm.wgmma_least = c.wgmma_least;
  m.sm.sms = gpu.sms;
  m.sm.launch_cost_ps = ps(c.launch_cost);
  return m;
}

double survival(double bytes, double shared, double all) {
  return std::clamp((all - bytes) / (all - shared), 0.0, 1.0);
}

namespace {

/// What each of the first contenders asks for, in `asked`, when the company leaves them what it does of their
/// data in L2; and the use of L2 and DRAM then.
MemoryBalance balance_of(std::span<const Contender> contenders, const MemoryLimits& m,
                         std::array<Asked, kMostContenders>& asked) {
  const std::size_t n = std::min(contenders.size(), kMostContenders);
  std::array<Kept, kMostContenders> kept;
  std::array<double, kMostContenders> moved, time;  // bytes in a block's time
  bool tensor = false, loses = false;
  double wgmma_sms = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const BlockLoad& load = *contenders[i].load;
    tensor = tensor || load.sm.tensor;
    if (load.sm.wgmma_sms > 0) wgmma_sms += load.extent.sms_alone();
    loses = loses || load.memory.reread_bytes > 0 || (n > 1 && load.memory.uncached_share < 1);
    kept[i].uncached = load.memory.uncached_share;
  }
  MemoryBalance s;
  boost::container::static_vector<Presser, kMostContenders> pressers;
  for (int round = 0; round < (loses ? kRounds : 1); ++round) {
    pressers.clear();  // the others wait, but are waited for by none
    for (std::size_t i = 0; i < n; ++i) {
      asked[i] = ask(*contenders[i].load, m, kept[i], tensor, wgmma_sms);
      if (contenders[i].load->memory.l2_ps > 0 || asked[i].read + asked[i].write > 0)
        pressers.push_back(presser(contenders[i], asked[i], m));
    }
    s = balance({pressers.data(), pressers.size()}, m, round == 0 ? nullptr : &s);
    if (!loses) break;
    double all = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Contender& c = contenders[i];
      const double d = asked[i].delay(*c.load, m, s.f, s.g);
      time[i] = queue(asked[i].issue, c.blocks / c.sms, d, c.load->sm.arrival_randomness) + d;
      moved[i] = kept[i].bytes_moved(*c.load) * c.blocks;
      all += moved[i] / time[i];
    }
    bool same = true;
    const auto change = [&](double& share, double now) {
      const double next = round == 0 ? now : (share + now) / 2;
      same = same && next == share;
      share = next;
    };
    for (std::size_t i = 0; i < n; ++i) {
      const BlockLoad& load = *contenders[i].load;
      const double others = (all - moved[i] / time[i]) * time[i];
      if (load.memory.reread_bytes > 0)
        change(kept[i].rereads,
               survival(kOwnTurnover * moved[i] + kOthersTurnover * others, m.l2.first_loss_bytes, m.l2.own_bytes));
      if (n == 1 || load.memory.uncached_share >= 1) continue;
      const double waves = std::max(1.0, load.extent.blocks / contenders[i].blocks);
      change(kept[i].uncached, uncached_after(load, kLaunchesBetweenUses * waves * others, m));
    }
    if (same) break;  // further rounds would find what this one did
  }
  return s;
}

}  // namespace

MemoryUse share_memory(std::span<Contender> contenders, const MemoryLimits& m) {
  CORUN_EXPECTS_SLOW(std::ranges::all_of(
      contenders, [](const Contender& c) { return c.load != nullptr && c.blocks > 0 && c.sms > 0; }));
  const std::size_t n = std::min(contenders.size(), kMostContenders);
  std::array<Asked, kMostContenders> asked;
  const MemoryBalance s = balance_of(contenders, m, asked);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Contender& c = contenders[i];
    c.delay_ps = i < n ? asked[i].delay(*c.load, m, s.f, s.g) : c.load->sm.fixed_ps + c.load->memory.wait_ps;
    c.issue_ps = i < n ? asked[i].issue : c.load->sm.issue_ps;
  }
  return {s.use, s.f};
}

void meet(std::span<const Contender> contenders, const MemoryLimits& m, std::span<Met> met) {
  CORUN_EXPECTS(met.size() == contenders.size());
  std::array<Asked, kMostContenders> asked;
  const MemoryBalance s = balance_of(contenders, m, asked);
  const double backlog = backlog_at(s.use, m);
  for (std::size_t i = 0; i < contenders.size(); ++i)
    met[i] = i < kMostContenders ? Met{asked[i].clock, asked[i].missing, s.g - m.dram.over_l2_ratio * backlog,
                                       s.f - backlog, backlog}
                                 : Met{};
}

double delay_of(const BlockLoad& load, const Met& met, const MemoryLimits& m) {
  const double f = met.dram + met.backlog, g = met.l2 + m.dram.over_l2_ratio * met.backlog;
  Asked asked{};
  asked.missing = met.missing;
  asked.fixed = load.sm.fixed_ps * met.clock;
  return asked.delay(load, m, f, g);
}

void settle_alone(BlockLoad& load, const MemoryLimits& limits) {
  CORUN_EXPECTS(load.extent.residents != 0 && load.extent.sms != 0);
  CORUN_EXPECTS(load.extent.blocks > 0 && load.extent.places != 0);
  Contender one{&load, load.extent.blocks_alone(), load.extent.sms_alone(), 0};
  share_memory({&one, 1}, limits);
  load.delay_alone_ps = one.delay_ps;
  load.alone_ps = alone_on_sm(load.sm.issue_ps, load.extent.residents, one.delay_ps, load.sm.arrival_randomness);
}

void slow_down(BlockLoad& load, double clock_ratio, const MemoryLimits& limits) {
  CORUN_EXPECTS(clock_ratio >= 1);
  const double own = load.sm.tensor ? limits.sm.tensor_clock_ratio : 1;  // at which its times alone were taken
  if (clock_ratio <= own) return;
  load.sm.issue_ps *= clock_ratio / own;
  load.sm.fixed_ps *= clock_ratio / own;
  load.sm.clock_ratio = clock_ratio;
  settle_alone(load, limits);
}

double alone_on_sm(double issue, double blocks, double delay, double arrival_randomness) {
  return delay + queue(issue, blocks, delay, arrival_randomness);
}

std::uint32_t apart(const Starts& older, const Starts& younger) {
  const std::int64_t spread =
      std::max<std::int64_t>(1, older.last - older.first + younger.last - younger.first);
  const std::int64_t distance = younger.mean - older.mean;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(kMostApart, distance * (kMostApart + 1) / spread));
}

namespace {

/// Of what the older launches need there, the share that counters do not account for: they wait by
/// themselves, and do not keep the younger from it.
double not_taken(std::span<const SmShare> shares) {
  double needed = 0, taken = 0;
  for (const SmShare& s : shares.first(shares.size() - 1)) {
    needed += s.blocks * s.issue_ps;
    taken += s.blocks * s.issue_ps * s.accounted[kSlots];
  }
  return needed > 0 ? 1 - taken / needed : 0;
}

/// Of what all need: a pipe that is known, or something that no counter names.  In the second case the older
/// wait as if all came at random, and only then all a part of that: chains beside loads are further off
/// otherwise.
void share_one(std::span<SmShare> shares, std::uint32_t apart, double by_age_here, bool known,
               const MemoryLimits& m) {
  std::array<double, kMostShares> aged, turned, times;
  by_age(shares, !known, aged);
  double age = apart == kProcessorSharing ? 0 : m.sm.issue_by_age + (1 - m.sm.issue_by_age) * apart / kMostApart;
  age *= by_age_here * (1 - not_taken(shares));
  if (age < 1) {
    processor_sharing_times(shares, turned);
    if (known) less_randomness(shares, turned);
  }
  for (std::size_t i = 0; i < shares.size(); ++i)
    times[i] = age < 1 ? 1 / ((1 - age) / turned[i] + age / aged[i]) : aged[i];
  if (!known) less_randomness(shares, times);
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i].time_ps = times[i];
}

/// Whether no launch needs `pipe` more than `other`: then none waits longer there.
bool covered(std::span<const SmShare> shares, std::size_t pipe, std::size_t other) {
  return std::ranges::all_of(shares, [&](const SmShare& s) { return s.uses[pipe] <= s.uses[other]; });
}

bool matters(std::span<const SmShare> shares, std::size_t pipe) {
  for (std::size_t other = 0; other < kPipes; ++other)
    if (other != pipe && covered(shares, pipe, other) && (other < pipe || !covered(shares, other, pipe)))
      return false;
  return true;
}

}  // namespace

void share_sm(std::span<SmShare> shares, std::uint32_t apart, const MemoryLimits& m) {
  CORUN_EXPECTS_SLOW(!shares.empty() && shares.size() <= kMostShares);
  CORUN_EXPECTS_SLOW(apart <= kProcessorSharing);
  if (std::ranges::all_of(shares, [](const SmShare& s) { return s.uses == kSlotsAlone; }))
    return share_one(shares, apart, kByAge[kSlots], false, m);
  std::array<double, kMostShares> alone;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    SmShare& s = shares[i];
    s.time_ps = alone[i] = alone_on_sm(s.issue_ps, s.blocks, s.delay_ps, s.arrival_randomness);
  }
  for (std::size_t pipe = 0; pipe < kPipes; ++pipe) {
    if (!matters(shares, pipe)) continue;
    boost::container::static_vector<SmShare, kMostShares> users;
    boost::container::static_vector<std::size_t, kMostShares> whose;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const SmShare& s = shares[i];
      const double here = s.issue_ps * s.uses[pipe];
      if (here <= 0) continue;
      // The rest of its time it spends elsewhere, waiting for its own launch's blocks at its busiest pipe
      // included.
      users.push_back({here,
                       s.uses[pipe] < 1 ? alone[i] - here : s.delay_ps,
                       s.blocks,
                       0,
                       s.arrival_randomness,
                       kSlotsAlone,
                       {s.accounted[pipe]}});
      whose.push_back(i);
    }
    if (users.size() < 2) continue;
    share_one({users.data(), users.size()}, apart, kByAge[pipe], true, m);
    for (std::size_t k = 0; k < users.size(); ++k) {
      const SmShare& u = users[k];
      const double longer = u.time_ps - alone_on_sm(u.issue_ps, u.blocks, u.delay_ps, u.arrival_randomness);
      SmShare& s = shares[whose[k]];
      s.time_ps = std::max(s.time_ps, alone[whose[k]] + longer);
    }
  }
}

}  // namespace corun::sim
