#include "sim/model/memory_balance.h"

#include <array>
#include <boost/container/static_vector.hpp>

#include "traces/model/expects.h"

namespace corun::sim {
namespace {

/// Steps of Newton's method: whole ones first, then half ones. The functions have bends. Where the slopes on
/// the two sides of a bend differ, whole steps may jump from side to side for ever; half steps do not.
constexpr int kWholeSteps = 10, kHalfSteps = 30;
constexpr double kAtBound = 1e-8;
/// A use of DRAM below this counts as no use: the share of writes in so little traffic means nothing.
constexpr double kNoUse = 1e-9;

struct Sloped {
  double value, slope;
};

/// `queue` with its slope in the delay.
[[gnu::always_inline]] inline Sloped sloped_queue(double issue, double blocks, double delay,
                                                  double arrival_randomness) {
  const double b = blocks * issue - delay;
  const double root = std::sqrt(b * b + 4 * issue * delay);
  const double random = (b + root) / 2;
  const double slope = root > 0 ? ((2 * issue - b) / root - 1) / 2 : 0;
  if (arrival_randomness >= 1) return {random, slope};
  const double less = issue + arrival_randomness * (random - issue);
  return less > b ? Sloped{less, arrival_randomness * slope} : Sloped{b, -1};
}

/// Blocks per ps, with its slope in the delay.
[[gnu::always_inline]] inline Sloped sloped_rate(const Presser& p, double delay) {
  const Sloped slots = sloped_queue(p.issue, p.per_sm, delay, p.arrival_randomness);
  const double inverse = 1 / (slots.value + delay);
  const double rate = p.blocks * inverse;
  return {rate, -rate * inverse * (slots.slope + 1)};
}

double l2_inflation(double use, double backlog, const MemoryLimits& m) {
  return l2_wait(use, m.l2.queueing, m.dram.over_l2_ratio, backlog);
}
double dram_inflation(double use, double writes, double backlog, const MemoryLimits& m) {
  return dram_wait(use, m.dram.read_queueing + m.dram.write_queueing * writes, m.dram.queue_full_use, backlog);
}

/// A value and its slopes in F and in G.
struct Felt {
  double value = 0, by_f = 0, by_g = 0;
  Felt& operator+=(const Felt& other) {
    value += other.value, by_f += other.by_f, by_g += other.by_g;
    return *this;
  }
  friend Felt operator*(double factor, const Felt& felt) {
    return {factor * felt.value, factor * felt.by_f, factor * felt.by_g};
  }
  friend Felt operator*(const Felt& a, const Felt& b) {
    return {a.value * b.value, a.value * b.by_f + a.by_f * b.value, a.value * b.by_g + a.by_g * b.value};
  }
  friend Felt operator/(const Felt& a, const Felt& b) {
    const double ratio = a.value / b.value;
    return {ratio, (a.by_f - ratio * b.by_f) / b.value, (a.by_g - ratio * b.by_g) / b.value};
  }
};

[[gnu::always_inline]] inline Felt felt_rate(const Presser& p, double f, double g) {
  const Sloped r = sloped_rate(p, p.delay + p.by_f * f + p.by_g * g);
  return {r.value, r.slope * p.by_f, r.slope * p.by_g};
}

struct Demand {
  Felt l2, dram, written;
};

/// What a company asks for if none of its accesses cost more than streamed ones, as a rule.
struct Streamed {
  Felt l2, moved, written;
  bool dearer = false;  // some do
  [[gnu::always_inline]] void add(const Presser& p, double f, double g) {
    const Felt rate = felt_rate(p, f, g);
    l2 += p.l2 * rate;
    moved += (p.read + p.write) * rate;
    written += p.write * rate;
    dearer = dearer || p.dram_cost != 1;
  }
};

Demand demand(std::span<const Presser> pressers, double f, double g) {
  if (pressers.size() == 1) {  // as often as not
    const Presser& p = pressers.front();
    const Felt rate = felt_rate(p, f, g);
    const Felt costs = p.dram_cost * rate;
    return {p.l2 * rate, (p.read + p.write) * costs, p.write * costs};
  }
  Streamed streamed;
  if (pressers.size() == 2) {  // without a loop: neither waits for the other
    streamed.add(pressers[0], f, g);
    streamed.add(pressers[1], f, g);
  } else {
    for (const Presser& p : pressers) streamed.add(p, f, g);
  }
  const Felt& total = streamed.moved;
  Demand sum{streamed.l2, total, streamed.written};
  if (!streamed.dearer || total.value <= 0) return sum;
  boost::container::static_vector<Felt, kMostPressers> moved;  // an array would be set to 0 each time
  for (const Presser& p : pressers) moved.push_back((p.read + p.write) * felt_rate(p, f, g));
  // Accesses that cost more than streamed ones do so as far as they have the DRAM to themselves; random ones
  // share what they cost more, the opening of rows.
  sum.dram = sum.written = {};
  for (std::size_t k = 0; k < pressers.size(); ++k) {
    const Presser& p = pressers[k];
    if (p.read + p.write <= 0) continue;
    Felt more = (p.dram_cost - 1) * moved[k];
    if (p.random)
      for (std::size_t j = 0; j < pressers.size(); ++j)
        if (j != k && pressers[j].random)
          more += (std::min(p.dram_cost, pressers[j].dram_cost) - 1) * moved[j];
    Felt cost = more / total;
    cost.value += 1;
    const Felt costs = cost * moved[k];
    sum.dram += costs;
    sum.written += p.write / (p.read + p.write) * costs;
  }
  return sum;
}

double bent(double use) { return use / std::sqrt(std::sqrt(1 + use * use * use * use)); }

/// The step, or the part of it that keeps the use between 0 and kMostUse.
double kept(double use, double step) {
  if (use + step >= kMostUse) return std::min(kMostUse - use, (1 - use) * 0.9);
  return std::max(-use, step);
}

/// Gaussian elimination: takes the unknown of row kPivot out of row kRow.
template <int kPivot, int kRow>
void take_out(double (&a)[3][4]) {
  const double times = a[kRow][kPivot] / a[kPivot][kPivot];
  if constexpr (kPivot < 1) a[kRow][1] -= times * a[kPivot][1];
  a[kRow][2] -= times * a[kPivot][2];
  a[kRow][3] -= times * a[kPivot][3];
}

bool presses(std::span<const Presser> pressers) {
  return std::any_of(pressers.begin(), pressers.end(),
                     [](const Presser& p) { return p.read + p.write > 0 || p.l2 > 0; });
}

}  // namespace

bool balance_by_newton(std::span<const Presser> pressers, const MemoryLimits& m, bool started,
                       MemoryBalance& at) {
  double u = at.use, v = at.l2_use, w = at.writes;
  const bool one = pressers.size() == 1;
  if (!started) {  // what an idle memory would be asked for, as far as that stretches, bent below 1
    const Demand idle = demand(pressers, 1, 1);
    const double dram = idle.dram.value, l2 = idle.l2.value;
    w = dram > kNoUse ? idle.written.value / dram : 0.5;
    const double factor = m.dram.read_queueing + m.dram.write_queueing * w + m.dram.backlog;
    const double first_u = dram / (1 - idle.dram.by_f * factor);
    const double first_v = l2 / (1 - idle.l2.by_g * m.l2.queueing);
    u = std::min(kMostUse, bent(first_u));
    v = std::min(kMostUse, bent(first_v));
  }
  if (one) {  // whatever its share of writes is under any F and G
    const Presser& p = pressers.front();
    w = p.read + p.write > 0 ? p.write / (p.read + p.write) : 0.5;
  }
  for (int i = 0; i < kWholeSteps + kHalfSteps; ++i) {
    const double per_free = 1 / (1 - u), backlog = m.dram.backlog * u * per_free;
    const double backlog_by_u = m.dram.backlog * per_free * per_free;
    const double queued = std::min(u, m.dram.queue_full_use), per_root = 1 / std::sqrt(1 - queued);
    const double factor = m.dram.read_queueing + m.dram.write_queueing * w;
    const double f_by_w = m.dram.write_queueing * queued * per_root;
    const double f = 1 + factor * queued * per_root + backlog;
    const double queued_by_u = u < m.dram.queue_full_use ? (1 - queued / 2) * per_root * per_root * per_root : 0;
    const double f_by_u = factor * queued_by_u + backlog_by_u;
    const double per_v_root = 1 / std::sqrt(1 - v);
    const double g = 1 + m.l2.queueing * v * per_v_root + m.dram.over_l2_ratio * backlog;
    const double g_by_u = m.dram.over_l2_ratio * backlog_by_u;
    const double g_by_v = m.l2.queueing * (1 - v / 2) * per_v_root * per_v_root * per_v_root;

    const Demand asked = demand(pressers, f, g);
    const Felt writes = one                         ? Felt{w, 0, 0}
                        : asked.dram.value > kNoUse ? asked.written / asked.dram
                                                    : Felt{0.5, 0, 0};
    // What is asked for less what was supposed is 0 at the balance: the step is where its slopes say.
    const auto by_u = [&](const Felt& x) { return x.by_f * f_by_u + x.by_g * g_by_u; };
    const auto by_v = [&](const Felt& x) { return x.by_g * g_by_v; };
    const auto by_w = [&](const Felt& x) { return x.by_f * f_by_w; };
    // The step of u is found first, then, for as much of it as is kept, that of v, and of w.
    double a[3][4] = {{1 - by_w(writes), -by_v(writes), -by_u(writes), writes.value - w},
                      {-by_w(asked.l2), 1 - by_v(asked.l2), -by_u(asked.l2), asked.l2.value - v},
                      {-by_w(asked.dram), -by_v(asked.dram), 1 - by_u(asked.dram), asked.dram.value - u}};
    // Who is at the bound, and would be beyond, stays there.
    if (v > kMostUse - kAtBound && asked.l2.value > v) a[1][0] = a[1][2] = a[1][3] = 0, a[1][1] = 1;
    if (u > kMostUse - kAtBound && asked.dram.value > u) a[2][0] = a[2][1] = a[2][3] = 0, a[2][2] = 1;
    if (!one) {
      take_out<0, 1>(a);
      take_out<0, 2>(a);
    }
    take_out<1, 2>(a);
    const double part = i < kWholeSteps ? 1 : 0.5;
    const double du = kept(u, a[2][3] / a[2][2]);
    const double dv = kept(v, (a[1][3] - a[1][2] * du) / a[1][1]);
    const double dw = one ? 0 : std::clamp((a[0][3] - a[0][2] * du - a[0][1] * dv) / a[0][0], -w, 1 - w);
    const double step =
        std::max({std::abs(du) * per_free, std::abs(dv) * per_v_root * per_v_root, std::abs(dw)});
    u += part * du, v += part * dv, w += part * dw;
    // After a half step as much is left as it was long.
    if (!(step >= kNewtonClose * (part < 1 ? kNewtonClose : 1))) {
      if (!(step >= 0)) return false;  // not a number
      const double more = backlog_at(u, m);
      at = {dram_inflation(u, w, more, m), l2_inflation(v, more, m), u, v, w};
      return true;
    }
  }
  return false;
}

MemoryBalance balance(std::span<const Presser> pressers, const MemoryLimits& m, const MemoryBalance* from) {
  CORUN_EXPECTS_SLOW(pressers.size() <= kMostPressers);
  if (!presses(pressers)) return {};
  MemoryBalance found;
  if (from != nullptr) found = *from;
  if (balance_by_newton(pressers, m, from != nullptr, found)) return found;
  return balance_by_bisection(pressers, m);
}

MemoryBalance balance_by_bisection(std::span<const Presser> pressers, const MemoryLimits& m, int steps,
                                   int l2_steps, int rounds) {
  if (!presses(pressers)) return {};
  MemoryBalance s;
  for (int round = 0; round < rounds; ++round) {  // each with the share of writes that the one before found
    double writes = s.writes, low = 0, high = kMostUse;
    for (int i = 0; i < steps; ++i) {
      const double use = (low + high) / 2;
      const double backlog = backlog_at(use, m);
      s.f = dram_inflation(use, s.writes, backlog, m);
      // G for this F
      double from = 0, to = kMostUse;
      for (int j = 0; j < l2_steps; ++j) {
        const double middle = (from + to) / 2;
        const double asked = demand(pressers, s.f, l2_inflation(middle, backlog, m)).l2.value;
        (asked > middle ? from : to) = middle;
      }
      s.l2_use = from;
      s.g = l2_inflation(from, backlog, m);
      const Demand asked = demand(pressers, s.f, s.g);
      if (asked.dram.value > kNoUse) writes = asked.written.value / asked.dram.value;
      (asked.dram.value > use ? low : high) = use;
    }
    s.use = low;
    s.writes = writes;
  }
  return s;
}

}  // namespace corun::sim
