// A valid trace to be spoilt, and how a refusal is to be.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/in_folder.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {

inline constexpr const char* kValid = R"({
  "corun_trace": 1,
  "gpu": "h200",
  "kernels": [{"name": "gemm", "grid": [8, 7, 1], "block": [128, 1, 1], "registers_per_thread": 88, "solo_time_ns": 3424}],
  "programs": [{"name": "infer", "streams": ["main", "side"], "ops": [
    {"launch": "gemm", "name": "first"},
    {"launch": "gemm", "stream": "side", "after": ["first"], "tpc_mask": "0-32,40"},
    {"copy": "device_to_host", "bytes": 100}, {"sync": true}]}],
  "clients": [{"name": "camera", "program": "infer", "streams": {"side": {"priority": -1}},
               "arrivals": {"type": "periodic", "period_ns": 100}}],
  "run": {"duration_ns": 1000}
})";

class BadInput : public InFolder {
 protected:
  std::string gzip(const std::string& text) const {
    const std::filesystem::path file = folder_ / "gzip";
    const gzFile out = gzopen(file.c_str(), "wb6");
    gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
    gzclose(out);
    std::ostringstream zipped;
    zipped << std::ifstream(file, std::ios::binary).rdbuf();
    return zipped.str();
  }

  template <class Read>
  static void expect_error(Read&& read, const std::string& file, const std::string& place,
                           const std::string& word) {
    try {
      read();
      ADD_FAILURE() << "accepted; expected an error about " << word;
    } catch (const InputError& error) {
      EXPECT_EQ(error.file(), file) << error.what();
      EXPECT_EQ(error.place(), place) << error.what();
      EXPECT_THAT(error.problem(), testing::HasSubstr(word)) << error.what();
      EXPECT_NE(error.remedy(), "") << error.what();
      EXPECT_LT(std::string(error.what()).size(), 1200u) << error.what();
    }
  }

  void expect_refused(const std::filesystem::path& file, const std::string& place, const std::string& word) const {
    expect_error([&] { read_trace(file); }, file.string(), place, word);
  }
  void expect_refused(const std::string& text, const std::string& place, const std::string& word) const {
    expect_refused(write("bad.json", text), place, word);
  }

  /// The valid trace with one value replaced (or removed, or added with "/-").
  static std::string with(const std::string& place, const nlohmann::json& value) {
    nlohmann::json document = nlohmann::json::parse(kValid);
    document = document.patch({{{"op", "add"}, {"path", place}, {"value", value}}});
    return document.dump();
  }
  static std::string with_replaced(const std::string& place, const nlohmann::json& value) {
    nlohmann::json document = nlohmann::json::parse(kValid);
    document[nlohmann::json::json_pointer(place)] = value;
    return document.dump();
  }
  static std::string without(const std::string& place) {
    return nlohmann::json::parse(kValid).patch({{{"op", "remove"}, {"path", place}}}).dump();
  }
  void expect_accepted(const std::string& text) const {
    EXPECT_NO_THROW(read_trace(write("good.json", text))) << text;
  }
};

}  // namespace corun
