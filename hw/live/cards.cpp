#include "hw/live/cards.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <string_view>

namespace corun::live {
namespace {

std::string value_of(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
  return begin == std::string_view::npos ? "" : std::string(line.substr(begin));
}

std::string plain(std::string place) {
  std::ranges::transform(place, place.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t domain = place.find(':');
  if (domain == std::string::npos || place.find(':', domain + 1) == std::string::npos) return "0000:" + place;
  return domain > 4 ? place.substr(domain - 4) : std::string(4 - domain, '0') + place;
}

}  // namespace

std::vector<Card> cards(const std::filesystem::path& folder, const std::filesystem::path& devices) {
  std::vector<Card> all;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    Card card{entry.path().filename().string(), {}, {}};
    std::ifstream in(entry.path() / "information");
    std::string minor;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("Model:")) card.model = value_of(line);
      if (line.starts_with("GPU UUID:")) card.uuid = value_of(line);
      if (line.starts_with("Device Minor:")) minor = value_of(line);
    }
    if (!minor.empty() && !std::filesystem::exists(devices / ("nvidia" + minor), none)) continue;
    all.push_back(card);
  }
  std::ranges::sort(all, {}, [](const Card& card) { return plain(card.bus); });
  return all;
}

std::optional<Card> first_visible(const std::vector<Card>& all, const char* visible) {
  if (visible == nullptr) return all.empty() ? std::nullopt : std::optional(all.front());
  std::string_view first = visible;
  first = first.substr(0, first.find(','));
  if (first.starts_with("GPU-")) {
    const auto at = std::ranges::find_if(all, [&](const Card& card) { return card.uuid.starts_with(first); });
    return at != all.end() ? std::optional(*at) : std::nullopt;
  }
  std::size_t number = all.size();
  const auto [end, problem] = std::from_chars(first.data(), first.data() + first.size(), number);
  return problem == std::errc{} && end == first.data() + first.size() && number < all.size() ? std::optional(all[number]) : std::nullopt;
}

bool same_place(const std::string& a, const std::string& b) { return plain(a) == plain(b); }

}  // namespace corun::live
