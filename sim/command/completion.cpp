#include "sim/command/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace corun::sim {
namespace {

/// For single quotes of a shell; fish also reads a backslash there.
std::string quoted(const std::string& text, bool fish = false) {
  std::string out;
  for (const char c : text)
    if (c == '\'')
      out += fish ? "\\'" : "'\\''";
    else if (c == '\\' && fish)
      out += "\\\\";
    else
      out += c;
  return out;
}

/// Beside what is offered there is room for a line.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string words_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// Patterns of `case`: the words that lead from a command to one below it.
std::vector<std::string> paths_below(const CommandDescription& top) {
  std::vector<std::string> paths;
  for (const CommandDescription* command : all_of(top))
    if (command != &top) paths.push_back("'" + command->path + "'");
  return paths;
}

/// Only what is known is offered; where that is nothing, `-o default` makes the shell offer files.
std::string bash(const CommandDescription& top) {
  std::string words, values;
  for (const CommandDescription* command : all_of(top)) {
    std::vector<std::string> options, taken = names_of_commands(*command);
    for (const OptionDescription& option : command->options) {
      if (option.argument) {
        taken.insert(taken.end(), option.words.begin(), option.words.end());
        continue;
      }
      options.insert(options.end(), option.names.begin(), option.names.end());
      if (option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", command->path, name));
      values += fmt::format("    {}) takes=1; words='{}'; list={:d} ;;\n", fmt::join(patterns, "|"), words_of(option.words),
                            option.list);
    }
    words += fmt::format("    '{}') options='{}'; words='{}' ;;\n", command->path, words_of(options), words_of(taken));
  }
  return fmt::format(R"(# Completion of sim for bash, as `sim completion bash` prints it.
_sim() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} option='' path=sim options='' words='' takes=0 list=0 begun='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
      {0}) path+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  # `--option=value` is three words, unless `=` is not in COMP_WORDBREAKS.
  if [[ $current == --*=* ]]; then
    option=${{current%%=*}} begun=${{current%%=*}}= current=${{current#*=}}
  elif [[ $current == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 1]}} current=''
  elif [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == = ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 2]}}
  else
    option=${{COMP_WORDS[COMP_CWORD - 1]}}
  fi
  case "$path $option" in
{1}  esac
  if ((!takes)); then
    case $path in
{2}    esac
    [[ $current == -* ]] && words=$options
  fi
  if ((list)) && [[ $current == *,* ]]; then
    begun+=${{current%,*}}, current=${{current##*,}}
  fi
  COMPREPLY=($(compgen -P "$begun" -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _sim sim corun
)",
                     fmt::join(paths_below(top), "|"), values, words);
}

/// For the description in brackets of an argument of _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_value(const OptionDescription& option) {
  const std::string name = option.names.back().substr(option.names.back().find_first_not_of('-'));
  if (option.words.empty()) return fmt::format(":{}:{}", name, option.files ? "_files" : "");
  if (option.list) return fmt::format(":{0}:_values -s , {0} {1}", name, words_of(option.words));
  if (option.files) return fmt::format(":{}:{{compadd {}; _files}}", name, words_of(option.words));
  return fmt::format(":{}:({})", name, words_of(option.words));
}

std::string zsh(const CommandDescription& top) {
  std::string cases;
  for (const CommandDescription* command : all_of(top)) {
    std::string lines;
    std::vector<std::string> first = names_of_commands(*command);
    bool files = false;
    for (const OptionDescription& option : command->options) {
      if (option.argument) first.insert(first.end(), option.words.begin(), option.words.end());
      files |= option.argument && option.files;
      if (option.argument) continue;
      for (const std::string& name : option.names)
        lines += fmt::format(" \\\n        '{}{}{}[{}]{}'", option.repeats ? "*" : "", name,
                             option.value.empty() ? ""
                             : name[1] == '-'     ? "="
                                                  : "+",
                             zsh_text(first_line(option.help)), option.value.empty() ? "" : zsh_value(option));
    }
    if (!first.empty()) lines += fmt::format(" \\\n        '*: :{{compadd {}; {}}}'", words_of(first), files ? "_files" : "true");
    else if (files) lines += " \\\n        '*: :_files'";
    cases += fmt::format("    '{}')\n      _arguments{} ;;\n", command->path, lines);
  }
  return fmt::format(R"(#compdef sim corun
# Completion of sim for zsh, as `sim completion zsh` prints it.
_sim() {{
  local command=sim word
  for word in ${{words[2,CURRENT-1]}}; do
    case "$command $word" in
      {}) command+=" $word" ;;
    esac
  done
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _sim ]]; then
  _sim "$@"
else
  compdef _sim sim corun
fi
)",
                     fmt::join(paths_below(top), "|"), cases);
}

std::string fish(const CommandDescription& top) {
  std::string lines;
  for (const CommandDescription* command : all_of(top)) {
    const std::string when = fmt::format("complete -c sim -n 'test (__sim_command) = \"{}\"'", command->path);
    for (const CommandDescription& each : command->commands)
      lines += fmt::format("{} -a {} -d '{}'\n", when, each.name(), quoted(each.about, true));
    for (const OptionDescription& option : command->options) {
      std::string names;
      for (const std::string& name : option.names)
        if (!option.argument) names += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
      std::string takes;
      if (!option.argument && !option.value.empty()) takes = option.files ? " -r" : " -x";
      if (option.list && !option.words.empty())
        takes += fmt::format(" -a '(__fish_complete_list , \"printf %s\\\\\\\\n {}\")'", words_of(option.words));
      else if (!option.words.empty())
        takes += fmt::format(" -a '{}'", words_of(option.words));
      if (names.empty() && option.words.empty()) continue;  // files, as everywhere
      lines += fmt::format("{}{}{} -d '{}'\n", when, names, takes, quoted(first_line(option.help), true));
    }
  }
  return fmt::format(R"(# Completion of sim for fish, as `sim completion fish` prints it.
function __sim_command
    set -l path sim
    for word in (commandline -opc)[2..]
        switch "$path $word"
            case {}
                set path "$path $word"
        end
    end
    echo $path
end
{}complete -c corun -w sim
)",
                     fmt::join(paths_below(top), " "), lines);
}

}  // namespace

CLI::App* add_completion(CLI::App& app, std::string& shell) {
  CLI::App* command = app.add_subcommand("completion", "print a script with which a shell completes this command");
  command->add_option("shell", shell, "where the script is for")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return command;
}

std::string completion(const CommandDescription& top, const std::string& shell) {
  return shell == "bash" ? bash(top) : shell == "zsh" ? zsh(top) : fish(top);
}

}  // namespace corun::sim
