// Steps of a server among a file's programs, and their sizes: as written, or read from the programs' names.
//
// Leaves out: steps whose size only their launches would tell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "traces/model/trace.h"

namespace corun::sim {

/// "prefill_512", "decode_8x1536", "decode_b8_ctx1536", "Prefill(len=512)": the word, then the sizes in this order or each
/// with a word that says which it is.  Nothing: the name does not say all, or says what is no size.
std::optional<ServingStep> step_of_name(const std::string& name);

/// Reads "prefill:512+decode:8x2048", programs by name with their sizes; "auto": all programs but those recorded on a
/// part of the GPU, by their names.  `file` and `place` stand in messages.  Throws InputError.
std::vector<ServingStep> serving_steps(const std::string& text, const Trace& trace, const std::string& file, const std::string& place);

}  // namespace corun::sim
