#include "hw/shim/driver_calls.h"

#include <unordered_map>
#include <vector>

#include <driver_calls.inc>  // of driver_calls.txt, by hw/CMakeLists.txt

namespace corun::live {
namespace {

using enum Treatment;
constexpr DriverCall kCalls[] = {
#define CORUN_CALL(SYMBOL, SINCE, IS) {#SYMBOL, SINCE, IS},
    CORUN_ALL_CALLS
#undef CORUN_CALL
};

// The only one whose symbol is of another name, from this version on.
constexpr std::string_view kRenamed = "cuGraphInstantiate", kTo = "cuGraphInstantiateWithFlags";
constexpr int kRenamedSince = 12000;

}  // namespace

std::string_view DriverCall::name() const {
  std::string_view plain = of_thread() ? symbol.substr(0, symbol.size() - 5) : symbol;
  const std::size_t end = plain.size();
  if (end > 3 && plain.substr(end - 3, 2) == "_v") plain.remove_suffix(3);
  return plain;
}

std::span<const DriverCall> driver_calls() { return kCalls; }
int listed_version() { return CORUN_LISTED_VERSION; }

const DriverCall* meant_by(std::string_view name, int version, bool of_thread) {
  // Never destroyed: programs ask while they end.
  static const auto& by_name = *[] {
    auto* all = new std::unordered_map<std::string_view, std::vector<const DriverCall*>>;
    for (const DriverCall& call : kCalls) (*all)[call.name()].push_back(&call);
    return all;
  }();
  if (name == kRenamed && version >= kRenamedSince) name = kTo;
  const auto at = by_name.find(name);
  if (at == by_name.end()) return nullptr;
  const auto latest = [&](bool variant) {
    const DriverCall* best = nullptr;
    for (const DriverCall* call : at->second)
      if (call->of_thread() == variant && call->since <= version && (best == nullptr || best->since < call->since)) best = call;
    return best;
  };
  const DriverCall* best = of_thread ? latest(true) : nullptr;
  return best != nullptr ? best : latest(false);
}

}  // namespace corun::live
