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
  std::vector<std::uint32_t> percent{};      // by client, under MPS; empty: no limits
  std::vector<bool> below{};                 // by client, which has MPS's lower priority; empty: none
  std::vector<std::string> profiles{};       // of MIG, by instance
  std::vector<std::uint32_t> instance_of{};  // by client
};

/// Settings without a split, in the order in which ties are decided: what is simplest to set up first.  For one client
/// the GPU as it is.
std::vector<Setting> plain_settings(const Trace& trace);
/// Active thread percentages of each client, in percent from 10 to 100; `ranked`: with priorities by class, or the trace's.
Setting percentage_setting(const Trace& trace, const std::vector<std::uint32_t>& percent, bool ranked);
/// To begin with: each best-effort client on at most 20, 40, ... 80 %, with and without priorities; and the same share for each client,
/// which is what Kubernetes' device plugin sets; exclusive shares where all are of one class.
std::vector<Setting> percentage_settings(const Trace& trace);
/// Beside a setting of percentages: those of which one client has `step` percent more or less.
std::vector<Setting> uneven_settings(const Trace& trace, const Setting& beside, std::uint32_t step);
/// The clients on SMs of their own, in units of `kGreenContextSms`; `units` of each client.
inline constexpr std::uint32_t kGreenContextSms = 8;
Setting green_context_setting(const Trace& trace, const Gpu& gpu, const std::vector<std::uint32_t>& units);
/// An instance for each client, by the divisions that the GPU allows; for one client each profile, the smallest first;
/// empty: none.
std::vector<Setting> mig_settings(const Trace& trace, const Gpu& gpu);
/// More clients than two in two instances, which those of one share by MPS: in every way, of more than four clients by class.
std::vector<Setting> shared_mig_settings(const Trace& trace, const Gpu& gpu);

/// Why the clients' memory_bytes, of weights and caches, are more than the GPU or an instance has, with numbers; empty: they are not.
std::string does_not_hold(const Setting& setting, const Trace& trace, const Gpu& gpu);

/// The trace as it runs under the setting.
Trace under(const Setting& setting, Trace trace);

}  // namespace corun::sim
