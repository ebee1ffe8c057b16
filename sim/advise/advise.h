// Which way to share a GPU keeps what was promised: every setting that an operator can set up is simulated, and the
// one that serves a goal best among those that hold is named, with the margin and how sure it is.
//
// Leaves out: settings that change while the programs run, and what a setting costs to change.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/advise/promise.h"
#include "sim/advise/setting.h"
#include "sim/run/intervals.h"
#include "sim/run/run.h"
#include "traces/timeline/seeds.h"

namespace corun::sim {

/// Measured times repeat within this: goals that are nearer are no different (kRepeats in sim/run/intervals.cpp).
inline constexpr double kClose = 0.03;
/// Difference of two goals, as a share of the second.
double apart(double better, double than);

/// A GPU and the trace as it runs there.
struct AdvisedCard {
  Gpu gpu;
  Trace trace;
};

/// `trace`, whose times are of `from`, on `to`: carried over where they differ.
AdvisedCard card_of(const Trace& trace, const Gpu& from, const Gpu& to);

struct Tried {
  std::size_t card = 0;
  Setting setting;
  std::string refused;             // not empty: it cannot run, and why
  std::vector<RunResult> results;  // under the first of the seeds, or more
  RunResult together;              // of these; what is promised is judged by it
  double use = 0;        // of what was promised, the largest: value / limit; infinite where requests are dropped
  double worst_use = 0;  // the same at the bad ends of intervals
  std::size_t tightest = 0;  // which promise that is
  std::size_t held_in = 0;   // of the results, how many hold by themselves
  double value = 0;          // of the goal; larger is better, also for latencies (their negative)
  std::vector<Basis> bases;  // of the clients

  bool ran() const { return refused.empty(); }
  bool holds() const { return ran() && use <= 1; }
  bool holds_surely() const { return ran() && worst_use <= 1; }
  /// A third of the way to the bad end, where three of four measured values are better.
  bool holds_likely() const { return ran() && use * use * worst_use <= 1; }
  /// False where further seeds will hardly make it hold.
  bool may_hold() const;
};

/// Between what nine of ten measured values lie: what the model errs by, and where there are several seeds, by how much their mean may be
/// off.  NaN where none is given.
Interval interval_of(const Tried& tried, std::size_t client, Metric metric);

struct Advice {
  std::vector<Tried> tried;
  std::optional<std::size_t> best, next;  // `next`: the best of another mode; none holds: both empty
  std::optional<std::size_t> nearest;     // where none holds: the one that misses by least
};

struct AdviseOptions {
  std::vector<Slo> slos;
  Goal goal;
  std::vector<std::uint64_t> seeds{};  // of arrivals and hosts; empty: the trace's
  bool alone = true;                   // also simulate each client alone, without which there is no STP
  std::vector<SharingMode> modes{};  // what the user can set up; empty: all
  EngineOptions engine{};
  unsigned threads = 0;
  std::function<void(const char* stage, double fraction)> progress{};  // may be empty; from one thread at a time
  std::function<void()> interrupt{};                                  // may throw; may be empty
};

/// Every setting is simulated under the first seed.  Under all: those named, those that serve the goal better, as long as they may hold, and of
/// each mode the best that holds and is within `kClose` of the named one.  Of cards that hold the first is taken: they are given in the order in which they are wanted.
Advice advise(const std::vector<AdvisedCard>& cards, const AdviseOptions& options);

/// The one of `all` that is named: of those that hold on the first card, one that likely holds before others, then by the goal; ties: the first.
std::optional<std::size_t> best_of(const std::vector<Tried>& all);

/// The highest rate of an open-loop client at which the promises hold under the setting, in requests/s.
struct HighestRate {
  double now = 0, highest = 0;
  bool more = false;  // it holds at 16 times the rate too, where the search ends
};
/// Nothing: the client's requests follow each other, or it comes once.
std::optional<HighestRate> highest_rate(const AdvisedCard& card, const Setting& setting, std::size_t client,
                                        const AdviseOptions& options);

}  // namespace corun::sim
