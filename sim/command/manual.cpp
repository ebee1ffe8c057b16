#include "sim/command/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "policies/api/registry.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

/// As text, whatever roff would take it for.  A line may break after any comma.
std::string roff_line(const std::string& text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      default: out += text[i];
    }
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] != ' ') out += "\\:";
  }
  return out;
}

/// Indented lines, as of a list, stay apart.
std::string roff(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  bool apart = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (!out.empty()) out += apart || begin != 0 ? "\n.br\n" : "\n";
    apart = begin != 0;
    out += roff_line(line.substr(begin));
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string synopsis(const CommandDescription& command) {
  std::string line = bold(command.path) + " [" + italic("options") + "]";
  for (const OptionDescription& option : command.options) {
    if (!option.argument) continue;
    const std::string name = italic(option.names.front()) + (option.repeats ? " ..." : "");
    line += option.required ? " " + name : " [" + name + "]";
  }
  return line;
}

std::string paragraph(const OptionDescription& option) {
  std::string head;
  for (const std::string& name : option.names)
    head += (head.empty() ? "" : ", ") + (option.argument ? italic(name) : bold(name));
  if (!option.argument && !option.value.empty()) head += " " + italic(option.value);
  std::string text = roff(option.help);
  if (!option.default_value.empty()) text += roff_line(fmt::format(" (default: {})", option.default_value));
  return fmt::format(".TP\n{}\n{}\n", head, text);
}

std::string paragraphs(const CommandDescription& command) {
  std::string all;
  for (const OptionDescription& option : command.options) all += paragraph(option);
  return all;
}

}  // namespace

std::string manual(const CommandDescription& top) {
  std::string out = fmt::format(
      ".TH SIM 1 \"\" \"corun {}\" \"User Commands\"\n.ad l\n.SH NAME\nsim \\- how fast programs run that share a GPU\n.SH SYNOPSIS\n{}\n",
      CORUN_VERSION, synopsis(top));
  for (const CommandDescription& command : top.commands) out += fmt::format(".br\n{}\n", synopsis(command));
  out += fmt::format(".SH DESCRIPTION\n{}\n", roff(top.about));
  out += ".SH OPTIONS\n" + paragraphs(top) + ".SH COMMANDS\n";
  for (const CommandDescription* command : all_of(top))
    if (command != &top)
      out += fmt::format(".SS {}\n{}\n.PP\n{}\n{}", roff(command->path), roff(command->about), synopsis(*command),
                         paragraphs(*command));
  out += ".SH POLICIES\n";
  for (const PolicyInfo& policy : policies())
    out += fmt::format(".TP\n{}\n{}\n", bold(policy.name), roff(policy.summary));
  out += ".SH GPUS\n";
  for (const std::string& gpu : gpu_names()) out += fmt::format("{}{}", gpu == gpu_names().front() ? "" : ",\n", roff(gpu));
  return out + R"(
.SH EXIT STATUS
.TP
0
done
.TP
1
a defect of corun itself
.TP
2
bad input: standard error says what, where, and what to do
.TP
3
a run on a GPU failed, or no setting keeps what \fBsim advise\fR was asked for
.TP
130
interrupted: what was printed says how far it got
)";
}

}  // namespace corun::sim
