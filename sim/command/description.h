// The command as it describes itself to its parser: what completion of shells and the manual page are made of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace corun::sim {

struct OptionDescription {
  std::vector<std::string> names;  // "-o", "--output"; of an argument its only name, "trace"
  std::string help;                // in lines, those of a list indented
  std::string value;               // "TEXT", "{eager,graph}"; empty: a flag
  std::string default_value;
  std::vector<std::string> words;  // that it takes; empty: anything, often a file
  bool argument = false;           // told by its place
  bool repeats = false;
  bool list = false;      // its words are separated by commas
  bool files = true;      // it may take a file too
  bool required = false;
};

struct CommandDescription {
  std::string path;  // "sim", "sim gpus compare"
  std::string about;
  std::vector<OptionDescription> options;  // arguments first
  std::vector<CommandDescription> commands;

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

CommandDescription describe(const CLI::App& app);

/// This one and those below it, each before its own.
std::vector<const CommandDescription*> all_of(const CommandDescription& top);

/// Of the subcommands of `command`.
std::vector<std::string> names_of_commands(const CommandDescription& command);

}  // namespace corun::sim
