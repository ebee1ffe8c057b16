#include "policies/session/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <cmath>
#include <set>

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

/// Rounds a time beyond the captured ones, so that few different values occur.
Time coarse(double ps) {
  constexpr double kSteps = 64;
  if (ps == 0) return {};
  const double unit = std::exp2(std::floor(std::log2(std::abs(ps)))) / kSteps;
  return Time{std::llround(std::round(ps / unit) * unit)};
}

bool is_attention(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::any_of(std::array{"attention", "attn", "flash_", "fmha", "sdpa", "mha_"},
                             [&](const char* word) { return name.find(word) != std::string::npos; });
}

/// Coefficients, at least zero but for the first, that make the sum of squares least: `rows` of 1, x1, ..., y.
template <std::size_t n>
std::array<double, n> least_squares(const std::vector<std::array<double, n + 1>>& rows, std::array<bool, n> used) {
  std::array<std::array<double, n + 1>, n> m{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= n; ++j)
        if (used[i] && (j == n || used[j])) m[i][j] += row[i] * row[j];
  for (std::size_t i = 0; i < n; ++i)
    if (!used[i]) m[i][i] = 1;
  const auto sums = m;
  for (std::size_t i = 0; i < n; ++i) {  // positive definite, so without pivoting; else a column is one of the others
    if (m[i][i] <= 1e-9 * sums[i][i]) {
      used[i] = false;
      return least_squares<n>(rows, used);
    }
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = m[k][i] / m[i][i];
      for (std::size_t j = i; j <= n; ++j) m[k][j] -= factor * m[i][j];
    }
  }
  std::array<double, n> found{};
  for (std::size_t i = 0; i < n; ++i) found[i] = m[i][n] / m[i][i];
  for (std::size_t i = 1; i < n; ++i)
    if (used[i] && found[i] < 0) {
      used[i] = false;
      return least_squares<n>(rows, used);
    }
  return found;
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
  fit(serving);
  find_growth(serving);
  find_attention(serving, merged, kernels);
}

void StepTimes::fit(const Serving& serving) {
  std::set<std::uint32_t> contexts;
  std::vector<std::array<double, 4>> rows;
  double scale = 0;  // of tokens, so that the sums are of one size
  for (const ServingStep& s : serving.steps) scale = std::max(scale, double{1} * s.batch * s.context);
  for (const auto& [batch, row] : rows_)
    for (const Captured& c : row) {
      if (batch == 0) continue;
      contexts.insert(c.size);
      rows.push_back({1, double{1} * batch, batch * (c.size / scale), static_cast<double>(steps_[c.step].total.count())});
    }
  law_.batches = rows_.size() - rows_.count(0), law_.contexts = contexts.size();
  if (!law_.known()) return;
  // One context, or two sizes, cannot tell batch from tokens: all growth is taken to be the tokens'.
  const bool apart = law_.batches > 1 && law_.contexts > 1 && rows.size() > 2;
  const auto found = least_squares<3>(rows, {true, apart, true});
  law_.constant = found[0], law_.of_sequence = found[1], law_.of_token = found[2] / scale;
}

/// Compares each decode with the one of as many launches that differs from it most in tokens.
void StepTimes::find_growth(const Serving& serving) {
  const auto tokens = [&](std::size_t step) { return std::int64_t{serving.steps[step].batch} * serving.steps[step].context; };
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    std::size_t other = i;
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (serving.steps[i].batch != 0 && serving.steps[k].batch != 0 && steps_[k].launches.size() == steps_[i].launches.size() &&
          std::abs(tokens(k) - tokens(i)) > std::abs(tokens(other) - tokens(i)))
        other = k;
    if (other == i) continue;
    const std::size_t more = tokens(i) > tokens(other) ? i : other, fewer = more == i ? other : i;
    std::vector<double> grows;
    double sum = 0;
    for (std::size_t n = 0; n < steps_[i].launches.size(); ++n) {
      grows.push_back(std::max(0.0, static_cast<double>((steps_[more].launches[n] - steps_[fewer].launches[n]).count())));
      if (steps_[i].launches[n] < Time{}) grows.back() = 0;
      sum += grows.back();
    }
    if (sum <= 0) continue;
    for (double& share : grows) share /= sum;
    steps_[i].grows = std::move(grows);
  }
}

