// How messages show names and values that a user wrote, and what the user may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace corun {

/// "; did you mean 'grid'?" if one of the candidates is close to `wrong` (one edit in three characters), else
/// "".
std::string did_you_mean(std::string_view wrong, std::span<const std::string> candidates);

/// "'a', 'b', 'c', ..." (at most `most`).
std::string list_names(std::span<const std::string> names, std::size_t most = 12);

/// At most `most` bytes of the text, cut between characters and marked with "..."; control characters and
/// bytes that are not UTF-8 are escaped, so that a message never breaks the terminal that shows it.
std::string printable(std::string_view text, std::size_t most = 60);

/// printable() in single quotes.
std::string in_quotes(std::string_view text);

}  // namespace corun
