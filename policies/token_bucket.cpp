// HAMi-core's limit of what a container takes of a GPU (`nvidia.com/gpucores`, CUDA_DEVICE_SM_LIMIT): a
// library in the client's process holds kernel launches back by a token bucket.  Processes have contexts of
// their own and take turns, as under `timeslice`.
//
// A launch that finds its client's tokens below zero waits at the host; else it goes, and takes what it
// costs, down to below zero.  So a launch is never split, and its debt is paid before the next.  Each
// `interval` the client gets its limit of that time, up to a full bucket.  Tokens are time of the whole GPU.
//
// Project-HAMi/HAMi-core, src/multiprocess/multiprocess_utilization_watcher.c (commit 078a2d2): rate_limiter
// and change_token for the rule, g_wait for the 120 ms.  Different there: a launch costs its number of
// blocks, however long they run, because the library does not know; and each 120 ms a controller changes the
// refill by how far NVML's utilisation of the last second is from the limit.  So the limit holds there in the
// mean of seconds and less exactly (10 beside 90 gave 1 to 6 up to 1 to 8, HAMi issue 2863).  Here a launch
// costs its time, and the refill is what that controller aims at.
//
// Left out: the 10 ms after which a waiting launch looks again; that the host thread sleeps meanwhile, its
// copies too; that launches of CUDA graphs are not limited (HAMi issue 1445), as here those of a client
// without a limit; that the bucket is empty at the start.
#include <cmath>

#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

constexpr double kLeastPercent = 0.1;

Time milliseconds(const Parameters& p, const char* key) { return from_ns(p.number(key, 0.001, 1e6) * 1e6); }

class TokenBucket final : public Policy {
 public:
  explicit TokenBucket(const Parameters& p)
      : text_(p.text("percentages")),
        percentages_(read_shares(text_, kLeastPercent, 100.0,
                                 [&] {
                                   throw InputError(
                                       "", "--policy",
                                       "token-bucket:percentages=" + text_ + " is not a list of percentages",
                                       "write one for each client, from 0.1 to 100, as in 20/80");
                                 })),
        full_(milliseconds(p, "bucket_ms")),
        interval_(milliseconds(p, "interval_ms")),
        by_blocks_(p.choice("tokens", {"sm-time", "gpu-time"}) == "sm-time") {}
  std::string_view name() const override { return "token-bucket"; }
  Requirements requirements() const override {
    return {.capabilities = {Capability::order, Capability::time_slice}, .contexts = Contexts::per_process, .kernels = true};
  }

  void start(const Topology& topology, std::span<const ClientView> clients) override {
    gpu_ = topology.gpu;
    if (percentages_.size() > 1 && percentages_.size() != clients.size())
      throw InputError("", "--policy",
                       "token-bucket:percentages=" + text_ + " has " + std::to_string(percentages_.size()) +
                           " percentages for " + std::to_string(clients.size()) + " clients",
                       "give one for all clients, or one for each, in their order in the trace");
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const Client& client = *clients[i].client;
      const double limit = percentages_.empty() ? client.quota.value_or(1) * 100
                                                : percentages_[std::min(i, percentages_.size() - 1)];
      if (limit < kLeastPercent)
        throw InputError(client.origin.file, client.origin.place + "/quota",
                         "the quota of client " + client.name + " is less than token-bucket can keep",
                         "give at least 0.001, which is 0.1 % of the GPU");
      const Time refill{std::llround(static_cast<double>(interval_.count()) * limit / 100)};
      buckets_.push_back({limit < 100, full_, refill});
    }
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    take_back_refused(now);
    refill(now.now);
    Time wake = kNever;
    for (LaunchId id : now.pending) {
      const LaunchView& launch = now.launch(id);
      Bucket& bucket = buckets_[launch.client.value];
      if (bucket.limited) {
        if (bucket.tokens < Time{}) {
          wake = std::min(wake, when_not_below_zero(bucket));
          continue;
        }
        const Time cost = cost_of(launch);
        bucket.tokens -= cost;
        charged_.push_back({id, cost});
      }
      decisions.emplace_back(std::in_place_type<decide::Launch>, id);
    }
    if (wake != kNever) decisions.emplace_back(decide::WakeAt{wake});
  }

 private:
  struct Bucket {
    bool limited = false;
    Time tokens{};
    Time refill{};  // each interval
  };
  struct Charge {
    LaunchId launch;
    Time cost{};
  };

  /// A launch that was refused is still pending, and has cost nothing.
  void take_back_refused(const Snapshot& now) {
    for (const Charge& c : charged_)
      if (const LaunchView& l = now.launch(c.launch); l.id == c.launch && l.state == LaunchState::pending)
        buckets_[l.client.value].tokens += c.cost;
    charged_.clear();
  }

  void refill(Time now) {
    const std::int64_t due = now / interval_ - refills_;
    refills_ += due;
    for (Bucket& b : buckets_) b.tokens = std::min(full_, b.tokens + due * b.refill);
  }

  Time when_not_below_zero(const Bucket& b) const {
    const std::int64_t refills = (-b.tokens + b.refill - Time{1}) / b.refill;
    return (refills_ + refills) * interval_;
  }

  /// Its time alone, times the share of the places for blocks that it takes.
  Time cost_of(const LaunchView& l) const {
    const auto places = static_cast<std::int64_t>(
        std::uint64_t{gpu_.sms} *
        std::max(1u, max_active_blocks(capacity_of(gpu_.sm), demand_of(*l.kernel, gpu_.sm))));
    const auto blocks = static_cast<std::int64_t>(l.kernel->blocks());
    if (!by_blocks_ || blocks >= places) return l.solo_time;
    return l.solo_time / places * blocks + l.solo_time % places * blocks / places;
  }

  std::string text_;
  std::vector<double> percentages_;  // by client; empty: the quotas of the trace
  Time full_, interval_;
  bool by_blocks_;
  Gpu gpu_;
  std::vector<Bucket> buckets_;  // by client
  std::int64_t refills_ = 0;     // since the clock's zero
  std::vector<Charge> charged_;  // by the last decisions
};

const Registered token_bucket_policy{
    {"token-bucket",
     "time-slicing where each client's launches wait at the host once it has had its percentage: HAMi's "
     "gpucores",
     "Project-HAMi/HAMi-core, multiprocess_utilization_watcher.c",
     {{"percentages", "of the GPU, by client, as 20/100; one for all; none: the clients' quotas in the trace",
       ""},
      {"bucket_ms", "how much time of the whole GPU a client that has paused may take at once", "120"},
      {"interval_ms", "between two refills, each of the percentage of that time", "120"},
      {"tokens",
       "what a launch costs: sm-time, its time alone times the share of the GPU that its blocks fill; "
       "gpu-time, its "
       "time alone, as NVML counts utilisation",
       "sm-time"}},
     {.no_starvation = true},
     {"hami", "gpucores"},
     "no run of HAMi-core was compared with it"},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<TokenBucket>(p); }};

}  // namespace
}  // namespace corun
