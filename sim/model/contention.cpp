#include "sim/model/contention.h"

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>
#include <cmath>

#include "sim/model/memory_balance.h"

namespace corun::sim {
namespace {

constexpr int kChanceBisections = 12;
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
    const double stretch = load.staged ? g + missing * m.dram_over_l2 * (f - 1)
                                       : (1 - missing) * g + missing * m.dram_over_l2 * f;
    return fixed + load.wait * stretch;
  }
};

/// What the company leaves a launch of its data in L2.
struct Kept {
  double rereads = 1;  // share of what it re-reads
  double cold = 1;     // share of the rest that is not in L2 from launches before

  double bytes_read(const BlockLoad& load) const { return (load.read + load.reread * (1 - rereads)) * cold; }
  double bytes_moved(const BlockLoad& load) const { return bytes_read(load) + load.write * cold; }
};

/// The share that is not in L2, if others have moved `bytes` since.
double colder(const BlockLoad& load, double bytes, const MemoryLimits& m) {
  const double own = (load.read + load.write) * load.blocks;
  const double alone = survival(own, m.l2_shared_bytes, m.l2_bytes);
  if (alone <= 0) return load.cold;
  return 1 - (1 - load.cold) * survival(own + bytes, m.l2_shared_bytes, m.l2_bytes) / alone;
}

/// What a block takes where launches of wgmma may be on `sms` SMs, each counted by itself, over what it took when they were on as many as
/// its own was alone.
double wgmma_time_on(const BlockLoad& load, double sms, const MemoryLimits& m) {
  const auto time = [&](double on) { return m.wgmma_least + (1 - m.wgmma_least) * std::min(1.0, on / m.sms); };
  return 1 - load.wgmma * (1 - std::min(1.0, time(sms) / time(load.wgmma_sms)));
}

Asked ask(const BlockLoad& load, const MemoryLimits& m, const Kept& kept, bool slow_clock, double wgmma_sms) {
  Asked a;
  const double read = kept.bytes_read(load);
  a.read = read / m.read_bytes_per_ps;
  a.write = load.write * kept.cold / m.write_bytes_per_ps;
  a.missing = load.l2_read <= 0 ? 0 : load.staged ? kept.cold : std::min(1.0, read / load.l2_read);
  // A tensor kernel anywhere slows the clock for others, unless it is slower already; what wgmma gains on few SMs is a matter of the clock too.
  const double clock = load.wgmma > 0                ? wgmma_time_on(load, wgmma_sms, m)
                       : slow_clock && !load.tensor ? std::max(1.0, m.tensor_clock / load.clock)
                                                    : 1;
  a.issue = load.issue * clock;
  a.fixed = load.fixed * clock;
  a.clock = clock;
  return a;
}

Presser presser(const Contender& c, const Asked& asked, const MemoryLimits& m) {
  const BlockLoad& load = *c.load;
  Presser p;
  p.blocks = c.blocks, p.per_sm = c.blocks / c.sms;
  p.issue = asked.issue, p.arrival_randomness = load.arrival_randomness;
  p.by_f = load.wait * asked.missing * m.dram_over_l2;
  p.by_g = load.staged ? load.wait : load.wait * (1 - asked.missing);
  p.delay = load.staged ? asked.fixed - p.by_f : asked.fixed;
  p.l2 = load.l2, p.read = asked.read, p.write = asked.write;
  p.dram_cost = load.dram_cost, p.random = load.random;
  return p;
}

void by_age(std::span<const SmShare> shares, bool at_random, std::span<double> times) {
  // From the oldest on: what the older ones leave (Sevcik's shadow server), and part of what is under way.
  // What does not come at random waits less, as in `queue`.
  double older = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const SmShare& s = shares[i];
    const double issue = s.issue / std::max(kLeastShare, 1 - older);
    const double random = queue(issue, s.blocks, s.delay);
    times[i] = s.delay + (at_random ? random
                                    : std::max(s.issue + s.arrival_randomness * (random - s.issue),
                                               s.blocks * issue - s.delay));
    older += s.blocks * s.issue / times[i];
  }
  double younger = 0;
  for (std::size_t i = shares.size(); i-- > 0;) {
    const double use = shares[i].blocks * shares[i].issue / times[i];
    times[i] += kUnderWay * (at_random ? 1 : shares[i].arrival_randomness) * younger * shares[i].issue;
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
      const double b = s.issue * waiting - s.delay;
      const double root = std::sqrt(b * b + 4 * s.issue * (1 + waiting) * s.delay);
      const double r = (b + root) / 2;
      times[k] = r + s.delay;
      if (s.issue <= 0) continue;
      found += s.blocks * r / times[k];
      slope += s.blocks * s.delay * s.issue / 2 * (1 + (b + 2 * s.delay) / root) / (times[k] * times[k]);
    }
    const double step = (waiting - found) / (1 - slope);
    if (step < kClose * waiting) break;
    waiting -= step;
  }
}

