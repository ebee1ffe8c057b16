// `sim completion`: what the command tells of itself, for shells.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sim/command/description.h"

namespace corun::sim {

CLI::App* add_completion(CLI::App& app, std::string& shell);

/// A script that completes subcommands, options and the values they take; `shell`: bash, zsh or fish.
std::string completion(const CommandDescription& top, const std::string& shell);

}  // namespace corun::sim
