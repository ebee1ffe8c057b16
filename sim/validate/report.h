// What `sim validate` prints and writes.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/validate/reference.h"
#include "sim/validate/score.h"
#include "traces/model/gpu.h"

namespace corun::sim {

struct Validation {
  const Reference& reference;
  const Gpu& gpu;
  Inputs inputs = Inputs::curve;
  const Comparison& comparison;
};

/// What the simulator was given of each kernel, and where a reader should be wary.
std::vector<std::string> notes_of(const Validation& v);
/// What was compared with what, in one line.
std::string subject_of(const Validation& v);
/// Rows with the largest error of a client's slowdown first, at most `most`.
std::vector<const ComparedRow*> worst_rows(const Comparison& comparison, std::size_t most);

std::string format_validation(const Validation& v);
nlohmann::ordered_json validation_json(const Validation& v);
/// name,measured,simulated,ratio: slowdowns and STP as "a+b/mode/a", ".../b", ".../stp".
void write_rows_csv(const Comparison& comparison, std::ostream& out);
/// The same columns: ms alone on `sms` SMs as "kernel/sms".
void write_solo_csv(const Reference& reference, const Replay& replay, std::ostream& out);

}  // namespace corun::sim
