// Multi-Instance GPU: the GPU is divided into instances before the start, as nvidia-smi does it, and each runs
// a policy of its own.  Which instances a GPU can have is in traces/mig, after the NVIDIA MIG User Guide.
//
// Leaves out: compute instances within a GPU instance, and that geometry may change while nothing runs.
#include <algorithm>

#include "policies/api/registry.h"

namespace corun {
namespace {

std::vector<std::string> pieces(const std::string& text, char separator) {
  std::vector<std::string> all;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

/// As nvidia-smi prints it, with the media engines that one instance may have: its SMs and memory are the same without.
std::string without_media(const std::string& profile) {
  constexpr std::string_view kMedia = "+me";
  return profile.ends_with(kMedia) ? profile.substr(0, profile.size() - kMedia.size()) : profile;
}

class Mig final : public Policy {
 public:
  explicit Mig(const Parameters& p) {
    std::vector<std::string> profiles = pieces(p.text("profile"), '/');
    std::size_t with_media = 0;
    for (std::string& profile : profiles) {
      const std::string plain = without_media(profile);
      with_media += plain == profile ? 0 : 1;
      profile = plain;
    }
    if (with_media > 1)
      throw InputError("", "--policy", "mig:profile=" + p.text("profile") + " gives media engines to " +
                                           std::to_string(with_media) + " instances",
                       "only one instance can have +me");
    const std::vector<std::string> clients = pieces(p.text("clients"), '/');
    if (!clients.empty() && clients.size() != profiles.size())
      throw InputError("", "--policy",
                       "mig:clients=" + p.text("clients") + " is for " + std::to_string(clients.size()) +
                           " instances, and there are " + std::to_string(profiles.size()),
                       "name the clients of each instance, as in profile=3g.71gb/4g.71gb,clients=cam+mic/llm");
    const std::string& inside = p.text("inside");
    if (profiles.empty() && inside != "fcfs")
      throw InputError("", "--policy", "mig:inside=" + inside + " is for instances, and profile= names none",
                       "name the instances, as in profile=3g.71gb/4g.71gb,inside=" + inside);
    if (!make_policy(inside)->requirements().instances.empty())
      throw InputError("", "--policy", "mig:inside=" + inside + " divides an instance again",
                       "an instance of MIG is not divided further here");
    for (std::size_t i = 0; i < profiles.size(); ++i)
      needed_.instances.push_back(
          {profiles[i], inside, clients.empty() ? std::vector<std::string>{} : pieces(clients[i], '+')});
  }
  std::string_view name() const override { return "mig"; }
  Requirements requirements() const override { return needed_; }
  /// Where nothing is divided.
  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId launch : now.pending) decisions.emplace_back(std::in_place_type<decide::Launch>, launch);
  }

 private:
  Requirements needed_{{Capability::order}, Contexts::one, false};
};

const Registered mig_policy{
    {"mig",
     "Multi-Instance GPU: instances with SMs, L2 and memory of their own, each with a policy inside",
     "NVIDIA MIG User Guide",
     {{"profile", "the instances, as 3g.71gb/4g.71gb; none: undivided", ""},
      {"clients", "of each instance, as cam+mic/llm; none: in the order of the trace, one after the other", ""},
      {"inside", "the policy in each instance, with its parameters: to be given last", "fcfs", true}},
     {.no_starvation = true},
     {"multi-instance-gpu"},
     "MIG could not be switched on where we measure; of what others published, three networks of five come out within 8 %"},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<Mig>(p); }};

}  // namespace
}  // namespace corun
