// `--contention`: whether blocks slow each other, as the model has it, or not at all, to tell what is due to that.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace corun::sim {

/// How long blocks take beside others: `queueing` as the model has it; `none`: as long as alone.
struct ContentionChoice {
  std::string name = "queueing";

  void add_to(CLI::App& command) {
    command
        .add_option("--contention", name,
                    "how long blocks take beside others: by the queueing model, or as long as alone (none), a baseline")
        ->check(CLI::IsMember({"queueing", "none"}))
        ->capture_default_str();
  }
  bool modelled() const { return name != "none"; }
};

}  // namespace corun::sim
