// Traces as text, for the tests of their format.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/in_folder.h"
#include "traces/json/trace_json.h"

namespace corun {

inline std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

inline std::string written(const Trace& trace) {
  std::ostringstream text;
  write_trace(trace, text);
  return text.str();
}

/// A trace with nothing but what is required, around one more key of its only kernel, op or client.
inline std::string minimal(const std::string& kernel = "", const std::string& op = "",
                           const std::string& client = "") {
  return R"({"corun_trace": 1, "kernels": [{"name": "k", "grid": [2, 3, 4], "block": [32, 1, 1], "solo_time_ns": 10)" +
         kernel + R"(}], "programs": [{"name": "p", "ops": [{"launch": "k")" + op +
         R"(}]}], "clients": [{"name": "c", "program": "p")" + client + "}]}";
}

class TraceFormat : public InFolder {
 protected:
  std::filesystem::path write_gzip(const std::string& name, const std::string& text) const {
    const gzFile file = gzopen((folder_ / name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return folder_ / name;
  }
  Trace read(const std::string& text) const { return read_trace(write("trace.json", text)); }
};

}  // namespace corun
