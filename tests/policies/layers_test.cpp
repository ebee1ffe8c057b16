// Includes go only downwards: what each folder may include, as a table that reads as the order of the layers.
// A policy must run on a simulated GPU and on a real one, so it sees nothing but its interface and the
// standard library; the simulator and the CUDA backend never see each other.
//
// Leaves out: tests and benchmarks, which may include all, and what a header brings along.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace corun {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string folder;                       // its files may include each other
  std::vector<std::string> below = {};      // folders whose files they may include
  std::vector<std::string> libraries = {};  // headers with these beginnings, beside the standard library
};

/// From the bottom.  A folder may name only what stands above it here.
const std::vector<Layer> kLayers = {
    // Traces: what is run, and what happened.
    {"traces"},  // files built into the program
    {"traces/model", {}, {"boost/graph/", "fmt/"}},
    {"traces/json", {"traces", "traces/model"}, {"fmt/", "nlohmann/", "valijson/", "zlib.h"}},
    {"traces/timeline", {"traces/model"}, {"fmt/", "nlohmann/", "protozero/", "boost/math/"}},
    {"traces/import", {"traces/json", "traces/model"}, {"fmt/", "nlohmann/", "sqlite3.h"}},

    // Policies: the same objects for both backends.
    {"policies/api", {"traces/model"}},
    {"policies", {"policies/api"}},  // each policy
    {"policies/registry", {"policies/api", "traces/model"}, {"fmt/", "range/v3/"}},
    {"policies/session",  // the loop of a run, the run, the host's queue
     {"policies/api", "traces/json", "traces/model", "traces/timeline"},
     {"boost/random/", "fmt/", "nlohmann/"}},
    {"policies/service", {"policies/api", "policies/session", "traces/model"}, {"fmt/"}},  // what a service does to launches

    // The simulator.  Its hardware knows of no policy.
    {"sim/engine", {"traces/model"}},
    {"sim/model", {"traces/model"}, {"boost/container/", "fmt/"}},
    {"sim/stages",
     {"sim/engine", "sim/model", "traces/model", "traces/timeline"},
     {"boost/circular_buffer.hpp", "boost/container/", "fmt/"}},
    {"sim/backend",  // wires the stages
     {"policies/api", "policies/session", "sim/engine", "sim/model", "sim/stages", "traces/model", "traces/timeline"},
     {"fmt/"}},
    {"sim/forecast", {"policies/api", "policies/service", "policies/session", "sim/backend", "traces/model", "traces/timeline"}, {}},
    {"sim/service", {"policies/api", "policies/service", "sim/backend", "sim/forecast", "traces/model"}, {"fmt/"}},
    {"sim/run",
     {"policies/api", "policies/session", "sim/backend", "sim/forecast", "sim/model", "sim/service", "sim/stages", "traces/json", "traces/model",
      "traces/timeline"},
     {"fmt/"}},
    {"sim/input",  // `sim/model` for what a kernel takes on another card, `sim/run` for a host that is fitted to what was recorded
     {"sim/model", "sim/run", "traces/import", "traces/json", "traces/model", "traces/timeline"},
     {"fmt/"}},
    {"sim/sweep",
     {"policies/api", "sim/input", "sim/run", "traces/json", "traces/model", "traces/timeline"},
     {"boost/uuid/", "fmt/", "nlohmann/"}},
    {"sim/oracle", {"policies/api", "policies/session", "sim/run", "traces/timeline"}, {"fmt/"}},
    {"sim/advise",  // `sim/oracle` for its search, `sim/input` for times on another card
     {"policies/api", "policies/session", "sim/input", "sim/oracle", "sim/run", "traces/json", "traces/model", "traces/timeline"},
     {"fmt/", "nlohmann/"}},
    {"sim/papers",
     {"policies/api", "sim/run", "sim/stages", "traces", "traces/json", "traces/model", "traces/timeline"},
     {"fmt/", "nlohmann/"}},
    {"sim/validate",  // `sim/input` for which cards are the same, `sim/model` for what bounds a kernel
     {"policies/api", "policies/session", "sim/backend", "sim/input", "sim/model", "sim/run", "sim/stages", "traces/import", "traces/json",
      "traces/model", "traces/timeline"},
     {"fmt/", "nlohmann/"}},

    // The real GPU.  Below the backend nothing knows of policies.
    {"hw/driver", {"traces/model"}, {"cuda.h", "dlfcn.h", "fmt/", "nvrtc.h", "unistd.h"}},
    {"hw/transform", {"traces", "traces/model"}, {"fmt/"}},
    {"hw/kernels", {"hw/driver", "hw/transform", "traces/model"}, {"fmt/"}},
    {"hw/backend",
     {"hw/kernels", "policies/api", "policies/session", "traces/model", "traces/timeline"},
     {"fmt/"}},
    {"hw/record", {"policies/api", "policies/session", "traces/json", "traces/model"}, {"fmt/", "nlohmann/"}},
    {"hw/process",
     {"hw/backend", "hw/driver", "traces/json", "traces/model"},
     {"fcntl.h", "fmt/", "nlohmann/", "sched.h", "sys/", "unistd.h"}},
    // A library of its own, which goes into other programs.
    {"hw/capture", {"traces/import"}, {"cuda.h", "cupti.h", "cxxabi.h", "dlfcn.h", "nvtx3/", "unistd.h"}},
    // Policies on programs as they are: the service, and the library that goes into them.
    {"hw/live",
     {"hw/record", "policies/api", "policies/service", "traces/json", "traces/model"},
     {"fcntl.h", "fmt/", "linux/futex.h", "nlohmann/", "poll.h", "pthread.h", "sys/", "unistd.h"}},
    {"hw/shim", {"hw/live", "hw/transform"}, {"counted_calls.inc", "cuda.h", "dlfcn.h", "driver_calls.inc", "elf.h", "link.h", "lz4.h", "sys/", "zstd.h"}},
    {"hw/run",
     {"hw/backend", "hw/driver", "hw/kernels", "hw/process", "hw/record", "policies/api", "policies/session",
      "traces/json", "traces/model"},
     {"fmt/"}},
    {"hw/calibrate",  // a GPU's constants
     {"hw/backend", "hw/driver", "hw/transform", "traces/model"},
     {"cuda_runtime.h", "fmt/"}},
    {"hw/measure",  // the program `measure_gpu`; `policies` for what reef's padding would gain
     {"hw/backend", "hw/driver", "hw/kernels", "hw/transform", "policies", "policies/api", "policies/session", "traces/json",
      "traces/model"},
     {"CLI/", "fmt/", "nlohmann/"}},

    // Entry points, the only ones that may know both backends.
    {"sim/command",  // `sim/model` for what a kernel takes on another card
     {"hw/backend", "hw/calibrate", "hw/driver", "hw/live", "hw/process", "hw/run", "policies/api", "policies/session",
      "sim/advise", "sim/forecast", "sim/input", "sim/model", "sim/oracle", "sim/papers", "sim/run", "sim/stages", "sim/sweep", "sim/validate", "traces/import",
      "traces/json", "traces/model", "traces/timeline"},
     {"CLI/", "fmt/", "nlohmann/", "spawn.h", "sys/", "unistd.h"}},
    {"python/native",
     {"policies/api", "sim/advise", "sim/input", "sim/run", "sim/sweep", "traces/json", "traces/model", "traces/timeline"},
     {"fmt/", "pybind11/"}},
};

