// Readers of what the project itself writes, or takes to compare with.
//
// Leaves out what several files say together: beside a networks file there is no other.  Recordings of decisions
// (hw/record), which only tests read.
#include <array>

#include "policies/session/profile_file.h"
#include "sim/papers/figure.h"
#include "sim/sweep/sweep.h"
#include "sim/validate/networks.h"
#include "sim/validate/reference.h"
#include "tests/fuzz/readers.h"
#include "traces/json/trace_json.h"

namespace corun::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::array kReaders = {
    Reader{"profile", [](const fs::path& file) { (void)read_profiles(file); }},
    Reader{"reference", [](const fs::path& file) { (void)sim::read_reference(file, read_gpu("h200")); }},
    Reader{"networks", [](const fs::path& file) { (void)sim::read_networks(file, {}); }},
    Reader{"figure", [](const fs::path& file) { (void)sim::read_figure(file); }},
    Reader{"sweep", [](const fs::path& file) { (void)sim::read_grid(file.string()); }},
};

}  // namespace

std::span<const Reader> readers() { return kReaders; }

}  // namespace corun::fuzz
