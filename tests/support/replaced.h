// A text with each occurrence of a part replaced.
#pragma once

#include <string>
#include <string_view>

namespace corun {

inline std::string replaced(std::string text, std::string_view part, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += by.size()) text.replace(at, part.size(), by);
  return text;
}

}  // namespace corun