const std::set<std::string> kEntryPoints = {"sim/command", "python/native"};

bool is_standard(const std::string& header) {
  return header.find('/') == std::string::npos && header.find('.') == std::string::npos;
}

bool allows(const Layer& layer, const std::string& header, bool in_quotes) {
  if (!in_quotes)
    return is_standard(header) || std::ranges::any_of(layer.libraries, [&](const std::string& library) {
             return header.starts_with(library);
           });
  const std::string folder = fs::path(header).parent_path();
  if (folder.empty()) return header.ends_with(".cuh");  // device code names what lies beside it
  return folder == layer.folder || std::ranges::find(layer.below, folder) != layer.below.end();
}

/// What the text includes and must not.
std::set<std::string> foreign_includes(const Layer& layer, std::istream& text) {
  static const std::regex include(R"(^\s*#\s*(include|import)\s*([<"])([^>"]*)[>"])"),
      unreadable(R"(^\s*#\s*(include|import)\b)");
  std::set<std::string> foreign;
  for (std::string line; std::getline(text, line);) {
    std::smatch m;
    if (std::regex_search(line, m, include)) {
      if (!allows(layer, m[3], m[2] == "\"")) foreign.insert(m[3]);
    } else if (std::regex_search(line, unreadable)) {
      foreign.insert(line);  // a macro, or a form that this test cannot read
    }
  }
  return foreign;
}

