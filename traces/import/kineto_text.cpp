#include "traces/import/kineto_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <streambuf>
#include <system_error>

#include "traces/json/input_file.h"
#include "traces/model/error.h"

namespace corun::kineto {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
/// 146 years, so that a start and a duration fit 64 bits of nanoseconds together.
constexpr std::int64_t kMaxMicroseconds = (std::int64_t{1} << 62) / 1000;

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& file, std::size_t limit)
    : input_(open_input(file)), left_(limit), buffer_(kBufferBytes) {}
ByteSource::~ByteSource() = default;

std::string ByteSource::place() const {
  const auto begin = buffer_.begin(), here = begin + static_cast<std::ptrdiff_t>(next_);
  const auto lines = static_cast<std::uint64_t>(std::count(begin, here, '\n'));
  return fmt::format("line {} (byte {})", 1 + lines_before_ + lines, bytes_before_ + next_);
}

bool ByteSource::refill() {
  lines_before_ += static_cast<std::uint64_t>(
      std::count(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size_), '\n'));
  bytes_before_ += size_;
  next_ = size_ = 0;
  std::streambuf& bytes = *input_->rdbuf();
  try {
    if (bytes.sgetc() == std::streambuf::traits_type::eof()) return false;
  } catch (const InputError& error) {  // cut short or corrupt: say where
    throw InputError(error.file(), place(), error.problem(), error.remedy());
  }
  const std::size_t most = std::min({left_, buffer_.size(), static_cast<std::size_t>(bytes.in_avail())});
  size_ = static_cast<std::size_t>(bytes.sgetn(buffer_.data(), static_cast<std::streamsize>(most)));
  left_ -= size_;
  return size_ != 0;
}

Number integer_number(std::int64_t value) {
  Number number{static_cast<double>(value), value, {}};
  if (value <= kMaxMicroseconds && value >= -kMaxMicroseconds)
    number.microseconds = Nanoseconds{value * 1000};
  return number;
}

Number decimal_number(double value, std::string_view digits) {
  Number number{value, {}, {}};
  if (!(std::abs(value) < static_cast<double>(kMaxMicroseconds))) return number;
  number.microseconds = Nanoseconds{std::llround(value * 1000)};
  const std::size_t point = digits.find('.');
  if (point == std::string_view::npos || digits.find_first_of("eE") != std::string_view::npos) return number;
  std::int64_t whole = 0;
  if (std::from_chars(digits.data(), digits.data() + point, whole).ec != std::errc{}) return number;
  std::int64_t thousandths = 0;
  for (std::size_t i = 1; i <= 3; ++i)
    thousandths = thousandths * 10 + (point + i < digits.size() ? digits[point + i] - '0' : 0);
  if (point + 4 < digits.size() && digits[point + 4] >= '5') ++thousandths;
  number.microseconds = Nanoseconds{whole * 1000 + (digits.front() == '-' ? -thousandths : thousandths)};
  return number;
}

}  // namespace corun::kineto
