// A trace put on the GPU that a caller asked for: the one place where `--gpu`, `--gpus` and `gpu=` decide whether
// kernels' times are carried over, and where that is told (sim/sweep/DECISIONS.md, 365).
#pragma once

#include <string>
#include <vector>

#include "sim/model/other_card.h"
#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// Whether both describe one kind of card, whatever they are called: by what the chip and its memory are.
bool same_card(const Gpu& a, const Gpu& b);

/// `to`, with its file in its name where another card has that name already.
Gpu told_apart(Gpu to, const Gpu& from, const std::string& written);

/// Throws one InputError for all that are wrong.
std::vector<Gpu> read_gpus(const std::vector<std::string>& names);

/// How far the rule was off where both cards were measured; else that nobody has measured it between these.
std::string carry_error(const Gpu& from, const Gpu& to);

/// What was done, in one sentence with its error.  `what`: the file or the trace.
std::string carry_note(const CarriedOver& carried, const std::string& what, const Gpu& from, const Gpu& to);

/// Carries the trace's kernel times over to `to`; where both describe the same card, times stay as recorded.  Adds a note to the
/// trace and returns it; empty: no note was needed.
std::string carry_over(Trace& trace, const std::string& what, const Gpu& from, const Gpu& to);

/// On the GPU of that name or path, which starts at the working directory.  A trace from `file` that names no GPU was
/// recorded on this one.  Returns the note, as `carry_over` does.
std::string put_on(Trace& trace, const std::string& file, const std::string& gpu);

/// Of a measurement on one GPU that is simulated on another, behind what it is of; empty: they are of one kind.
std::string simulated_elsewhere(const Gpu& measured, const Gpu& simulated);

}  // namespace corun::sim
