// Which ways the threads of a block may take through a function of PTX: whether some may be through with it
// while others still come to a barrier or to an operation of a whole warp, and whether it waits for blocks
// that have not begun.
//
// A register holds the same for all threads of a block, of a warp, or of none.  What decides a branch passes
// that on to what is written between it and the place where all ways meet again.  In doubt a register
// differs.
//
// Leaves out: what is in memory, which always differs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "hw/transform/ptx_text.h"

namespace corun::hw {

/// Of a function with all that it calls.
struct PtxMeetings {
  bool of_block = false;  // barriers for all threads of a block
  bool of_some = false;   // for a number of them
  bool of_warp = false;   // operations for which lanes wait for each other
  bool of_warp_group = false;
  void add(const PtxMeetings& other) {
    of_block |= other.of_block, of_some |= other.of_some, of_warp |= other.of_warp;
    of_warp_group |= other.of_warp_group;
  }
};

/// What one instruction, not a call, is.
PtxMeetings meetings_of(const PtxLine& line);

struct PtxFlow {
  bool leaves_before_barrier = false;  // a thread may be through while others come to a barrier
  bool leaves_before_warp = false;     // or a lane while others of its warp come to such an operation
  bool leaves_before_warp_group = false;
  bool by_warps_along_x = false;  // so if 32 threads that follow each other in x are a warp
  bool waits_for_memory = false;  // a loop ends when another thread has written something
  std::string_view not_understood;
};

PtxFlow flow_of(const PtxFunction& function, const std::map<std::string_view, PtxMeetings>& called);

}  // namespace corun::hw
