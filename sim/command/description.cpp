#include "sim/command/description.h"

#include <algorithm>

#include "policies/api/registry.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// "{a,b}" in the type "TEXT:{a,b}"; empty: none.
std::string choice_in(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  return begin == std::string::npos || end == std::string::npos ? "" : type.substr(begin, end - begin + 1);
}

std::vector<std::string> pieces(const std::string& choice) {
  std::vector<std::string> words;
  for (std::size_t at = 1; at < choice.size();) {
    const std::size_t end = choice.find_first_of(",}", at);
    words.push_back(choice.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) {
    names.push_back(policy.name);
    names.insert(names.end(), policy.also_called.begin(), policy.also_called.end());
  }
  return names;
}

/// What the parser takes as any text, and the command as a name of its own.
void add_names(OptionDescription& to, const std::string& path) {
  const std::string& name = to.names.back();
  if (name == "--only" && path != "sim validate") to.words = policy_names(), to.files = false;
  if (name == "--policy") to.words = policy_names(), to.words.push_back("help"), to.files = false;
  if (name == "--policies") to.words = policy_names(), to.words.push_back("all"), to.files = false;
  if (name == "--gpu" || name == "--gpus" || name == "gpus") to.words = gpu_names();
}

OptionDescription describe_option(const CLI::Option& option, const std::string& path) {
  OptionDescription to;
  for (const std::string& name : option.get_snames()) to.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) to.names.push_back("--" + name);
  to.argument = to.names.empty();
  if (to.argument) to.names.push_back(option.get_name(true));
  to.help = option.get_description();
  to.default_value = option.get_default_str();
  to.required = option.get_required();
  if (option.get_items_expected_max() == 0) return to;
  const std::string type = option.get_type_name(), choice = choice_in(type);
  to.value = choice.empty() ? type.substr(0, type.find(':')) : choice;
  to.words = pieces(choice);
  to.files = choice.empty() && to.value == "TEXT";
  to.repeats = option.get_items_expected_max() > 1;
  to.list = option.get_delimiter() != '\0';
  add_names(to, path);
  return to;
}

CommandDescription describe_command(const CLI::App& app, const std::string& path) {
  CommandDescription to{path, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) to.options.push_back(describe_option(*option, path));
  std::ranges::stable_partition(to.options, &OptionDescription::argument);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    to.commands.push_back(describe_command(*each, path + " " + each->get_name()));
  return to;
}

}  // namespace

CommandDescription describe(const CLI::App& app) { return describe_command(app, "sim"); }

std::vector<const CommandDescription*> all_of(const CommandDescription& top) {
  std::vector<const CommandDescription*> all{&top};
  for (const CommandDescription& each : top.commands)
    for (const CommandDescription* below : all_of(each)) all.push_back(below);
  return all;
}

std::vector<std::string> names_of_commands(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& each : command.commands) names.push_back(each.name());
  return names;
}

}  // namespace corun::sim
