// A file to write, compressed with gzip where its name ends in .gz.  It appears whole, at close(), or not at all: what was
// there before stays until then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <sstream>

namespace corun {

enum class Compress : std::uint8_t { by_name, never };

class OutputFile {
 public:
  /// Throws InputError if the place cannot be written.
  explicit OutputFile(const std::filesystem::path& file, Compress compress = Compress::by_name);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  std::ostream& stream();
  /// To be called at the end.  `check`, if not empty, reads the file before it takes its name; what it throws, close() throws,
  /// and what was there before stays.  Throws InputError if not all could be written.
  void close(const std::function<void(const std::filesystem::path& written)>& check = {});

 private:
  std::filesystem::path file_, written_;  // the latter until close(); a pipe or device is written at once
  bool compressed_;
  std::ofstream plain_;
  std::ostringstream text_;  // until close(), where compressed
};

}  // namespace corun