/// From the times that all would take if they came to the slots at random: what does not waits less, as far
/// as the slots can serve all.
void less_by_chance(std::span<const SmShare> shares, std::span<double> times) {
  if (std::none_of(shares.begin(), shares.end(), [](const SmShare& s) { return s.arrival_randomness < 1; }))
    return;
  const auto time = [&](std::size_t i, double more) {
    const SmShare& s = shares[i];
    const double least = s.delay + s.issue;
    return least + (s.arrival_randomness + more * (1 - s.arrival_randomness)) * (times[i] - least);
  };
  const auto use = [&](double more) {
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum += shares[i].blocks * shares[i].issue / time(i, more);
    return sum;
  };
  const double most = std::max(1.0, use(1));
  double low = 0, high = 1;
  if (use(0) <= most) high = 0;
  for (int i = 0; i < kChanceBisections && high > 0; ++i) {
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
  m.read_bytes_per_ps = per_ps(c.dram_read_bytes_per_second);
  m.write_bytes_per_ps = per_ps(c.dram_write_bytes_per_second);
  m.l2_read_bytes_per_ps = per_ps(c.l2_read_bytes_per_second);
  m.l2_write_bytes_per_ps = per_ps(c.l2_write_bytes_per_second);
  m.dram_over_l2 = c.dram_over_l2_latency_ratio;
  m.dram_latency = ps(c.dram_latency);
  m.read_queueing = c.dram_read_queueing_factor;
  m.write_queueing = c.dram_write_queueing_factor;
  m.queue_full_use = c.dram_queue_full_use;
  m.backlog = c.dram_backlog_factor;
  m.l2_queueing = c.l2_queueing_factor;
  m.l2_sector_cost = c.l2_sector_cost_ratio;
  m.l2_wait = ps(c.l2_wait);
  m.l2_bytes = static_cast<double>(c.l2_own_bytes);
  m.l2_shared_bytes = static_cast<double>(c.l2_shared_bytes);
  m.l2_first_loss = static_cast<double>(c.l2_first_loss_bytes);
  m.l2_dirty_bytes = static_cast<double>(c.l2_dirty_bytes);
  m.sm_read_bytes_per_ps = per_ps(c.sm_read_bytes_per_second);
  m.sm_write_bytes_per_ps = per_ps(c.sm_write_bytes_per_second);
  m.sm_sector_bytes_per_ps = per_ps(c.sm_sector_bytes_per_second);
  m.issue_by_age = c.issue_by_age_share;
  m.tensor_clock = c.tensor_clock_ratio;
  m.wgmma_least = c.wgmma_least;
  m.sms = gpu.sms;
  m.launch_cost = ps(c.launch_cost);
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
    tensor = tensor || load.tensor;
    if (load.wgmma_sms > 0) wgmma_sms += load.sms_alone();
    loses = loses || load.reread > 0 || (n > 1 && load.cold < 1);
    kept[i].cold = load.cold;
  }
  MemoryBalance s;
  boost::container::static_vector<Presser, kMostContenders> pressers;
  for (int round = 0; round < (loses ? kRounds : 1); ++round) {
    pressers.clear();  // the others wait, but are waited for by none
    for (std::size_t i = 0; i < n; ++i) {
      asked[i] = ask(*contenders[i].load, m, kept[i], tensor, wgmma_sms);
      if (contenders[i].load->l2 > 0 || asked[i].read + asked[i].write > 0)
        pressers.push_back(presser(contenders[i], asked[i], m));
    }
    s = balance({pressers.data(), pressers.size()}, m, round == 0 ? nullptr : &s);
    if (!loses) break;
    double all = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Contender& c = contenders[i];
      const double d = asked[i].delay(*c.load, m, s.f, s.g);
      time[i] = queue(asked[i].issue, c.blocks / c.sms, d, c.load->arrival_randomness) + d;
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
      if (load.reread > 0)
        change(kept[i].rereads,
               survival(kOwnTurnover * moved[i] + kOthersTurnover * others, m.l2_first_loss, m.l2_bytes));
      if (n == 1 || load.cold >= 1) continue;
      const double waves = std::max(1.0, load.blocks / contenders[i].blocks);
      change(kept[i].cold, colder(load, kLaunchesBetweenUses * waves * others, m));
    }
    if (same) break;  // further rounds would find what this one did
  }
  return s;
}

}  // namespace

