#include "traces/import/csv_rows.h"

#include <algorithm>
#include <streambuf>
#include <string_view>

#include "traces/json/input_file.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// What is longer is no row.
constexpr std::size_t kLongestLine = std::size_t{4} << 20;
/// Of one quoted field: a rule's description.
constexpr int kMostLines = 64;

bool in_quotes_at_end(std::string_view text) { return std::count(text.begin(), text.end(), '"') % 2 != 0; }

void split(std::string_view text, std::vector<std::string>& fields) {
  fields.assign(1, "");
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      fields.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
}

}  // namespace

CsvRows::CsvRows(const std::filesystem::path& file) : file_(file), input_(open_input(file)) {}

bool CsvRows::read_line(std::string& text) {
  using Traits = std::streambuf::traits_type;
  text.clear();
  std::streambuf& bytes = *input_->rdbuf();
  int c = bytes.sbumpc();
  if (c == Traits::eof()) return false;
  for (; c != Traits::eof() && c != '\n'; c = bytes.sbumpc())
    if (text.size() < kLongestLine) text += Traits::to_char_type(c);
  if (!text.empty() && text.back() == '\r') text.pop_back();
  if (lines_read_ == 0 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (lines_read_ == 0 && (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")))
    throw InputError(file_.string(), "line 1", "is UTF-16 text, as PowerShell redirects; expected UTF-8",
                     "convert it: iconv -f utf-16 -t utf-8 old.csv > new.csv");
  ++lines_read_;
  return true;
}

bool CsvRows::next(std::vector<std::string>& fields, bool joined) {
  std::string text;
  if (!read_line(text)) return false;
  line_ = lines_read_;
  std::string more;
  for (int n = 1; joined && in_quotes_at_end(text) && n < kMostLines && text.size() < kLongestLine; ++n) {
    if (!read_line(more)) break;
    text += '\n';
    text += more;
  }
  split(text, fields);
  return true;
}

}  // namespace corun
