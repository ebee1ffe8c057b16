// Looks ahead: at each occasion it forecasts what would become of the present work under each of a few ways
// of deciding, and goes on in the way that is best for its objective.  This is the rollout of dynamic
// programming (Bertsekas, "Dynamic Programming and Optimal Control", section 6.4: one step of policy
// improvement over heuristics that are simulated) with a receding horizon, the forecast being whatever it was
// given.
//
// The ways: now (all that is pending, real-time launches at the highest priority); hold (best-effort launches
// wait until no real-time request is served or waits); part (best-effort launches are kept to `part` of the
// TPCs while one is); preempt (they come off the GPU at their next blocks, as under reef-n); in-turn
// (exclusive access: one client at a time, the one whose launch has waited longest).  In all of them at most
// `depth` best-effort launches of a stream are on the GPU, so that it matters what is held back.
//
// An occasion is a request that comes or ends, and `every_us` since the last one.  Between, the chosen way
// decides, and until a forecast is there that takes its time.  Equally good ways: the first of `ways`.
//
// Leaves out: requests that have not come, and what the forecast leaves out.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/registry.h"
#include "policies/real_time_mode.h"

namespace corun {
namespace {

enum class Way : std::uint8_t { now, hold, part, preempt, exclusive };
enum class Objective : std::uint8_t { p99, stp, deadlines };

const std::vector<std::pair<std::string, Way>>& ways_by_name() {
  static const std::vector<std::pair<std::string, Way>> all{{"now", Way::now},
                                                            {"hold", Way::hold},
                                                            {"part", Way::part},
                                                            {"preempt", Way::preempt},
                                                            {"in-turn", Way::exclusive}};
  return all;
}

std::vector<Way> read_ways(const std::string& text) {
  std::vector<Way> ways;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto found = std::ranges::find(ways_by_name(), name, &std::pair<std::string, Way>::first);
    if (found == ways_by_name().end())
      throw InputError("", "--policy",
                       "lookahead:ways=" + text + " names a way '" + name + "' that there is not",
                       "use some of now/hold/part/preempt/in-turn");
    ways.push_back(found->second);
    at = end + 1;
  }
  return ways;
}

/// How good an outlook is; less is better, what stands first counts first.
using Score = std::array<double, 3>;

class Lookahead final : public Policy {
 public:
  explicit Lookahead(const Parameters& p)
      : ways_(read_ways(p.text("ways"))),
        objective_(p.text("objective") == "stp"         ? Objective::stp
                   : p.text("objective") == "deadlines" ? Objective::deadlines
                                                        : Objective::p99),
        slack_(p.number("slack", 0, 1000)),
        part_(p.number("part", 0, 1)),
        depth_(static_cast<std::uint32_t>(p.number("depth", 1, 1e6))),
        horizon_(microseconds(p.number("horizon_us", 1, 1e9))),
        every_(microseconds(p.number("every_us", 1, 1e9))),
        events_(static_cast<std::uint64_t>(p.number("budget_events", 1, 1e12))) {
    p.choice("objective", {"p99", "stp", "deadlines"});
    chosen_ = ways_.front();
    for (const Way way : ways_)
      asked_about_.push_back([this, way](const Snapshot& then, std::vector<Decision>& decisions) { go(way, then, decisions); });
  }

