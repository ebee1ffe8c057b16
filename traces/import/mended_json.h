// JSON as profilers are known to write it and no parser takes it, made JSON as it streams by: a decimal comma of the locale
// ("blocks per SM": 7,75), inf, nan and N/A as values, quotes and backslashes in strings that nobody escaped (names of Python
// functions, Windows paths), control characters.  Sound JSON stays as it is, byte by byte.
//
// Leaves out: decimal commas within arrays, which are commas there too; a name that holds what reads as the next key.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "traces/import/kineto_text.h"

namespace corun::kineto {

class MendedJson {
 public:
  explicit MendedJson(ByteSource& source) : source_(source) {}

  bool at_end() { return next_ == ready_.size() && !refill(); }
  char peek() const { return ready_[next_]; }
  void advance() { ++next_; }
  /// Places that were no JSON, so far.
  std::size_t mended() const { return mended_; }

 private:
  static constexpr int kEnd = -1;

  bool refill();
  void in_string();
  void token();
  int ahead(std::size_t i);  // the i-th byte that has not been taken; kEnd: there is none
  char take();
  std::size_t beyond_spaces(std::size_t i);
  bool closes(std::size_t i);
  bool is_key(std::size_t i);

  ByteSource& source_;
  std::deque<char> ahead_;
  std::string ready_;
  std::size_t next_ = 0, mended_ = 0;
  std::vector<char> open_;  // '{' or '['
  bool in_string_ = false, key_ = false;
};

}  // namespace corun::kineto
