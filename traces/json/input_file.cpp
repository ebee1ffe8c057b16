#include "traces/json/input_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "traces/embedded.h"
#include "traces/model/error.h"

namespace corun {
namespace {

struct OtherCompression {
  std::string_view magic, name, unpack;
};
constexpr std::array<OtherCompression, 4> kOtherCompressions = {{
    {"\x28\xB5\x2F\xFD", "zstd", "zstd -d"},
    {"\xFD\x37zXZ", "xz", "xz -d"},
    {"BZh", "bzip2", "bzip2 -d"},
    {"PK\x03\x04", "zip", "unzip"},
}};

struct CloseFile {
  void operator()(gzFile file) const { gzclose_r(file); }
};

/// gzread() passes plain files through unchanged, so one reader serves both.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(const std::filesystem::path& file)
      : name_(file.string()), file_(gzopen(file.c_str(), "rb")), buffer_(kBufferBytes) {
    if (!file_)
      throw InputError(name_, "", fmt::format("cannot be opened: {}", std::strerror(errno)),
                       "check the path and its permissions");
    gzbuffer(file_.get(), kBufferBytes);
    underflow();
    const std::string_view start(gptr(), static_cast<std::size_t>(egptr() - gptr()));
    for (const OtherCompression& other : kOtherCompressions)
      if (start.starts_with(other.magic))
        throw InputError(name_, "", fmt::format("is {}-compressed; expected plain text or gzip", other.name),
                         fmt::format("unpack it first: `{} {}`", other.unpack, name_));
  }

 protected:
  int_type underflow() override {
    if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
    const int read = gzread(file_.get(), buffer_.data(), kBufferBytes);
    int error = Z_OK;
    const char* message = gzerror(file_.get(), &error);
    // A file that is cut short gives the bytes it has and only then an error.
    if (read <= 0 && error != Z_OK && error != Z_STREAM_END) fail(error, message);
    setg(buffer_.data(), buffer_.data(), buffer_.data() + (read > 0 ? read : 0));
    return read > 0 ? traits_type::to_int_type(*gptr()) : traits_type::eof();
  }

 private:
  static constexpr unsigned kBufferBytes = 1u << 16;

  [[noreturn]] void fail(int error, const char* message) const {
    if (error == Z_BUF_ERROR)
      throw InputError(name_, "", "the gzip file is cut short",
                       "copy or write it again: `gzip -t` checks it");
    if (error == Z_ERRNO)
      throw InputError(name_, "", fmt::format("cannot be read: {}", std::strerror(errno)),
                       "check that the device or share is still there");
    throw InputError(name_, "", fmt::format("the gzip file is corrupt ({})", message),
                     "copy or write it again: `gzip -t` checks it");
  }

  std::string name_;
  std::unique_ptr<gzFile_s, CloseFile> file_;
  std::vector<char> buffer_;
};

class InputStream : public std::istream {
 public:
  explicit InputStream(const std::filesystem::path& file) : std::istream(nullptr), buffer_(file) {
    rdbuf(&buffer_);
    exceptions(std::ios::badbit);  // lets the buffer's InputError through
  }

 private:
  GzipBuffer buffer_;
};

bool is_built_in(const std::filesystem::path& file) { return !file.empty() && *file.begin() == kBuiltIn; }

std::optional<std::string_view> built_in(const std::filesystem::path& file) {
  const std::string name = file.lexically_normal().lexically_relative(kBuiltIn).generic_string();
  for (const EmbeddedFile& each : embedded_tree())
    if (each.name == name) return each.text;
  return std::nullopt;
}

}  // namespace

bool input_exists(const std::filesystem::path& file) {
  if (is_built_in(file)) return built_in(file).has_value();
  std::error_code error;
  return std::filesystem::exists(file, error);
}

std::unique_ptr<std::istream> open_input(const std::filesystem::path& file) {
  if (is_built_in(file)) {
    const auto text = built_in(file);
    if (!text)
      throw InputError(file.string(), "", "no such file is built in", "build it in, or give its folder");
    return std::make_unique<std::istringstream>(std::string(*text));
  }
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw InputError(file.string(), "", "is a directory; expected a file", "name a file in it");
  return std::make_unique<InputStream>(file);
}

}  // namespace corun
