#include "policies/session/instances.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// Of each client, by ClientId.
std::vector<std::size_t> instance_of_clients(const Trace& trace, const std::vector<Instance>& instances) {
  std::vector<std::size_t> of(trace.clients.size());
  if (std::ranges::all_of(instances, [](const Instance& i) { return i.clients.empty(); })) {
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = i % instances.size();
    return of;
  }
  std::ranges::fill(of, instances.size());
  std::vector<std::string> names;
  for (const Client& client : trace.clients) names.push_back(client.name);
  for (std::size_t k = 0; k < instances.size(); ++k)
    for (const std::string& name : instances[k].clients) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        throw InputError("", "--policy",
                         fmt::format("the trace has no client {}{}", in_quotes(name),
                                     did_you_mean(name, names)),
                         fmt::format("name one of {}", list_names(names)));
      std::size_t& its = of[static_cast<std::size_t>(found - names.begin())];
      if (its != instances.size())
        throw InputError("", "--policy", fmt::format("client {} is in two instances", in_quotes(name)),
                         "name it once");
      its = k;
    }
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i] == instances.size())
      throw InputError("", "--policy", fmt::format("client {} is in no instance", in_quotes(names[i])),
                       "name every client of the trace, or none");
  return of;
}

}  // namespace

std::vector<InstancePart> divide(const Trace& trace, const std::vector<Instance>& instances) {
  const std::vector<std::size_t> of = instance_of_clients(trace, instances);
  std::vector<InstancePart> parts;
  for (std::uint32_t k = 0; k < instances.size(); ++k) {
    InstancePart part{k, instances[k], {}, trace};
    part.trace.clients.clear();
    for (std::uint32_t i = 0; i < of.size(); ++i) {
      if (of[i] != k) continue;
      part.clients.push_back(ClientId{i});
      part.trace.clients.push_back(trace.clients[i]);
    }
    if (!part.clients.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace corun