void StepTimes::find_attention(const Serving& serving, const Program& merged, std::span<const Kernel> kernels) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (serving.steps[i].tokens == 0) continue;
    OfStep& of = steps_[i];
    of.grows.assign(of.launches.size(), 0);
    double sum = 0;
    const std::size_t end = i + 1 < merged.parts.size() ? merged.parts[i + 1].value : merged.ops.size();
    for (std::size_t op = merged.parts[i].value; op < end; ++op) {
      const auto* launch = std::get_if<Launch>(&merged.ops[op].what);
      if (launch == nullptr || !is_attention(kernels[launch->kernel.value].name)) continue;
      const std::uint32_t place = place_[op];
      sum += of.grows[place] = std::max(0.0, static_cast<double>(of.launches[place].count()));
    }
    if (sum > 0)
      for (double& share : of.grows) share /= sum;
    if (rows_.at(0).back().step != i) continue;
    const double tokens = serving.steps[i].tokens;
    attention_ = sum / (tokens * tokens / 2);  // a token sees those before it
    attention_share_ = of.total > Time{} ? sum / static_cast<double>(of.total.count()) : 0;
  }
}

std::string StepTimes::decodes_in_words() const {
  if (!law_.known()) return "only one size was captured, so how they grow is unknown and they take what it took";
  return fmt::format("they follow the law of the captured ones, {:.3g} ms, {:.3g} us a sequence, {:.3g} ns a token of context{}",
                     law_.constant * 1e-9, law_.of_sequence * 1e-6, law_.of_token * 1e-3,
                     law_.contexts > 1 ? "" : ", all that a larger batch adds taken as its tokens'");
}

std::string StepTimes::prompts_in_words() const {
  if (attention_ <= 0) return "none of its launches is named as attention, so what the later ones read of the earlier is not in their time";
  return fmt::format("attention, {:.2g} % of the largest captured, grows with the tokens before", 100 * attention_share_);
}

StepTimes::Choice StepTimes::prompt(std::uint32_t tokens, std::uint32_t before) const {
  const auto [lower, upper] = around(rows_.at(0), tokens);
  const std::int64_t way = of_the_way(lower->size, upper->size, tokens);
  Choice choice{upper->step, {}, coarse(attention_ * tokens * before)};
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
  choice.uncaptured = batch > more->first || batch < fewer->first;
  const auto law = [&](double sequences, double tokens_of_each) {
    return law_.of_sequence * sequences + law_.of_token * sequences * tokens_of_each;
  };
  double of_parts = 0;
  for (const auto& [row, weight] : {std::pair(more, way), std::pair(fewer, kWay - way)}) {
    const auto [lower, upper] = around(row->second, context);
    const std::int64_t along = of_the_way(lower->size, upper->size, context);
    if (row == more) choice.program = upper->step;
    add(choice, upper->step, weight * along);
    add(choice, lower->step, weight * (kWay - along));
    if (weight == 0) continue;
    const std::uint32_t there = std::clamp(context, lower->size, upper->size);
    choice.uncaptured = choice.uncaptured || there != context;
    of_parts += law(row->first, there) * static_cast<double>(weight) / kWay;
  }
  if (choice.uncaptured) choice.more = coarse(law(batch, context) - of_parts);
  if (choice.parts.size() == 1) choice.program = choice.parts[0].step;
  return choice;
}

Time StepTimes::solo_time(const Choice& choice, OpId op, Time own) const {
  const OfStep& program = steps_[choice.program];
  const std::uint32_t place = place_[op.value];
  if (program.launches[place] < Time{}) return own;
  const double all = static_cast<double>(program.total.count());
  const double share_of_more = !program.grows.empty() ? program.grows[place] : all > 0 ? static_cast<double>(own.count()) / all : 0;
  const std::int64_t more = std::llround(share_of_more * static_cast<double>(choice.more.count()));
  if (choice.parts.size() == 1) return more == 0 ? own : Time{std::max<std::int64_t>(own.count() + more, 1)};
  std::int64_t time = 0;
  for (const Choice::Part& part : choice.parts) {
    const OfStep& of = steps_[part.step];
    Time its = own;
    if (of.launches.size() == program.launches.size())
      its = of.launches[place];
    else if (program.total > Time{})
      its = Time{std::llround(static_cast<double>(own.count()) *
                              (static_cast<double>(of.total.count()) / static_cast<double>(program.total.count())))};
    time += share((its < Time{} ? own : its).count(), part.weight);
  }
  return Time{std::max<std::int64_t>(time + more, 1)};
}

}  // namespace corun
