#include "traces/import/xla_details.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace corun::kineto {

std::string_view detail(std::string_view details, std::string_view key) {
  constexpr std::string_view kSpaces = " \n\t";
  while (!details.empty()) {
    const std::string_view word = details.substr(0, details.find_first_of(kSpaces));
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == ':') return word.substr(key.size() + 1);
    details.remove_prefix(std::min(details.size(), word.size() + 1));
  }
  return {};
}

std::vector<std::int64_t> whole_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    const auto [behind, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc{} || (behind != end && (*behind != ',' || behind + 1 == end))) return {};
    at = behind == end ? end : behind + 1;
  }
  return numbers;
}

std::optional<std::int64_t> gpu_of_process(std::string_view name) {
  constexpr std::string_view kGpu = "/device:GPU:";
  if (!name.starts_with(kGpu)) return std::nullopt;
  const std::vector<std::int64_t> number = whole_numbers(name.substr(kGpu.size(), name.find(' ') - kGpu.size()));
  return number.size() == 1 ? std::optional(number.front()) : std::nullopt;
}

}  // namespace corun::kineto