bool is_source(const fs::path& file) {
  static const std::set<std::string> extensions{".cpp", ".h", ".cu", ".cuh"};
  const std::string stem = file.stem().string();
  return extensions.contains(file.extension().string()) && !stem.ends_with("_bench") &&
         !stem.ends_with("_test");
}

/// The sources of the project, by folder.
std::map<std::string, std::vector<fs::path>> sources() {
  std::map<std::string, std::vector<fs::path>> of;
  for (const char* top : {"traces", "policies", "sim", "hw", "python"})
    for (const auto& entry : fs::recursive_directory_iterator(top))
      if (entry.is_regular_file() && is_source(entry.path()))
        of[entry.path().parent_path().string()].push_back(entry.path());
  return of;
}

TEST(Layers, EveryFolderIncludesOnlyWhatItsRowAllows) {
  const auto all = sources();
  for (const Layer& layer : kLayers) {
    const auto files = all.find(layer.folder);
    if (files == all.end()) {
      ADD_FAILURE() << layer.folder << " has no sources";
      continue;
    }
    for (const fs::path& file : files->second) {
      std::ifstream text(file);
      for (const std::string& header : foreign_includes(layer, text))
        ADD_FAILURE() << file << " includes " << header << ", which " << layer.folder << " may not";
    }
  }
}

TEST(Layers, EveryFolderWithSourcesHasARow) {
  std::set<std::string> known;
  for (const Layer& layer : kLayers) EXPECT_TRUE(known.insert(layer.folder).second) << layer.folder;
  for (const auto& [folder, files] : sources()) EXPECT_TRUE(known.contains(folder)) << files.front();
}

TEST(Layers, ARowNamesOnlyFoldersAboveIt) {
  std::set<std::string> above;
  for (const Layer& layer : kLayers) {
    for (const std::string& folder : layer.below)
      EXPECT_TRUE(above.contains(folder)) << layer.folder << " above " << folder;
    above.insert(layer.folder);
  }
}

TEST(Layers, OnlyEntryPointsMaySeeTheSimulatorAndTheGpu) {
  for (const Layer& layer : kLayers) {
    if (kEntryPoints.contains(layer.folder)) continue;
    const auto sees = [&](const char* world) {
      return layer.folder.starts_with(world) || std::ranges::any_of(layer.below, [&](const std::string& f) {
               return f.starts_with(world) || kEntryPoints.contains(f);
             });
    };
    EXPECT_FALSE(sees("sim/") && sees("hw/")) << layer.folder;
  }
}

std::set<std::string> foreign_in(const std::string& folder, const std::string& text) {
  std::istringstream in(text);
  return foreign_includes(*std::ranges::find(kLayers, folder, &Layer::folder), in);
}

TEST(Layers, WhatAPolicyMayNotIncludeIsFound) {
  EXPECT_EQ(foreign_in("policies", R"(#include "policies/api/registry.h"
#include <algorithm>
  #  include <thread>
#include "sim/run/run.h"
#include "traces/model/gpu.h"
#include <fmt/format.h>
#include <unistd.h>
#include "policies/kernel_padding.h"
#include "policies/session/session.h"
#include HEADER
// #include "sim/not.h"
)"),
            (std::set<std::string>{"sim/run/run.h", "traces/model/gpu.h", "fmt/format.h", "unistd.h",
                                   "policies/session/session.h", "#include HEADER"}));
}

TEST(Layers, AnIncludeUpwardsOrAcrossIsFound) {
  EXPECT_EQ(foreign_in("sim/stages",
                       "#include \"sim/backend/shapes.h\"\n#include \"sim/model/contention.h\"\n"
                       "#include \"policies/api/policy.h\"\n"),
            (std::set<std::string>{"sim/backend/shapes.h", "policies/api/policy.h"}));
  EXPECT_EQ(foreign_in("hw/run",
                       "#include \"sim/run/run.h\"\n#include \"hw/run/profile.h\"\n"
                       "#include <boost/graph/adjacency_list.hpp>\n"),
            (std::set<std::string>{"sim/run/run.h", "boost/graph/adjacency_list.hpp"}));
}

}  // namespace
}  // namespace corun
