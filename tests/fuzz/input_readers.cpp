// Readers of what people bring: traces, GPU descriptions, recordings of other tools.  A trace that an importer
// made must be one that the trace format's own reader takes.
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#ifdef CORUN_FUZZ_FAT_BINARIES
#include "hw/shim/fat_binary.h"
#endif
#include "tests/fuzz/nsys_rows.h"
#include "tests/fuzz/readers.h"
#include "traces/import/arrivals.h"
#include "traces/import/captured.h"
#include "traces/import/kineto.h"
#include "traces/import/nsight_compute.h"
#include "traces/import/nsys.h"
#include "traces/import/rocprof.h"
#include "traces/import/table.h"
#include "traces/json/parse.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::fuzz {
namespace {

namespace fs = std::filesystem;

/// Written and read again.
void check_imported(const Trace& trace) {
  std::stringstream text;
  write_trace(trace, text);
  try {
    (void)read_trace(parse_json(text, "imported"), "imported.json");
  } catch (const InputError& error) {
    throw std::logic_error(fmt::format("what was imported is refused: {}", error.what()));
  }
}

ImportOptions any_shape() {
  ImportOptions options;
  options.assume_shapes = true;
  return options;
}

void read_rows(const fs::path& file) {
  const fs::path database = fs::path(file).concat(".sqlite");
  write_rows(file, database);
  check_imported(import_nsys(database, {}));
  ImportOptions options;
  options.range = "step";
  check_imported(import_nsys(database, options));
}

/// A folder with a file.
void read_capture(const fs::path& file) {
  const fs::path folder = fs::path(file).concat(".capture");
  fs::create_directories(folder);
  fs::copy_file(file, folder / "1.jsonl", fs::copy_options::overwrite_existing);
  check_imported(import_captured(folder, {}));
  ImportOptions options;
  options.range = "step";
  check_imported(import_captured(folder, options));
}

void read_rocprof(const fs::path& file) {
  (void)looks_like_rocprof(file);
  check_imported(import_rocprof(file, {}));
  ImportOptions options;
  options.range = "step";
  check_imported(import_rocprof(file, options));
}

void read_kineto(const fs::path& file) {
  (void)looks_like_kineto(file);
  check_imported(import_kineto(file, any_shape()));
}

#ifdef CORUN_FUZZ_FAT_BINARIES
void read_fat_binary(const fs::path& file) {
  std::stringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  if (live::read_ptx(bytes.str(), 90).text.find('\0') != std::string::npos)
    throw std::logic_error("PTX goes on behind its end");
}
#endif

constexpr std::array kReaders = {
    Reader{"arrivals", [](const fs::path& file) { (void)read_arrivals(file); }},
    Reader{"capture", read_capture},
#ifdef CORUN_FUZZ_FAT_BINARIES
    Reader{"fat_binary", read_fat_binary},
#endif
    Reader{"gpu", [](const fs::path& file) { (void)read_gpu(file.string()); }},
    Reader{"kineto", read_kineto},
    Reader{"ncu", [](const fs::path& file) { (void)read_nsight_compute(file); }},
    Reader{"nsys", [](const fs::path& file) { check_imported(import_nsys(file, {})); }},
    Reader{"nsys_rows", read_rows},
    Reader{"rocprof", read_rocprof},
    Reader{"table", [](const fs::path& file) { check_imported(import_table(file, {.gpu = "h200"})); }},
    Reader{"trace", [](const fs::path& file) { (void)read_trace(file); }},
};

}  // namespace

std::span<const Reader> readers() { return kReaders; }

}  // namespace corun::fuzz