MemoryUse share_memory(std::span<Contender> contenders, const MemoryLimits& m) {
  const std::size_t n = std::min(contenders.size(), kMostContenders);
  std::array<Asked, kMostContenders> asked;
  const MemoryBalance s = balance_of(contenders, m, asked);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Contender& c = contenders[i];
    c.delay = i < n ? asked[i].delay(*c.load, m, s.f, s.g) : c.load->fixed + c.load->wait;
    c.issue = i < n ? asked[i].issue : c.load->issue;
  }
  return {s.use, s.f};
}

void meet(std::span<const Contender> contenders, const MemoryLimits& m, std::span<Met> met) {
  std::array<Asked, kMostContenders> asked;
  const MemoryBalance s = balance_of(contenders, m, asked);
  const double backlog = backlog_at(s.use, m);
  for (std::size_t i = 0; i < contenders.size(); ++i)
    met[i] = i < kMostContenders ? Met{asked[i].clock, asked[i].missing, s.g - m.dram_over_l2 * backlog,
                                       s.f - backlog, backlog}
                                 : Met{};
}

double delay_of(const BlockLoad& load, const Met& met, const MemoryLimits& m) {
  const double f = met.dram + met.backlog, g = met.l2 + m.dram_over_l2 * met.backlog;
  Asked asked{};
  asked.missing = met.missing;
  asked.fixed = load.fixed * met.clock;
  return asked.delay(load, m, f, g);
}

void settle_alone(BlockLoad& load, const MemoryLimits& limits) {
  Contender one{&load, load.blocks_alone(), load.sms_alone(), 0};
  share_memory({&one, 1}, limits);
  load.delay_alone = one.delay;
  load.alone = alone_on_sm(load.issue, load.residents, one.delay, load.arrival_randomness);
}

void slow_down(BlockLoad& load, double stretch, const MemoryLimits& limits) {
  const double own = load.tensor ? limits.tensor_clock : 1;  // at which its times alone were taken
  if (stretch <= own) return;
  load.issue *= stretch / own;
  load.fixed *= stretch / own;
  load.clock = stretch;
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
    needed += s.blocks * s.issue;
    taken += s.blocks * s.issue * s.accounted[kSlots];
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
  double age = apart == kProcessorSharing ? 0 : m.issue_by_age + (1 - m.issue_by_age) * apart / kMostApart;
  age *= by_age_here * (1 - not_taken(shares));
  if (age < 1) {
    processor_sharing_times(shares, turned);
    if (known) less_by_chance(shares, turned);
  }
  for (std::size_t i = 0; i < shares.size(); ++i)
    times[i] = age < 1 ? 1 / ((1 - age) / turned[i] + age / aged[i]) : aged[i];
  if (!known) less_by_chance(shares, times);
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i].time = times[i];
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
  if (std::ranges::all_of(shares, [](const SmShare& s) { return s.uses == kSlotsAlone; }))
    return share_one(shares, apart, kByAge[kSlots], false, m);
  std::array<double, kMostShares> alone;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    SmShare& s = shares[i];
    s.time = alone[i] = alone_on_sm(s.issue, s.blocks, s.delay, s.arrival_randomness);
  }
  for (std::size_t pipe = 0; pipe < kPipes; ++pipe) {
    if (!matters(shares, pipe)) continue;
    boost::container::static_vector<SmShare, kMostShares> users;
    boost::container::static_vector<std::size_t, kMostShares> whose;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const SmShare& s = shares[i];
      const double here = s.issue * s.uses[pipe];
      if (here <= 0) continue;
      // The rest of its time it spends elsewhere, waiting for its own launch's blocks at its busiest pipe
      // included.
      users.push_back({here,
                       s.uses[pipe] < 1 ? alone[i] - here : s.delay,
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
      const double longer = u.time - alone_on_sm(u.issue, u.blocks, u.delay, u.arrival_randomness);
      SmShare& s = shares[whose[k]];
      s.time = std::max(s.time, alone[whose[k]] + longer);
    }
  }
}

}  // namespace corun::sim
