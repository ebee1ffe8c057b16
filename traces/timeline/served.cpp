#include "traces/timeline/served.h"

#include <algorithm>
#include <limits>

#include "traces/model/statistics.h"

namespace corun {
namespace {

/// Values, and those of which is known only that they are longer than the time so far.
class Sample {
 public:
  void add(Time value) { known_.push_back(value); }
  void add_endless(Time so_far) { ++endless_, so_far_ += so_far; }
  void sort() { std::ranges::sort(known_); }
  double mean_ms() const {
    Time sum = so_far_;
    for (const Time value : known_) sum += value;
    return count() == 0 ? std::numeric_limits<double>::quiet_NaN() : to_ms(sum) / static_cast<double>(count());
  }
  double quantile_ms(std::size_t percent) const {
    if (count() == 0) return std::numeric_limits<double>::quiet_NaN();
    const std::size_t rank = (percent * count() + 99) / 100;
    return rank > known_.size() ? std::numeric_limits<double>::infinity() : to_ms(known_[rank - 1]);
  }
  std::uint64_t endless() const { return endless_; }

 private:
  std::size_t count() const { return known_.size() + endless_; }
  std::vector<Time> known_;
  std::size_t endless_ = 0;
  Time so_far_{};
};

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
  Sample first, per_token, between, whole;
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
      first.add(*s.first_token);
    else if (!serving.first_token_slo || s.age > *serving.first_token_slo)
      first.add_endless(s.age);
    if (s.finished)
      whole.add(s.age);
    else if (!serving.end_to_end_slo || s.age > *serving.end_to_end_slo)
      whole.add_endless(s.age);
    Time sum{}, longest{};
    for (const Time gap : s.gaps) between.add(gap), sum += gap, longest = std::max(longest, gap);
    if (s.open_gap > longest) between.add(s.open_gap);  // the gap will be at least as long
    const auto n = static_cast<std::int64_t>(s.gaps.size());
    if (n > 0) per_token.add(std::max(sum / n, s.finished ? Time{} : (sum + s.open_gap) / (n + 1)));
  }
  for (Sample* sample : {&first, &per_token, &between, &whole}) sample->sort();
  result.first_token_infinite = first.endless(), result.end_to_end_infinite = whole.endless();
  result.first_token_mean_ms = first.mean_ms();
  result.first_token_p50_ms = first.quantile_ms(50), result.first_token_p99_ms = first.quantile_ms(99);
  result.per_token_mean_ms = per_token.mean_ms();
  result.per_token_p50_ms = per_token.quantile_ms(50), result.per_token_p99_ms = per_token.quantile_ms(99);
  result.between_tokens_mean_ms = between.mean_ms();
  result.between_tokens_p50_ms = between.quantile_ms(50), result.between_tokens_p99_ms = between.quantile_ms(99);
  result.end_to_end_mean_ms = whole.mean_ms();
  result.end_to_end_p50_ms = whole.quantile_ms(50), result.end_to_end_p99_ms = whole.quantile_ms(99);
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
