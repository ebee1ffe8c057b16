// Rows of a CSV file that other text may surround, as fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <string>
#include <vector>

namespace corun {

class CsvRows {
 public:
  /// Plain or gzip; throws InputError, also later, where that cannot be read.
  explicit CsvRows(const std::filesystem::path& file);

  /// The next line's fields; false at the end.  A quoted field may go on over several lines if `joined`.
  bool next(std::vector<std::string>& fields, bool joined);
  /// Of the first line of the last row, from 1.
  std::uint64_t line() const { return line_; }

 private:
  bool read_line(std::string& text);

  std::filesystem::path file_;
  std::unique_ptr<std::istream> input_;
  std::uint64_t line_ = 0, lines_read_ = 0;
};

}  // namespace corun
