// A program's second recording, of the same program confined to a part of the GPU.
//
// Launches that are the same in both requests (same_launches.h) tell how long their kernels take on the part, and so bandwidth
// from latency.  Libraries choose kernels by the number of SMs: where launches are others, the second request is kept beside the
// first (Program::on_sms), and no launch is matched by force.  These others do the same work in both requests, so that all of
// them take as many times as long as all of them together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "traces/model/trace.h"

namespace corun {

/// As it is written, "quarter.json.gz" or "33=quarter.json.gz".
struct PartRecording {
  std::filesystem::path file;
  std::uint32_t sms = 0;   // 0: the recording says it
  bool run_again = false;  // it is the same program, run again for this
};
/// Throws InputError at `place`.
PartRecording part_recording(const std::string& text, const std::string& place);

struct JoinedPart {
  std::size_t launches = 0, same = 0;  // of all programs on the whole GPU
  bool related = false;                // a function is launched in both
  std::string in_words;
};

/// Gives the kernels of `whole`, recorded on `whole_sms` SMs, their times on the SMs on which `part` was recorded: the
/// median over a kernel's launches of how much longer they took there.  A request with other launches becomes a program of `whole`.
JoinedPart join_part(Trace& whole, std::uint32_t whole_sms, Trace part, std::uint32_t part_sms);

/// What `read` makes of the file, on the GPU and for the number of SMs that it is told, joined to `whole`.  Returns a note.
/// Throws InputError, at `place`, where the two are no recordings of one program on the whole GPU and on a part of it.
std::string join_recording(Trace& whole, const PartRecording& part, const std::string& place,
                           const std::function<Trace(const std::string& gpu, std::uint32_t sms)>& read);

/// On how many SMs its kernels were recorded.  0: on the whole GPU, as far as it says.
std::uint32_t recorded_sms(const Trace& trace);

}  // namespace corun
