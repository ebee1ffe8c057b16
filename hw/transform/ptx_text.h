// A module of PTX as its parts: what it declares, its functions, and of a function its lines.  Just enough of
// the grammar for ptx.h; what debuggers read (.loc, .file, .section) is blanked out first.
//
// Leaves out: what operands mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace corun::hw {

/// A statement of a function, a label, or a brace.
struct PtxLine {
  enum class Kind : std::uint8_t { instruction, label, open, close, directive } kind;
  std::vector<std::string_view> words;  // of an instruction: without its guard and its semicolon
  std::string_view guard;               // the predicate's register
  std::string_view text;                // all of it

  std::string_view op() const { return words.front(); }
  /// The operation without its modifiers.
  std::string_view base() const { return op().substr(0, op().find('.')); }
  /// Whether the operation has this modifier.
  bool has(std::string_view modifier) const;
};

struct PtxParameter {
  std::string_view name;
  std::uint32_t offset = 0, bytes = 0, align = 1;  // as the driver lays them out
};

struct PtxFunction {
  bool entry = false, defined = false, external = false;
  std::string_view name;
  std::string_view text, head, parameter_list, attributes, body;  // body: within its braces
  std::vector<PtxParameter> parameters;
  std::vector<PtxLine> lines;
};

/// A variable, or anything else that stands outside functions.
struct PtxDeclaration {
  std::string_view text, space, name;  // space: ".global", ".shared", ...; empty: a directive
  bool external = false;
};

struct PtxModule {
  std::string source;                     // what all views point into
  std::uint32_t version = 0, target = 0;  // 83 is 8.3; 90 is sm_90
  bool is_64_bit = false;
  /// In the module's order; one of the two is null.
  struct Item {
    std::int32_t function = -1, declaration = -1;
  };
  std::vector<Item> items;
  std::vector<PtxFunction> functions;
  std::vector<PtxDeclaration> declarations;

  const PtxFunction* entry(std::string_view name) const;
};

/// Empty `problem`: it was understood.
struct ParsedPtx {
  PtxModule module;
  std::string problem;
};
ParsedPtx parse_ptx(std::string_view text);

/// Whether a word can name something.
bool is_ptx_name(std::string_view word);

}  // namespace corun::hw
