// Whether a file is a recording, by its first keys.
#include <nlohmann/json.hpp>
#include <string>

#include "traces/import/kineto_records.h"
#include "traces/import/kineto_text.h"
#include "traces/model/error.h"

namespace corun::kineto {
namespace {

constexpr std::size_t kPeekBytes = 64 * 1024;

/// Stops at the first key that tells.
class PeekSax {
 public:
  bool found() const { return found_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(std::vector<std::uint8_t>&) { return true; }
  bool start_object(std::size_t) { return ++depth_ <= kMaxDepth; }
  bool key(std::string& name) {
    if (array_ && depth_ == 2) {
      has_time_ |= name == "ts";
      has_kind_ |= name == "ph" || name == "grid";
      found_ = has_time_ && has_kind_;
    } else if (!array_ && depth_ == 1) {
      found_ = name == "traceEvents" || name == "schemaVersion" || name == "deviceProperties";
    }
    return !found_;
  }
  bool end_object() { return --depth_ != 1 || !array_; }
  bool start_array(std::size_t) {
    array_ |= depth_ == 0;
    return ++depth_ <= kMaxDepth;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  std::size_t depth_ = 0;
  bool array_ = false, has_time_ = false, has_kind_ = false, found_ = false;
};

}  // namespace

bool looks_like_records(const std::filesystem::path& file) {
  PeekSax sax;
  try {
    ByteSource source(file, kPeekBytes);
    nlohmann::json::sax_parse(Cursor(source), Cursor(), &sax);
  } catch (const InputError&) {
    return false;
  }
  return sax.found();
}

}  // namespace corun::kineto
