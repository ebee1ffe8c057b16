#include "policies/session/step_times.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace corun {
namespace {

constexpr std::int64_t kWay = 8;
static_assert(StepTimes::kWhole == kWay * kWay);
constexpr Time kNotKnown{-1};

/// `wanted` from `lower` to `upper`, in eighths of the way.
std::int64_t of_the_way(std::int64_t lower, std::int64_t upper, std::int64_t wanted) {
  if (lower >= upper) return kWay;
  return (2 * kWay * (wanted - lower) + (upper - lower)) / (2 * (upper - lower));
}

/// Without an overflow, of times that are as long as any.
std::int64_t share(std::int64_t of, std::int64_t weight) {
  return of / StepTimes::kWhole * weight + of % StepTimes::kWhole * weight / StepTimes::kWhole;
}

/// The first of `row` that is at least `wanted`, else the last; and the one before it, if `wanted` lies
/// between.
template <typename Row>
auto around(const Row& row, std::uint32_t wanted) {
  auto upper = std::ranges::lower_bound(row, wanted, {}, [](const auto& one) { return one.size; });
  auto lower = upper;
  if (upper == row.end())
    lower = --upper;
  else if (upper != row.begin() && upper->size != wanted)
    --lower;
  return std::pair(lower, upper);
}

void add(StepTimes::Choice& to, std::size_t step, std::int64_t weight) {
  if (weight != 0) to.parts.push_back({step, weight});
}

}  // namespace

StepTimes::StepTimes(const Serving& serving, const Program& merged, std::span<const Kernel> kernels)
    : place_(merged.ops.size()) {
  assert(merged.parts.size() == serving.steps.size());
  for (std::size_t i = 0; i < serving.steps.size(); ++i) {
    const ServingStep& s = serving.steps[i];
    rows_[s.batch].push_back({s.tokens != 0 ? s.tokens : s.context, i});
    OfStep& of = steps_.emplace_back();
    const std::size_t end = i + 1 < merged.parts.size() ? merged.parts[i + 1].value : merged.ops.size();
    for (std::size_t op = merged.parts[i].value; op < end; ++op) {
      const auto* launch = std::get_if<Launch>(&merged.ops[op].what);
      if (launch == nullptr) continue;
      const auto& usual = kernels[launch->kernel.value].solo_time;
      place_[op] = static_cast<std::uint32_t>(of.launches.size());
      of.launches.push_back(launch->solo_time.value_or(usual.value_or(kNotKnown)));
      of.total += std::max(of.launches.back(), Time{});
    }
  }
  for (auto& [batch, row] : rows_) {  // of two steps of one size the first counts
    std::ranges::stable_sort(row, {}, &Captured::size);
    row.erase(std::ranges::unique(row, {}, &Captured::size).begin(), row.end());
  }
}

StepTimes::Choice StepTimes::prompt(std::uint32_t tokens) const {
  const auto [lower, upper] = around(rows_.at(0), tokens);
  const std::int64_t way = of_the_way(lower->size, upper->size, tokens);
  Choice choice{upper->step, {}};
  add(choice, upper->step, way * kWay);
  add(choice, lower->step, (kWay - way) * kWay);
  if (choice.parts.size() == 1) choice.program = choice.parts[0].step;
  return choice;
}

StepTimes::Choice StepTimes::decode(std::uint32_t batch, std::uint32_t context) const {
  auto more = rows_.lower_bound(std::max(batch, 1u)), fewer = more;
  if (more == rows_.end())
    fewer = --more;
  else if (more->first != batch && std::prev(more)->first != 0)
    --fewer;
  const std::int64_t way = of_the_way(fewer->first, more->first, batch);
  Choice choice;
  for (const auto& [row, weight] : {std::pair(more, way), std::pair(fewer, kWay - way)}) {
    const auto [lower, upper] = around(row->second, context);
    const std::int64_t along = of_the_way(lower->size, upper->size, context);
    if (row == more) choice.program = upper->step;
    add(choice, upper->step, weight * along);
    add(choice, lower->step, weight * (kWay - along));
  }
  if (choice.parts.size() == 1) choice.program = choice.parts[0].step;
  return choice;
}

Time StepTimes::solo_time(const Choice& choice, OpId op, Time own) const {
  const OfStep& program = steps_[choice.program];
  if (choice.parts.size() == 1 || program.launches[place_[op.value]] < Time{}) return own;
  std::int64_t time = 0;
  for (const Choice::Part& part : choice.parts) {
    const OfStep& of = steps_[part.step];
    Time its = own;
    if (of.launches.size() == program.launches.size())
      its = of.launches[place_[op.value]];
    else if (program.total > Time{})
      its = Time{std::llround(static_cast<double>(own.count()) *
                              (static_cast<double>(of.total.count()) / static_cast<double>(program.total.count())))};
    time += share((its < Time{} ? own : its).count(), part.weight);
  }
  return Time{std::max<std::int64_t>(time, 1)};
}

}  // namespace corun