  std::string_view name() const override { return "lookahead"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order, Capability::priority}};
    if (has(Way::part)) needed.capabilities.add(Capability::tpc_mask);
    if (has(Way::preempt)) needed.capabilities.add(Capability::preempt_at_block);
    needed.forecast = true;
    return needed;
  }
  void look_ahead(Forecast& forecast) override { forecast_ = &forecast; }
  void start(const Topology& topology, std::span<const ClientView>) override {
    const Gpu& gpu = topology.gpu;
    const auto tpcs = static_cast<std::uint32_t>(part_ * gpu.tpcs());
    rest_ = TpcMask::range(gpu.tpcs() - std::clamp(tpcs, 1u, gpu.tpcs()), gpu.tpcs());
    highest_ = 1 - static_cast<std::int32_t>(gpu.priority_levels);
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    if (ways_.size() > 1) {
      hear();  // of an earlier occasion
      due_ = due_ || occasion(now);
      if (due_) ask(now);
      hear();
    }
    go(chosen_, now, decisions);
  }

 private:
  static Time microseconds(double us) { return Time{static_cast<std::int64_t>(us * 1e6)}; }
  bool has(Way way) const { return std::ranges::find(ways_, way) != ways_.end(); }

  bool occasion(const Snapshot& now) const {
    const bool requests = std::ranges::any_of(now.notices, [](const Notice& n) {
      return std::holds_alternative<RequestArrived>(n) || std::holds_alternative<RequestFinished>(n);
    });
    return requests || now.now >= looked_at_ + every_;
  }

  void ask(const Snapshot& now) {
    const bool nothing = now.pending.empty() && now.running.empty();
    if (!nothing && !forecast_->ask(now, asked_about_, {now.now + horizon_, std::max<std::uint64_t>(1, events_ / ways_.size())}))
      return;
    looked_at_ = now.now;
    due_ = false;
  }

  void hear() {
    if (const std::optional<Foretold> told = forecast_->answer()) choose(told->of, told->outlooks);
  }

  void choose(const Snapshot& then, const std::vector<Outlook>& outlooks) {
    std::vector<Score> scores;
    for (const Outlook& o : outlooks) scores.push_back(score(then, o));
    if (objective_ == Objective::p99) allow_slack(then, outlooks, scores);
    chosen_ = ways_[static_cast<std::size_t>(std::ranges::min_element(scores) - scores.begin())];
  }

  /// us from its arrival to its end, of the real-time requests that are there: at least, where one does not
  /// end.
  double latency(const Snapshot& now, const Outlook& o, bool& open) const {
    double sum = 0;
    for (const ClientView& c : now.clients) {
      if (c.client->service_class != ServiceClass::real_time || (!c.busy && c.requests_waiting == 0))
        continue;
      const Time ends = o.clients[c.id.value].request_ends;
      open = open || ends == kNever;
      const Time came = c.busy ? c.arrived_at : c.waits_since;
      sum += to_ns((ends == kNever ? o.reached : ends) - came) / 1e3;
    }
    return sum;
  }

  /// Work done per time, of those that count: of all, or of those that are not real-time.
  static double rate(const Snapshot& now, const Outlook& o, bool of_all) {
    Time work{};
    for (const ClientView& c : now.clients)
      if (of_all || c.client->service_class != ServiceClass::real_time) work += o.clients[c.id.value].work;
    const Time span = o.reached - now.now;
    return span > Time{} ? static_cast<double>(work.count()) / static_cast<double>(span.count()) : 0;
  }

  Score score(const Snapshot& now, const Outlook& o) const {
    bool open = false;
    const double us = latency(now, o, open);
    switch (objective_) {
      case Objective::stp:
        return {-rate(now, o, true), us, 0};
      case Objective::deadlines:
        return {late(now, o), -rate(now, o, false), us};
      case Objective::p99:
        break;
    }
    return {open ? 1.0 : 0.0, us, -rate(now, o, false)};
  }

  /// Requests that end after their deadlines, and by how much of them.
  static double late(const Snapshot& now, const Outlook& o) {
    double sum = 0;
    for (const ClientView& c : now.clients) {
      if (!c.client->deadline || (!c.busy && c.requests_waiting == 0)) continue;
      const Time due = (c.busy ? c.arrived_at : c.waits_since) + *c.client->deadline;
      const Time ends = std::min(o.clients[c.id.value].request_ends, std::max(o.reached, due));
      if (ends > due || (o.clients[c.id.value].request_ends == kNever && o.reached >= due))
        sum += 1 + to_seconds(ends - due) / to_seconds(*c.client->deadline);
    }
    return sum;
  }

  /// Ways whose real-time requests end within `slack` of the earliest are equally good at that.
  void allow_slack(const Snapshot& now, const std::vector<Outlook>& outlooks,
                   std::vector<Score>& scores) const {
    const Score best = *std::ranges::min_element(scores);
    for (std::size_t i = 0; i < scores.size(); ++i)
      if (scores[i][0] == best[0] && scores[i][1] <= best[1] * (1 + slack_))
        scores[i] = {best[0], best[1], -rate(now, outlooks[i], false)};
  }

  void go(Way way, const Snapshot& now, std::vector<Decision>& decisions) const {
    const bool urgent = std::ranges::any_of(now.clients, [](const ClientView& c) {
      return c.client->service_class == ServiceClass::real_time && (c.busy || c.requests_waiting != 0);
    });
    if (way == Way::exclusive) return one_client(now, decisions);
    if (way == Way::preempt && urgent)
      take_off_best_effort(now, decisions, decide::Stop::at_block, [](const LaunchView&) { return true; });
    const bool held = urgent && (way == Way::hold || way == Way::preempt);
    for (const LaunchId id : now.first_pending([&](const StreamView& s) { return most(now, s, held); })) {
      const LaunchView& l = now.launch(id);
      decide::Launch launch{id, is_real_time(now, l) ? highest_ : 0};
      if (way == Way::part && urgent && !is_real_time(now, l)) launch.tpc_mask = rest_;
      decisions.emplace_back(std::move(launch));
    }
  }

  std::size_t most(const Snapshot& now, const StreamView& s, bool held) const {
    if (is_real_time(now, s)) return s.pending.size();
    return held ? 0 : depth_ - std::min(depth_, s.running);
  }

  /// Only launches of the client that has the GPU, else of the one whose launch came first.
  void one_client(const Snapshot& now, std::vector<Decision>& decisions) const {
    const LaunchView* first = nullptr;
    for (const LaunchId id : now.running)
      if (now.launch(id).kernel != nullptr && first == nullptr) first = &now.launch(id);
    if (first == nullptr && !now.pending.empty()) first = &now.launch(now.pending.front());
    if (first == nullptr) return;
    const auto its = [&](const StreamView& s) {
      return s.client == first->client ? most(now, s, false) : std::size_t{0};
    };
    for (const LaunchId id : now.first_pending(its))
      decisions.emplace_back(decide::Launch{id, is_real_time(now, now.launch(id)) ? highest_ : 0});
  }

  std::vector<Way> ways_;
  Objective objective_;
  double slack_, part_;
  std::uint32_t depth_;
  Time horizon_, every_;
  std::uint64_t events_;
  Forecast* forecast_ = nullptr;
  TpcMask rest_;
  std::int32_t highest_ = 0;
  std::vector<WayOfDeciding> asked_about_;  // by ways_
  Way chosen_ = Way::now;
  bool due_ = false;  // an occasion, of which nothing was asked yet
  Time looked_at_{-1'000'000'000'000};
};

const Registered lookahead_policy{
    {"lookahead",
     "forecasts a few ways of deciding, and takes the one that is best for its objective",
     "rollout: Bertsekas, Dynamic Programming and Optimal Control, section 6.4",
     {{"objective",
       "p99: real-time requests end early, then best-effort work; stp: work of all; deadlines: few are "
       "missed",
       "p99"},
      {"slack", "p99: ways whose real-time requests end this much later than the earliest count as equal",
       "0.1"},
      {"ways", "of deciding, of now/hold/part/preempt/in-turn, the first where several are equally good",
       "now/part/hold"},
      {"part", "of the TPCs, for best-effort launches in the way `part`", "0.5"},
      {"depth", "launches of a best-effort stream on the GPU at a time", "4"},
      {"horizon_us", "how far it looks ahead", "2000"},
      {"every_us", "how often it looks at least", "500"},
      {"budget_events", "simulated events of a decision, over all ways", "4000"}}},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<Lookahead>(p); }};

}  // namespace
}  // namespace corun
