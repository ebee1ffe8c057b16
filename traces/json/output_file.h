// A text file to write, compressed with gzip where its name ends in .gz.
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
  std::ostream& stream();
  /// To be called at the end.  Throws InputError if not all could be written.
  void close();

 private:
  std::filesystem::path file_;
  bool compressed_;
  std::ofstream plain_;
  std::ostringstream text_;  // until close(), where compressed
};

}  // namespace corun
