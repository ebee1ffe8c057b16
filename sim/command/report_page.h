// `--report FILE`: one page of what a run wrote, made by the Python module `corun.report`.
#pragma once

#include <filesystem>
#include <string>

namespace corun::sim {

/// A folder for what a run writes, gone with the object; `kept`, if not empty, is taken instead and stays.
class OutputFolder {
 public:
  explicit OutputFolder(std::string kept);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

/// Throws InputError if there is no Python with the module, before anything is simulated.
void check_report_can_be_made();
/// Throws InputError.
void make_report(const std::string& folder, const std::string& file);

}  // namespace corun::sim
