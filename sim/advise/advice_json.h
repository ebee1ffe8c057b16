// Advice as a document: all settings that were simulated, and which of them is named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/advise/advise.h"
#include "sim/advise/what_if.h"

namespace corun::sim {

///   version, trace, goal, goal_unit, seeds[], promised[]
///   best, next      index into tried; null: none
///   highest_rate    now_per_s, highest_per_s, even_more; where it was asked for
///   what_if[]       assumed; refused, or changes, instead and named (setting, policy, holds, use, goal, promises[]; null: none),
///                   apart, surely
///   tried[]         gpu, mode, setting, policy, do; refused, or holds, surely, use (of what was promised, the largest),
///                   worst_use (at the bad ends of intervals), held_in (of `seeds`), goal (in goal_unit), promises[] (promise,
///                   value, unit, limit, range over the seeds, interval), stp, clients[] (name, finished, dropped,
///                   throughput_per_s, mean_ms, p99_ms, p99_interval_ms, progress).  Means over the seeds; sums of finished and dropped
std::string advice_json(const std::vector<AdvisedCard>& cards, const AdviseOptions& options, const Advice& advice,
                        const std::vector<WhatIf>& what_if, const std::optional<HighestRate>& rate);

}  // namespace corun::sim
