#include "hw/transform/ptx_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace corun::hw {
namespace {

bool continues_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

bool is_directive(std::string_view rest, std::string_view name) {
  return rest.starts_with(name) && rest.size() > name.size() && !continues_word(rest[name.size()]);
}

/// Comments, lines for debuggers and their sections become blanks, so that offsets stay.
std::string without_notes(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, out.size()); ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  bool line_begins = true;
  for (std::size_t at = 0; at < out.size(); ++at) {
    const std::string_view rest = std::string_view(out).substr(at);
    if (out[at] == '\n') {
      line_begins = true;
    } else if (out[at] == '"') {
      for (++at; at < out.size() && out[at] != '"'; ++at)
        if (out[at] == '\\') ++at;
      line_begins = false;
    } else if (rest.starts_with("//")) {
      blank(at, std::min(out.find('\n', at), out.size()));
    } else if (rest.starts_with("/*")) {
      const std::size_t end = out.find("*/", at);
      blank(at, end == out.npos ? out.size() : end + 2);
    } else if (line_begins &&
               (is_directive(rest, ".loc") || is_directive(rest, ".file") || rest.starts_with("@@"))) {
      blank(at, std::min(out.find('\n', at), out.size()));
    } else if (line_begins && is_directive(rest, ".section")) {
      const std::size_t end = out.find('}', at);
      blank(at, end == out.npos ? out.size() : end + 1);
    } else if (std::isspace(static_cast<unsigned char>(out[at])) == 0) {
      line_begins = false;
    }
  }
  return out;
}

std::uint32_t number_in(std::string_view word) {
  return static_cast<std::uint32_t>(std::strtoul(std::string(word).c_str(), nullptr, 0));
}

std::uint32_t bytes_of_type(std::string_view type) {
  for (const char* bits : {"128", "64", "32", "16", "8"})
    if (type.ends_with(bits)) return number_in(bits) / 8;
  return 0;
}

class Parser {
 public:
  explicit Parser(PtxModule& module) : module_(module), text_(module.source) { tokenize(); }

  std::string run() {
    while (at_ < words_.size() && problem_.empty()) item();
    return problem_;
  }

