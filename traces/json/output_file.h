// A file to write, compressed with gzip where its name ends in .gz.  It appears whole, at close(), or not at all: what was
// there before stays until then.
#pragma once

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

namespace corun {

class OutputFile {
 public:
  /// Throws InputError if the place cannot be written.
  explicit OutputFile(const std::filesystem::path& file);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  std::ostream& stream();
  /// To be called at the end.  Throws InputError if not all could be written.
  void close();

 private:
  std::filesystem::path file_, written_;  // the latter until close(); a pipe or device is written at once
  bool compressed_;
  std::ofstream plain_;
  std::ostringstream text_;  // until close(), where compressed
};

}  // namespace corun
