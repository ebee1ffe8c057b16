// What a service says of itself, in Prometheus's text format, for the textfile collector of its node exporter.
// A program's series have its name and its number at this service, so that two of one name are two series.
#pragma once

#include <filesystem>
#include <string>

#include "hw/live/limits.h"
#include "policies/api/policy.h"

namespace corun::live {

/// Of what Service::state() says.
std::string metrics_of(const std::string& state);
/// As a label's value between its quotes.
std::string label_value(const std::string& text);

class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path file) : file_(std::move(file)) {}
  /// The file as a whole, or as it was where it cannot be written: nothing ends for want of it.  Returns what is to be said about
  /// that, which is said once in kSayAgain and once when it can be written again; empty: nothing.
  std::string write(const std::string& text, Time now);
  /// Why it could not be written the last time; 0: it was.
  int error() const { return error_; }

 private:
  int written(const std::string& text) const;

  std::filesystem::path file_;
  int error_ = 0;
  std::uint64_t failed_ = 0;
  Time said_{};
};

}  // namespace corun::live
