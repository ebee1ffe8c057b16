#include "traces/import/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "traces/import/csv_rows.h"
#include "traces/json/input_file.h"
#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

constexpr std::int64_t kDayNs = 86'400'000'000'000;
/// What a time of a trace can be.
constexpr std::int64_t kLongestNs = 99 * kDayNs;
/// A century: what is later is no time of a recording.
constexpr double kLatestSeconds = 3.2e9;
/// Published recordings have up to 6 million requests.
constexpr std::size_t kMostRequests = 50'000'000;
/// Tokens of a hash: Mooncake's FAST25 traces, and qwen-bailian-usagetraces-anon, as their pages say.
constexpr std::uint32_t kMooncakeBlock = 512, kQwenBlock = 16;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<double> number(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::uint32_t> count(std::string_view text) {
  const auto value = number(text);  // some tools write 512.0
  if (!value || *value < 0 || *value > 1e9 || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

/// Days from 1970-01-01 in the Gregorian calendar.
std::int64_t days(int year, int month, int day) {
  const int y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y - era * 400;
  const int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return std::int64_t{era} * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/// Nanoseconds of "2023-11-16 18:15:46.6805900", with a T between and an offset ("+00:00", "Z") or not, since 1970.
/// One file has one offset, and only differences count: it is read over.
std::optional<std::int64_t> date_and_time(std::string_view text) {
  text = trimmed(text);
  const auto digits = [&](std::size_t from, std::size_t n) -> int {
    int value = 0;
    if (text.size() < from + n) return -1;
    for (std::size_t i = from; i < from + n; ++i) {
      if (text[i] < '0' || text[i] > '9') return -1;
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  const int year = digits(0, 4), month = digits(5, 2), day = digits(8, 2);
  const int hour = digits(11, 2), minute = digits(14, 2), second = digits(17, 2);
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 ||
      minute > 59 || second < 0 || second > 60)
    return std::nullopt;
  if (year > 2200) return std::nullopt;
  std::int64_t ns = (((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1'000'000'000;
  if (text.size() > 19 && text[19] == '.') {
    std::int64_t unit = 100'000'000;
    for (std::size_t i = 20; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, unit /= 10)
      ns += unit * (text[i] - '0');
  }
  return ns;
}

std::string lower(std::string_view text) {
  std::string small(trimmed(text));
  for (char& c : small) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return small;
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, std::optional<TimeUnit> unit) : file_(file.string()), unit_(unit) {}

  RecordedArrivals read() {
    first_is_brace() ? read_lines_of_json() : read_csv();
    if (rows_.empty())
      throw InputError(file_, "", "no request in it", "give a recording with at least one request");
    if (!std::is_sorted(rows_.begin(), rows_.end(), earlier)) {
      std::stable_sort(rows_.begin(), rows_.end(), earlier);
      out_.notes.push_back(fmt::format("{}: its requests were not in the order of their times; sorted", file_));
    }
    for (Row& row : rows_) {
      const std::int64_t ns = row.ns - rows_.front().ns;
      if (ns > kLongestNs) {
        out_.notes.push_back(fmt::format("{}: {} requests after the {}th day left out", file_,
                                         rows_.size() - out_.requests.size(), kLongestNs / kDayNs));
        break;
      }
      out_.requests.push_back({Time{ns * 1000}, row.context, row.generated, std::move(row.blocks)});
    }
    return std::move(out_);
  }

 private:
  struct Row {
    std::int64_t ns;
    std::uint32_t context, generated;
    std::vector<std::uint64_t> blocks{};
  };
  static bool earlier(const Row& a, const Row& b) { return a.ns < b.ns; }

  bool first_is_brace() const {
    const auto input = open_input(file_);
    char c = ' ';
    while (input->get(c) && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) {}
    return c == '{' || c == '[';
  }

  [[noreturn]] void fail(std::uint64_t line, const std::string& problem, const std::string& remedy) const {
    throw InputError(file_, fmt::format("line {}", line), problem, remedy);
  }

  void add(std::uint64_t line, double seconds, std::uint32_t context, std::uint32_t generated) {
    if (!(seconds >= 0 && seconds <= kLatestSeconds))
      fail(line, fmt::format("the time {} s is no time of a recording", seconds), "expected seconds from 0 on");
    // In two parts, because a double has few nanoseconds left of a date.
    const double whole = std::floor(seconds);
    add_ns(line, static_cast<std::int64_t>(whole) * 1'000'000'000 + std::llround((seconds - whole) * 1e9), context,
           generated);
  }
  void add_ns(std::uint64_t line, std::int64_t ns, std::uint32_t context, std::uint32_t generated) {
    if (rows_.size() == kMostRequests)
      fail(line, fmt::format("more than {} requests", kMostRequests), "cut the file to what is to be simulated");
    rows_.push_back({ns, context, generated});
  }

  /// Seconds of a unit: what `unit=` says, which counts more than what the format is known for (`said`; 0: nothing), and may not
  /// differ from what a key's own name says.
  double settled(std::uint64_t line, double said, std::string_view key) const {
    if (!unit_) return said;
    const bool by_name = key.ends_with("_s") || key.ends_with("_ms") || key.ends_with("seconds");
    const double wanted = *unit_ == TimeUnit::seconds ? 1 : 1e-3;
    if (by_name && said != wanted)
      fail(line, fmt::format("\"{}\" says another unit than unit={}", key, wanted == 1 ? "s" : "ms"), "leave unit= out");
    return wanted;
  }
  [[noreturn]] void ask_unit(std::uint64_t line, std::string_view key) const {
    fail(line, fmt::format("nothing says whether \"{}\" is in seconds or milliseconds: it is the key of several formats", key),
         fmt::format("give unit=s or unit=ms beside times=, or name the key \"{0}_s\" or \"{0}_ms\"", lower(key)));
  }

  struct Unit {
    const char *key, *format;
    double seconds;  // 0: not said
    std::uint32_t block_tokens;  // of a hash
  };
  /// Unit by the key, or by all keys of a published format.
  static Unit unit_of(const nlohmann::json& request) {
    for (const Unit& said : {Unit{"timestamp_ms", "JSON lines", 1e-3, kMooncakeBlock}, Unit{"timestamp_s", "JSON lines", 1, kMooncakeBlock}})
      if (request.contains(said.key)) return said;
    if (request.contains("chat_id") && request.contains("turn")) return {"timestamp", "Qwen-Bailian JSON lines", 1, kQwenBlock};
    if (request.contains("hash_ids")) return {"timestamp", "Mooncake JSON lines", 1e-3, kMooncakeBlock};
    return {"timestamp", "JSON lines", 0, 0};
  }

  void read_lines_of_json() {
    double seconds = 0;  // of a unit; 0: the first line does not say it
    const auto input = open_input(file_);
    std::string text;
    for (std::uint64_t line = 1; std::getline(*input, text); ++line) {
      if (trimmed(text).empty()) continue;
      const nlohmann::json request = nlohmann::json::parse(text, nullptr, false);
      if (!request.is_object()) fail(line, "is not a JSON object", "expected one request a line");
      const auto value = [&](const char* key, bool required) -> double {
        const auto member = request.find(key);
        if (member == request.end() && !required) return 0;
        if (member == request.end() || !member->is_number() || member->get<double>() < 0)
          fail(line, fmt::format("no number \"{}\"", key),
               "expected \"timestamp_ms\" or \"timestamp_s\" (Mooncake's \"timestamp\" is in ms), and \"input_length\" and "
               "\"output_length\" (tokens)");
        return member->get<double>();
      };
      const auto tokens = [&](const char* key) {
        const double n = value(key, false);
        if (n > 1e9) fail(line, fmt::format("\"{}\" is {}", key, n), "expected a number of tokens");
        return static_cast<std::uint32_t>(n);
      };
      const Unit said = unit_of(request);
      if (rows_.empty()) seconds = said.seconds, out_.format = said.format;
      if (said.seconds != seconds) fail(line, fmt::format("\"{}\" is in another unit than before", said.key), "expected one unit in a file");
      const double time = value(said.key, true), unit = settled(line, seconds, said.key);
      if (unit == 0 && time > 0) ask_unit(line, said.key);
      out_.times_in = unit == 1 ? "s" : "ms";
      add(line, time * unit, tokens("input_length"), tokens("output_length"));
      if (const auto hashes = request.find("hash_ids"); hashes != request.end()) {
        const bool good = hashes->is_array() && std::all_of(hashes->begin(), hashes->end(), [](const auto& hash) { return hash.is_number_integer(); });
        if (!good) fail(line, "\"hash_ids\" is no list of whole numbers", "expected a hash for each block of the prompt, as [46, 47]");
        for (const auto& hash : *hashes) rows_.back().blocks.push_back(static_cast<std::uint64_t>(hash.template get<std::int64_t>()));
        out_.block_tokens = said.block_tokens;
      }
    }
  }

  void read_csv() {
    CsvRows rows(file_);
    std::vector<std::string> fields;
    do {
      if (!rows.next(fields, false)) return;
    } while (fields.size() == 1 && trimmed(fields[0]).empty());
    const auto column = [&](std::initializer_list<std::string_view> names) -> std::optional<std::size_t> {
      for (std::size_t i = 0; i < fields.size(); ++i)
        if (std::find(names.begin(), names.end(), lower(fields[i])) != names.end()) return i;
      return std::nullopt;
    };
    const auto in_ms = column({"timestamp_ms", "time_ms", "arrival_ms", "milliseconds"}), in_s = column({"time_s", "timestamp_s", "arrival_s", "seconds"});
    const auto at = in_ms ? in_ms : in_s ? in_s : column({"timestamp", "time"});
    const auto context = column({"contexttokens", "request tokens", "input_length"});
    const auto generated = column({"generatedtokens", "response tokens", "output_length"});
    const bool bare = !at && fields.size() == 1 && number(fields[0]).has_value();
    if (!at && !bare) {
      std::string shown = fmt::format("{}", fmt::join(fields, ","));
      fail(rows.line(), fmt::format("the header {} names no column of times", in_quotes(shown)),
           "expected time_s, time_ms, Timestamp or TIMESTAMP (a date and time, or numbers with unit=s or unit=ms), or seconds, one a line");
    }
    const bool burst_gpt = generated && lower(fields[*generated]) == "response tokens";
    const std::string header = at ? fields[*at] : "";
    const double said = in_ms ? 1e-3 : in_s || burst_gpt ? 1 : 0;
    const double unit = settled(rows.line(), said, lower(header)), seconds_of = bare && unit == 0 ? 1 : unit;
    out_.format = burst_gpt ? "BurstGPT CSV" : context ? "Azure LLM CSV" : seconds_of == 1e-3 ? "times in milliseconds" : "times in seconds";
    if (bare) add(rows.line(), *number(fields[0]) * seconds_of, 0, 0);
    std::uint64_t failed = 0;
    while (rows.next(fields, false)) {
      if (fields.size() == 1 && trimmed(fields[0]).empty()) continue;
      const auto field = [&](std::size_t i) -> std::string_view {
        if (i >= fields.size())
          fail(rows.line(), fmt::format("{} fields, expected at least {}", fields.size(), i + 1),
               "the file may be cut short: get it again, or remove the line");
        return fields[i];
      };
      const auto tokens = [&](std::optional<std::size_t> i) -> std::uint32_t {
        if (!i) return 0;
        const auto n = count(field(*i));
        if (!n) fail(rows.line(), fmt::format("{} is no number of tokens", in_quotes(fields[*i])), "expected 512");
        return *n;
      };
      const std::string_view time = field(at.value_or(0));
      const std::uint32_t in = tokens(context), out = tokens(generated);
      if (burst_gpt && out == 0) {
        ++failed;
        continue;
      }
      if (const auto value = number(time)) {
        if (seconds_of == 0 && *value > 0) ask_unit(rows.line(), header);
        add(rows.line(), *value * seconds_of, in, out);
      } else if (const auto ns = date_and_time(time)) {
        if (unit_) fail(rows.line(), fmt::format("{} is a date and time, which unit= does not suit", in_quotes(time)), "leave unit= out");
        add_ns(rows.line(), *ns, in, out);
      } else
        fail(rows.line(), fmt::format("{} is no time", in_quotes(time)),
             "expected a number, or a date and time as 2023-11-16 18:15:46.68");
    }
    if (failed != 0)
      out_.notes.push_back(fmt::format("{}: {} failed requests (no response) left out", file_, failed));
  }

  std::string file_;
  std::optional<TimeUnit> unit_;
  std::vector<Row> rows_;
  RecordedArrivals out_;
};

}  // namespace

RecordedArrivals read_arrivals(const std::filesystem::path& file, std::optional<TimeUnit> unit) { return Reader(file, unit).read(); }

}  // namespace corun