 private:
  void tokenize() {
    for (std::size_t at = 0; at < text_.size();) {
      std::size_t end = at + 1;
      const char c = text_[at];
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        at = end;
        continue;
      }
      if (c == '"') {
        while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
        end = std::min(end + 1, text_.size());
      } else if (continues_word(c)) {
        while (end < text_.size()) {
          if (text_.substr(end, 2) == "::")
            end += 2;
          else if (continues_word(text_[end]))
            ++end;
          else
            break;
        }
      }
      words_.push_back(text_.substr(at, end - at));
      at = end;
    }
  }

  std::string_view word(std::size_t i) const { return i < words_.size() ? words_[i] : std::string_view(); }
  std::string_view now() const { return word(at_); }
  /// From word `first` to before word `end`.
  std::string_view between(std::size_t first, std::size_t end) const {
    if (first >= end || end > words_.size()) return {};
    const char* const begin = words_[first].data();
    return {begin, static_cast<std::size_t>(words_[end - 1].data() + words_[end - 1].size() - begin)};
  }
  /// Behind the one that closes what opens at `i`.
  std::size_t behind(std::size_t i, std::string_view open, std::string_view close) {
    std::size_t depth = 0;
    for (; i < words_.size(); ++i) {
      if (words_[i] == open) ++depth;
      if (words_[i] == close && --depth == 0) return i + 1;
    }
    problem_ = "a bracket does not close";
    return words_.size();
  }

  void item() {
    if (now() == ".version" || now() == ".target" || now() == ".address_size") return header();
    const std::size_t first = at_;
    bool external = false;
    while (now() == ".visible" || now() == ".extern" || now() == ".weak" || now() == ".common") {
      external |= now() == ".extern";
      ++at_;
    }
    if (now() == ".entry" || now() == ".func") return function(first, external);
    declaration(first, external);
  }

  void header() {
    const std::string_view value = word(at_ + 1);
    const std::size_t first = at_;
    if (now() == ".version") {
      const std::size_t dot = value.find('.');
      module_.version = number_in(value) * 10 + (dot == value.npos ? 0 : number_in(value.substr(dot + 1)));
    } else if (now() == ".target") {
      module_.target = value.starts_with("sm_") ? number_in(value.substr(3)) : 0;
      while (word(at_ + 2) == ",") at_ += 2;
    } else {
      module_.is_64_bit = value == "64";
    }
    at_ += 2;
    module_.items.push_back({-1, static_cast<std::int32_t>(module_.declarations.size())});
    module_.declarations.push_back({between(first, at_), {}, {}, false});
  }

  void declaration(std::size_t first, bool external) {
    PtxDeclaration d;
    d.external = external;
    if (now() != ".pragma" && now() != ".alias") d.space = now();
    for (std::size_t depth = 0; at_ < words_.size(); ++at_) {
      if (now() == "{") ++depth;
      if (now() == "}") --depth;
      if (now() == ";" && depth == 0) break;
      if (d.name.empty() && depth == 0 && is_ptx_name(now()) && word(at_ - 1) != ".align") d.name = now();
    }
    if (at_ == words_.size()) problem_ = "a declaration does not end";
    d.text = between(first, ++at_);
    module_.items.push_back({-1, static_cast<std::int32_t>(module_.declarations.size())});
    module_.declarations.push_back(d);
  }

  void function(std::size_t first, bool external) {
    PtxFunction f;
    f.external = external;
    f.entry = now() == ".entry";
    ++at_;
    while (now() == ".attribute" || now() == "(") {  // of a function: what it returns
      if (now() == ".attribute") ++at_;
      at_ = behind(at_, "(", ")");
    }
    f.name = now();
    f.head = between(first, ++at_);
    if (now() == "(") {
      const std::size_t end = behind(at_, "(", ")");
      f.parameter_list = between(at_, end);
      if (f.entry) parameters(f, at_ + 1, end - 1);
      at_ = end;
    }
    const std::size_t attributes = at_;
    while (at_ < words_.size() && now() != "{" && now() != ";") ++at_;
    f.attributes = between(attributes, at_);
    if (now() == "{") {
      const std::size_t end = behind(at_, "{", "}");
      if (!problem_.empty()) return;
      f.defined = true;
      lines(f, at_ + 1, end - 1);
      const char* const begin = words_[at_].data() + 1;
      f.body = {begin, static_cast<std::size_t>(words_[end - 1].data() - begin)};
      at_ = end;
    } else {
      ++at_;
    }
    f.text = between(first, std::min(at_, words_.size()));
    module_.items.push_back({static_cast<std::int32_t>(module_.functions.size()), -1});
    module_.functions.push_back(std::move(f));
  }

  void parameters(PtxFunction& f, std::size_t i, std::size_t end) {
    std::uint32_t offset = 0;
    while (i < end) {
      PtxParameter p;
      std::uint32_t count = 1, size = 0;
      bool pointer = false;
      for (; i < end && words_[i] != ","; ++i) {
        if (words_[i] == ".ptr") pointer = true;
        if (words_[i] == ".align" && i + 1 < end) {
          if (!pointer) p.align = number_in(words_[i + 1]);
          ++i;
        } else if (words_[i] == "[") {
          count *= number_in(words_[i + 1]);
          i += 2;
        } else if (words_[i].starts_with('.')) {
          if (const std::uint32_t bytes = bytes_of_type(words_[i]); bytes != 0 && size == 0) size = bytes;
        } else {
          p.name = words_[i];
        }
      }
      ++i;
      p.align = std::max({p.align, size, 1u});
      p.bytes = count * size;
      p.offset = (offset + p.align - 1) / p.align * p.align;
      offset = p.offset + p.bytes;
      if (p.name.empty() || p.bytes == 0) problem_ = "a parameter was not understood";
      f.parameters.push_back(p);
    }
  }

  void lines(PtxFunction& f, std::size_t i, std::size_t end) {
    while (i < end) {
      PtxLine line{PtxLine::Kind::instruction, {}, {}, {}};
      const std::size_t first = i;
      if (words_[i] == "{" || words_[i] == "}") {
        line.kind = words_[i] == "{" ? PtxLine::Kind::open : PtxLine::Kind::close;
        line.words = {words_[i]};
        ++i;
      } else if (i + 1 < end && words_[i + 1] == ":") {
        line.kind = PtxLine::Kind::label;
        line.words = {words_[i]};
        i += 2;
      } else {
        if (words_[i] == "@") {
          i += word(i + 1) == "!" ? 2 : 1;
          line.guard = word(i++);
        }
        if (word(i).starts_with('.')) line.kind = PtxLine::Kind::directive;
        while (i < end && words_[i] != ";") line.words.push_back(words_[i++]);
        if (line.words.empty() || i == end) {
          problem_ = "a statement of " + std::string(f.name) + " does not end";
          return;
        }
        ++i;
      }
      line.text = between(first, i);
      f.lines.push_back(std::move(line));
    }
  }

  PtxModule& module_;
  std::string_view text_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
  std::string problem_;
};

}  // namespace

bool PtxLine::has(std::string_view modifier) const {
  for (std::size_t at = op().find('.'); at != std::string_view::npos;) {
    const std::size_t next = op().find('.', at + 1);
    if (op().substr(at + 1, next == std::string_view::npos ? next : next - at - 1) == modifier) return true;
    at = next;
  }
  return false;
}

const PtxFunction* PtxModule::entry(std::string_view name) const {
  for (const PtxFunction& f : functions)
    if (f.entry && f.defined && f.name == name) return &f;
  return nullptr;
}

bool is_ptx_name(std::string_view word) {
  return !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_' ||
                           word[0] == '$' || (word[0] == '%' && word.size() > 1));
}

ParsedPtx parse_ptx(std::string_view text) {
  ParsedPtx parsed;
  // What NVRTC and fat binaries give ends with zeros.
  parsed.module.source = without_notes(text.substr(0, text.find('\0')));
  // Views point into the text, which a move of a short one would not keep.
  parsed.module.source.reserve(64);
  parsed.problem = Parser(parsed.module).run();
  if (parsed.problem.empty() && (parsed.module.version == 0 || parsed.module.functions.empty()))
    parsed.problem = "it is no PTX";
  return parsed;
}

}  // namespace corun::hw
