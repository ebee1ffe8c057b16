#include "traces/timeline/served.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "traces/model/statistics.h"

namespace corun {
namespace {

/// Mean over all; those under way count with the time so far.
double mean_with(const Sample& sample, Time so_far) {
  const std::size_t count = sample.ended.size() + sample.endless;
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return to_ms(std::accumulate(sample.ended.begin(), sample.ended.end(), so_far)) / static_cast<double>(count);
}

/// A sequence as it stands at the end of the window.
struct Seen {
  Time arrival{};
  Time age{};                        // to its end, else to the window's
  std::optional<Time> first_token;   // from the arrival
  std::vector<Time> gaps{};          // that have ended
  Time open_gap{};                   // since its latest token, of one that has not ended
  bool finished = false;
  bool late = false;
};

/// True if a sequence's tokens so far came slower than `limit` in the mean, and not by a few long gaps.
bool too_slow(std::vector<Time> gaps, Time limit) {
  if (gaps.size() < 2) return false;
  Time sum{};
  for (const Time gap : gaps) sum += gap;
  std::ranges::sort(gaps);
  return sum > limit * static_cast<std::int64_t>(gaps.size()) && order_statistic(gaps, 50) > limit;
}

Seen seen(const Serving& serving, const Sequence& sequence, const SequenceRecord* record, Time end) {
  Seen s{sequence.at, end - sequence.at, {}};
  if (record != nullptr && record->first_token <= end) {
    s.first_token = record->first_token - sequence.at;
    Time latest = record->first_token;
    for (const Time gap : record->gaps) {
      if (latest + gap > end) break;
      latest += gap;
      s.gaps.push_back(gap);
    }
    s.finished = record->finished <= end;
    if (s.finished) s.age = record->finished - sequence.at;
    s.open_gap = s.finished ? Time{} : end - latest;
  }
  s.late = serving.first_token_slo && s.first_token.value_or(s.age) > *serving.first_token_slo;
  s.late = s.late || (serving.end_to_end_slo && s.age > *serving.end_to_end_slo);
  if (serving.between_tokens_slo && s.first_token) {
    const Time limit = *serving.between_tokens_slo;
    s.late = s.late || s.age - *s.first_token > limit * (std::int64_t{sequence.generated} - 1) || (!s.finished && too_slow(s.gaps, limit));
  }
  return s;
}

double share(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(part) / static_cast<double>(of);
}

std::optional<double> limit_ms(const std::optional<Time>& limit) {
  return limit ? std::optional(to_ms(*limit)) : std::nullopt;
}

}  // namespace

ServedResult measure_served(const Client& client, std::span<const ClientId> clients, const Window& window,
                            std::span<const SequenceRecord> sequences) {
  const Serving& serving = *client.serving;
  const bool some = client.replica && clients.size() < client.replica->among;
  std::vector<const SequenceRecord*> records(serving.sequences.size());
  for (const SequenceRecord& r : sequences)
    if (std::ranges::find(clients, r.client) != clients.end()) records[r.sequence] = &r;

  ServedResult result;
  Sample &first = result.first_token, &per_token = result.per_token, &between = result.between_tokens, &whole = result.end_to_end;
  Time waiting{}, running{};  // of those that have not their first token, or their last, in time
  std::uint64_t ended = 0, good = 0, tokens = 0, generated = 0, uncaptured = 0, long_prompts = 0;
  std::uint32_t longest_prompt = 0;
  for (const ServingStep& step : serving.steps) longest_prompt = std::max(longest_prompt, step.tokens);
  for (std::size_t i = 0; i < records.size() && serving.sequences[i].at < window.end; ++i) {
    if (some && i % client.replica->among != client.replica->number) continue;
    const Seen s = seen(serving, serving.sequences[i], records[i], window.end);
    const auto in_window = [&](Time after) { return s.arrival + after >= window.begin; };
    ended += s.finished && in_window(s.age);
    good += s.finished && in_window(s.age) && !s.late;
    if (s.first_token) {
      Time token = *s.first_token;
      tokens += in_window(token);
      for (const Time gap : s.gaps) tokens += in_window(token += gap);
    }
    if (s.arrival < window.begin) continue;

    ++result.sequences;
    long_prompts += serving.sequences[i].prompt > longest_prompt;
    if (s.first_token) generated += records[i]->gaps.size(), uncaptured += records[i]->uncaptured;
    if (serving.prefix_cache && records[i] != nullptr)
      result.prompt_tokens += serving.sequences[i].prompt, result.cached_tokens += records[i]->cached;
    ++(s.finished ? result.finished : result.unfinished);
    result.waiting += !s.first_token;
    ++(s.late ? result.late : s.finished ? result.good : result.pending);
    if (s.first_token)
      first.ended.push_back(*s.first_token);
    else if (!serving.first_token_slo || s.age > *serving.first_token_slo)
      ++first.endless, waiting += s.age;
    if (s.finished)
      whole.ended.push_back(s.age);
    else if (!serving.end_to_end_slo || s.age > *serving.end_to_end_slo)
      ++whole.endless, running += s.age;
    Time sum{}, longest{};
    for (const Time gap : s.gaps) between.ended.push_back(gap), sum += gap, longest = std::max(longest, gap);
    if (s.open_gap > longest) between.ended.push_back(s.open_gap);  // the gap will be at least as long
    const auto n = static_cast<std::int64_t>(s.gaps.size());
    if (n > 0) per_token.ended.push_back(std::max(sum / n, s.finished ? Time{} : (sum + s.open_gap) / (n + 1)));
  }
  for (Sample* sample : {&first, &per_token, &between, &whole}) sample->sort();
  fill_quantiles(result);
  result.first_token_mean_ms = mean_with(first, waiting), result.end_to_end_mean_ms = mean_with(whole, running);
  result.per_token_mean_ms = mean_with(per_token, {}), result.between_tokens_mean_ms = mean_with(between, {});
  result.uncaptured_tokens = share(uncaptured, generated), result.uncaptured_prompts = share(long_prompts, result.sequences);
  result.first_token_limit_ms = limit_ms(serving.first_token_slo);
  result.per_token_limit_ms = limit_ms(serving.between_tokens_slo);
  result.end_to_end_limit_ms = limit_ms(serving.end_to_end_slo);
  if (const double length_s = to_seconds(window.end - window.begin); length_s > 0) {
    result.sequences_per_s = static_cast<double>(ended) / length_s;
    result.tokens_per_s = static_cast<double>(tokens) / length_s;
    result.goodput_per_s = static_cast<double>(good) / length_s;
  }
  return result;
}

}  // namespace corun
