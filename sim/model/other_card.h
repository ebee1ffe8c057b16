// What kernels that were recorded on one GPU take on another (sim/model/DECISIONS.md, 72).
//
// A kernel's time alone is its launch, which stays, and the rest.  Of a kernel with counters, or of a class whose
// kernels' counters are known, the rest is what the contention model gives the same work on the other card
// (`CarriedKernel`).  Where that is not enough to go by, the share in which it uses the bandwidth of DRAM goes
// with that, the other with the clock and the SMs that its blocks can fill.  A kernel that asks for more shared
// memory than a block can have there gets what it can have.  Its cycles at the FP64 pipe go with an SM's units of
// that, where both cards' are known.  Where the other card has fewer levels of priority, the trace's keep their
// order, from its lowest to its highest.  Left out: tensor cores of another kind, other kernels that a library would
// choose there, the host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

struct CarriedOver {
  Trace trace;
  // Number of kernels by what told how much of DRAM's bandwidth they use.
  std::uint32_t by_counters = 0, by_class = 0, by_clock = 0;
  std::uint32_t trimmed = 0;  // kernels whose shared memory an SM of the other would not give a block
  double least = 0, median = 0, most = 0;  // ratio of the times of launches
  /// Most by which a kernel that keeps the tensor cores busy is shorter than their rates on the two cards allow; 0: none
  /// uses them, or a rate is not known.
  double tensor_short = 0;
  std::map<std::int32_t, std::int32_t> priorities;  // what each became; empty: all exist there
};

/// The trace as if it had been recorded on `to`.
CarriedOver carried_over(const Trace& trace, const Gpu& from, const Gpu& to);

/// How long what a card does takes on another, over how long it takes here.
struct CardRatios {
  double dram = 1;   // bound by the bandwidth of DRAM
  double sms = 1;    // bound by SMs and clock, enough blocks for all SMs
  double clock = 1;  // bound by the clock, too few blocks for more SMs
  double fp64 = 1;   // cycles at the FP64 pipe
};
CardRatios ratios_of(const Gpu& from, const Gpu& to);

/// Multiply-adds that an SM of that compute capability starts in a cycle; 0: not known here.
struct ArchitectureRates {
  double tensor_fp16 = 0;  // dense, accumulated in FP32 on cards for data centres
  double fp32 = 0;
};
ArchitectureRates rates_of(const Gpu& gpu);

/// What no rule carries, and by what factor such a kernel may be too fast; empty: nothing that is known of.
std::string not_carried(const CarriedOver& carried, const Gpu& from, const Gpu& to);

/// What this card's results leave out of this trace, or assume for it.
std::vector<std::string> card_notes(const Trace& trace, const Gpu& gpu);

/// The rule in one sentence.
inline constexpr const char* kCarryRule =
    "of a kernel's time its launch stays; by counters or class the rest is what the contention model gives the "
    "same work there, else it goes with the clock and the SMs that its blocks fill; cycles of FP64 go with an SM's units";

}  // namespace corun::sim
