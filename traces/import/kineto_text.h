// The text of a recording: its bytes one after the other, with their place in the file, and its numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/kineto_records.h"

namespace corun::kineto {

/// A document that is nested deeper is no recording.
inline constexpr std::size_t kMaxDepth = 64;

/// The bytes of a file, knowing where in it they are.
class ByteSource {
 public:
  /// Of the first `limit` bytes.  Throws InputError if the file cannot be read.
  ByteSource(const std::filesystem::path& file, std::size_t limit);
  ~ByteSource();

  bool at_end() { return next_ == size_ && !refill(); }
  char peek() const { return buffer_[next_]; }
  void advance() { ++next_; }

  std::string place() const;  // "line 3 (byte 210)"

 private:
  bool refill();

  std::unique_ptr<std::istream> input_;
  std::size_t left_;
  std::vector<char> buffer_;
  std::size_t next_ = 0, size_ = 0;
  std::uint64_t bytes_before_ = 0, lines_before_ = 0;
};

/// An input iterator over a ByteSource, or over what reads from one; the default one is the end.
template <class Source>
class CursorOver {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  CursorOver() = default;
  explicit CursorOver(Source& source) : source_(&source) {}
  char operator*() const { return source_->peek(); }
  CursorOver& operator++() {
    source_->advance();
    return *this;
  }
  bool operator==(const CursorOver& other) const { return ended() == other.ended(); }

 private:
  bool ended() const { return source_ == nullptr || source_->at_end(); }
  Source* source_ = nullptr;
};
using Cursor = CursorOver<ByteSource>;

struct Number {
  double value = 0;
  std::optional<std::int64_t> integer;
  std::optional<Nanoseconds> microseconds;  // the number taken as microseconds; absent: beyond 64 bits
};

Number integer_number(std::int64_t value);
/// Digits as written: a double cannot hold the nanoseconds of a time that counts from 1970.
Number decimal_number(double value, std::string_view digits);

}  // namespace corun::kineto
