#include "sim/input/serving_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr std::uint32_t kMostTokens = 1'000'000'000, kMostSequences = 65535;

struct Sized {
  std::string label;  // the words that say which size it is; empty: none do
  std::uint32_t number = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// Numbers of a text in small letters, each with the words before it, or with one that it ends in ("512tok").
/// Nothing: one is too large, or a word belongs to no number.
std::optional<std::vector<Sized>> sizes_in(std::string_view text) {
  std::vector<Sized> sizes;
  std::string label;
  for (std::size_t i = 0; i < text.size();) {
    if (is_digit(text[i])) {
      std::uint32_t number = 0;
      const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), number);
      if (error != std::errc{} || number > kMostTokens) return std::nullopt;
      sizes.push_back({label == "x" ? "" : std::exchange(label, {}), number});
      label.clear();
      i = static_cast<std::size_t>(end - text.data());
    } else if (is_letter(text[i])) {
      std::size_t end = i;
      while (end < text.size() && is_letter(text[end])) ++end;
      const bool ends_number = i > 0 && is_digit(text[i - 1]) && (end == text.size() || !is_digit(text[end]));
      const std::string word(text.substr(i, end - i));
      if (ends_number && sizes.back().label.empty() && word != "x")
        sizes.back().label = word;
      else
        label += word;
      i = end;
    } else {
      ++i;
    }
  }
  if (!label.empty()) return std::nullopt;
  return sizes;
}

template <std::size_t n>
bool among(const std::string& label, const std::array<const char*, n>& words) {
  return std::ranges::find(words, label) != words.end();
}

}  // namespace

std::optional<ServingStep> step_of_name(const std::string& name) {
  static constexpr std::array kBatch = {"b", "bs", "bsz", "batch", "batchsize", "seqs", "sequences", "reqs"};
  static constexpr std::array kTokens = {"t",  "tok",    "toks",    "tokens",     "s",             "seq",  "seqlen", "sequencelength",
                                         "l",  "len",    "length",  "c",          "ctx",           "ctxlen", "context", "contextlen",
                                         "kv", "kvlen",  "past",    "contextlength", "prompt",     "promptlen"};
  std::string small(name);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t prefill = small.find("prefill"), decode = small.find("decode");
  if ((prefill == std::string::npos) == (decode == std::string::npos)) return std::nullopt;
  const bool decodes = decode != std::string::npos;
  const auto sizes = sizes_in(std::string_view(small).substr(decodes ? decode + 6 : prefill + 7));
  if (!sizes || sizes->empty() || sizes->size() > 2) return std::nullopt;

  std::uint32_t batch = 0, tokens = 0;
  for (const Sized& size : *sizes) {
    const bool first_of_two = size.label.empty() && &size == &sizes->front() && sizes->size() == 2;
    const bool is_batch = among(size.label, kBatch) || (first_of_two && !among(sizes->back().label, kBatch));
    if (!is_batch && !size.label.empty() && !among(size.label, kTokens)) return std::nullopt;
    std::uint32_t& to = is_batch ? batch : tokens;
    if (to != 0 || size.number == 0) return std::nullopt;
    to = size.number;
  }
  if (tokens == 0 || batch > kMostSequences) return std::nullopt;
  if (!decodes) return batch > 1 ? std::nullopt : std::optional(ServingStep{{}, 0, 0, tokens});  // prompts are read one at a time
  return batch == 0 ? std::nullopt : std::optional(ServingStep{{}, batch, tokens, 0});
}

std::vector<ServingStep> serving_steps(const std::string& text, const Trace& trace, const std::string& file, const std::string& place) {
  const auto fail = [&](const std::string& problem, const std::string& remedy) { throw InputError("", place, problem, remedy); };
  std::vector<std::string> names;
  for (const Program& p : trace.programs) names.push_back(p.name);
  std::vector<ServingStep> steps;
  if (text == "auto") {
    std::set<ProgramId> on_parts;
    for (const Program& p : trace.programs)
      for (const auto& [sms, there] : p.on_sms) on_parts.insert(there);
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      if (on_parts.contains(ProgramId{i})) continue;
      const auto step = step_of_name(names[i]);
      if (!step)
        fail(fmt::format("serve=auto: the name of program {} of {} does not say which step of what size it is", in_quotes(names[i]), file),
             "name programs prefill_TOKENS and decode_BATCHxCONTEXT, or write NAME:TOKENS and NAME:BATCHxCONTEXT for those that are steps, "
             "as serve=read:512+write:8x1536");
      steps.push_back(*step);
      steps.back().program = ProgramId{i};
    }
    return steps;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t colon = one.rfind(':');
    const auto program = std::ranges::find(names, one.substr(0, colon));
    if (colon == std::string::npos || program == names.end())
      fail(fmt::format("{} names no program of {} and its size", in_quotes(one), file),
           fmt::format("write auto, or NAME:TOKENS for a prefill and NAME:BATCHxCONTEXT for a decode, of {}", list_names(names)));
    ServingStep step{ProgramId{static_cast<std::uint32_t>(program - names.begin())}};
    const char *at = one.c_str() + colon + 1, *last = one.c_str() + one.size();
    const auto [cross, error] = std::from_chars(at, last, step.tokens);
    bool good = error == std::errc{} && step.tokens != 0;
    if (good && cross != last) {
      step.batch = std::exchange(step.tokens, 0u);
      const auto [stop, wrong] = std::from_chars(cross + 1, last, step.context);
      good = *cross == 'x' && wrong == std::errc{} && stop == last && step.context != 0 && step.batch <= kMostSequences;
    }
    if (!good) fail(fmt::format("{} has no size", in_quotes(one)), "write prefill:512 or decode:8x2048");
    steps.push_back(step);
  }
  return steps;
}

}  // namespace corun::sim
