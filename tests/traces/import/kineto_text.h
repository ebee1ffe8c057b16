// What tests of Kineto imports write and read: records as text, files for one test, what a launch became.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>

#include "traces/import/kineto.h"
#include "traces/json/input_file.h"
#include "traces/json/temporary_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/trace.h"

namespace corun::kineto_text {

inline const std::filesystem::path kSmall = "tests/data/kineto_small.json";

inline std::string text_of(const std::filesystem::path& file) {
  const auto in = open_input(file);
  return {std::istreambuf_iterator<char>(*in), {}};
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  std::size_t times = 0;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++times)
    text.replace(at, from.size(), to);
  EXPECT_GT(times, 0u) << from;
  return text;
}

/// A file for one test.
class TestFile {
 public:
  explicit TestFile(const std::string& text, const std::string& name = "trace.json") {
    file_ = folder_.path() / name;
    std::ofstream(file_, std::ios::binary) << text;
  }
  operator const std::filesystem::path&() const { return file_; }

 private:
  TemporaryFolder folder_{"test"};
  std::filesystem::path file_;
};

inline Trace import_text(const std::string& text, const std::string& gpu = {}) {
  const TestFile file(text);
  return import_kineto(file, gpu);
}

inline std::string kernel_name(const Trace& trace, const Op& op) {
  return trace.kernels[std::get<Launch>(op.what).kernel.value].name;
}

inline Time solo_time(const Trace& trace, const Launch& launch) {
  return launch.solo_time.value_or(trace.kernels[launch.kernel.value].solo_time.value());
}

/// A bare kernel record.
inline std::string record(const std::string& name, double ts, double dur, int stream = 7) {
  std::ostringstream out;
  out.precision(17);
  out << R"({"name": ")" << name << R"(", "ts": )" << ts << R"(, "dur": )" << dur
      << R"(, "grid": [1, 1, 1], "block": [32, 1, 1], "registers per thread": 32, "shared memory": 0, "stream": )"
      << stream << "}";
  return out.str();
}

/// A call of the host, and a kernel that it launched.
inline std::string host_call(const std::string& name, int correlation, double ts) {
  std::ostringstream out;
  out.precision(17);
  out << R"({"ph": "X", "cat": "cuda_runtime", "name": ")" << name << R"(", "pid": 1, "tid": 1, "ts": )" << ts
      << R"(, "dur": 2, "args": {"correlation": )" << correlation << "}},";
  return out.str();
}
inline std::string kernel_of(int correlation, int stream, double ts, double dur) {
  std::ostringstream out;
  out.precision(17);
  out << R"({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": )" << ts << R"(, "dur": )" << dur
      << R"(, "args": {"device": 0, "context": 1, "stream": )" << stream << R"(, "correlation": )" << correlation
      << R"(, "grid": [1, 1, 1], "block": [32, 1, 1], "registers per thread": 32, "shared memory": 0}},)";
  return out.str();
}

/// Of which the repository has recordings and traces.
struct Network {
  const char* name;
  std::size_t kernels;
};
inline constexpr std::array<Network, 6> kNetworks = {{{"resnet50_b1", 218},
                                                      {"vgg19_b1", 98},
                                                      {"densenet201_b1", 977},
                                                      {"inception3_b1", 447},
                                                      {"resnet152_b8", 674},
                                                      {"distilbert_b1s128", 136}}};

inline std::filesystem::path source_of(const Network& network) {
  return std::filesystem::path("experiments/reference/dnn") / (std::string(network.name) + ".kernels.json.gz");
}

inline std::string written(const Trace& trace) {
  std::ostringstream out;
  write_trace(trace, out);
  return out.str();
}

}  // namespace corun::kineto_text
