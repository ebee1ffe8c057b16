// Ways to share a GPU that an operator can set up today: how each is simulated, and what to type to get it.
//
// Leaves out: policies that need kernels made persistent or a library before the driver (greedy, reef, ...), and
// green contexts whose shares overlap.
#pragma once

#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

enum class SharingMode : std::uint8_t { mps, priority, streams, time_slicing, percentages, green_contexts, mig };

const char* in_words(SharingMode mode);
/// "mps", "priority", "streams", "time-slicing", "percentages", "green-contexts" or "mig".  Throws InputError.
SharingMode parse_mode(const std::string& name);

struct Setting {
  SharingMode mode;
  std::string policy;            // how it is simulated
  std::string words;             // "MPS, llm on at most 40 % of the SMs"
  std::string to_do;             // what to type or write
  bool priorities_by_class = false;  // where the trace gives none: real-time above best-effort
};

/// Settings without a split, in the order in which ties are decided: what is simplest to set up first.  For one client
/// the GPU as it is.
std::vector<Setting> plain_settings(const Trace& trace);
/// Active thread percentages: each best-effort client on at most 10, 20, ... 90 %, and the same share for each client, which
/// is what Kubernetes' device plugin sets; exclusive shares where all are of one class.
std::vector<Setting> percentage_settings(const Trace& trace);
/// The clients on SMs of their own, in units of `kGreenContextSms`; `units` of each client.
inline constexpr std::uint32_t kGreenContextSms = 8;
Setting green_context_setting(const Trace& trace, const Gpu& gpu, const std::vector<std::uint32_t>& units);
/// An instance for each client, by the divisions that the GPU allows; for one client each profile, the smallest first;
/// empty: none.
std::vector<Setting> mig_settings(const Trace& trace, const Gpu& gpu);

/// The trace as it runs under the setting.
Trace under(const Setting& setting, Trace trace);

}  // namespace corun::sim
