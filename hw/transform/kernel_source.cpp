#include "hw/transform/kernel_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/model/error.h"

namespace corun::hw {
namespace {

using Tokens = std::vector<Token>;

bool is(const Token& t, std::string_view text) { return t.text == text; }

std::string line_of(std::string_view source, std::size_t at) {
  return fmt::format("line {}", 1 + std::count(source.begin(), source.begin() + static_cast<long>(at), '\n'));
}

std::size_t closing(const Tokens& tokens, std::size_t open) {
  const std::string_view opens = tokens[open].text;
  const std::string_view closes = opens == "(" ? ")" : opens == "{" ? "}" : "]";
  std::size_t depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].directive) continue;
    if (is(tokens[i], opens)) ++depth;
    if (is(tokens[i], closes) && --depth == 0) return i;
  }
  return tokens.size();
}

/// Absent: a declaration without a body, or not understood.
std::optional<KernelFunction> kernel_at(const Tokens& tokens, std::size_t global) {
  KernelFunction f{};
  f.declaration = global;
  while (f.declaration > 0) {
    const Token& before = tokens[f.declaration - 1];
    if (before.directive || is(before, ";") || is(before, "}") || is(before, "{")) break;
    --f.declaration;
    if (is(before, "template")) f.is_template = true;
  }
  std::size_t i = global + 1;
  for (; i < tokens.size() && !is(tokens[i], ";"); ++i) {
    if (is(tokens[i], "__cluster_dims__")) f.has_cluster = true;
    if (!is(tokens[i], "(")) continue;
    const std::string_view before = tokens[i - 1].text;
    if (before == "__launch_bounds__" || before == "__cluster_dims__" || before == "__maxnreg__" ||
        before == "__attribute__" || before == "__block_size__") {
      i = closing(tokens, i);
      continue;
    }
    f.name = i - 1;
    f.open = i;
    f.close = closing(tokens, i);
    f.body_open = f.close + 1;
    if (f.body_open >= tokens.size() || !is(tokens[f.body_open], "{")) return std::nullopt;
    f.body_close = closing(tokens, f.body_open);
    if (f.body_close == tokens.size()) return std::nullopt;
    return f;
  }
  return std::nullopt;
}

}  // namespace

KernelSource::KernelSource(std::string_view source, std::string_view file, std::string_view kernel)
    : source_(source), file_(file), kernel_(kernel), tokens_(tokens_of(source)) {
  find_kernel();
  look();
  refuse_what_cannot_be();
  read_parameters();
}

void KernelSource::refuse(const Token& t, const std::string& problem, const std::string& remedy) const {
  throw InputError(file_, line_of(source_, t.at),
                   fmt::format("kernel {} cannot be made persistent: {}", kernel_, problem), remedy);
}

void KernelSource::find_kernel() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!is(tokens_[i], "__global__") || tokens_[i].directive) continue;
    const auto f = kernel_at(tokens_, i);
    if (!f) continue;
    names.emplace_back(tokens_[f->name].text);
    if (tokens_[f->name].text == kernel_)
      target_ = f;
    else
      others_.push_back(*f);
  }
  if (target_) return;
  throw InputError(file_, "", fmt::format("there is no kernel {} in it", kernel_),
                   names.empty() ? "name a file that defines a __global__ function"
                                 : fmt::format("it defines {}", fmt::join(names, ", ")));
}

bool KernelSource::in_another_kernel(std::size_t i) const {
  return std::any_of(others_.begin(), others_.end(), [&](const KernelFunction& f) { return in(i, f); });
}

void KernelSource::look() {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const Token& t = tokens_[i];
    if (in_another_kernel(i)) continue;
    const bool of_body = i > target_->body_open && i < target_->body_close;
    if (t.text.starts_with("__syncthreads") || is(t, "this_thread_block")) traits_.barriers = true;
    if (t.kind == Token::Kind::literal &&
        (t.text.find("bar.") != t.text.npos || t.text.find("barrier") != t.text.npos))
      traits_.barriers = true;
    if (is(t, "__shared__")) traits_.shared_memory = true;
    if (of_body && is(t, "return")) traits_.returns = true;
    if (!of_body && (is(t, "blockIdx") || is(t, "gridDim"))) traits_.helpers_read_index = true;
  }
  traits_.shared_memory |= traits_.barriers || traits_.helpers_read_index;
}

void KernelSource::refuse_what_cannot_be() const {
  const Token& name = tokens_[target_->name];
  if (target_->is_template)
    refuse(name, "it is a template", "add an extern \"C\" kernel that calls a device template");
  if (target_->has_cluster) refuse(name, "it has clusters", "run it as a plain kernel");
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const Token& t = tokens_[i];
    if (in_another_kernel(i)) continue;
    for (const std::string_view word : {"this_grid", "grid_group", "this_cluster", "cluster_group"})
      if (is(t, word)) refuse(t, fmt::format("it uses {}", word), "run it as a plain kernel");
    if (t.kind == Token::Kind::literal && t.text.find("ctaid") != t.text.npos)
      refuse(t, "it reads the block's index in assembly", "use blockIdx and gridDim");
    if (!traits_.returns) continue;
    if (traits_.barriers && (is(t, "this_thread_block") || (t.text.starts_with("__syncthreads_"))))
      refuse(t, fmt::format("it returns early and uses {}", t.text),
             "put what follows the return into an if, or use __syncthreads");
    if (traits_.barriers && t.kind == Token::Kind::literal && t.text.find("bar") != t.text.npos &&
        (t.text.find("bar.") != t.text.npos || t.text.find("barrier") != t.text.npos))
      refuse(t, "it returns early and has a barrier in assembly", "put what follows the return into an if");
    if (is(t, "__syncwarp") || (t.text.starts_with("__") && t.text.ends_with("_sync")))
      refuse(
          t,
          fmt::format("it returns early and uses {}, which would wait for the lanes that returned", t.text),
          "put what follows the return into an if");
  }
}

void KernelSource::read_parameters() {
  const KernelFunction& f = *target_;
  std::size_t depth = 0, first = f.open + 1;
  std::string last;
  bool any = false, past_name = false;
  for (std::size_t i = f.open + 1; i <= f.close; ++i) {
    const Token& t = tokens_[i];
    if ((is(t, ",") && depth == 0) || i == f.close) {
      if (any && last != "void") parameters_.push_back({text(first, i), last});
      last.clear(), any = false, past_name = false;
      first = i + 1;
      continue;
    }
    any = true;
    if (is(t, "(") || is(t, "[") || is(t, "<") || is(t, "{")) {
      if (is(t, "[")) past_name = true;
      ++depth;
    }
    if (is(t, ")") || is(t, "]") || is(t, ">") || is(t, "}")) --depth;
    if (t.kind == Token::Kind::identifier && depth == 0 && !past_name) last = t.text;
  }
}

/// The source's text from token `first` to before token `end`, with what must be replaced replaced.
std::string KernelSource::text(std::size_t first, std::size_t end, bool other_kernels) const {
  if (first >= end) return {};
  std::string out;
  std::size_t at = tokens_[first].at;
  for (std::size_t i = first; i < end; ++i) {
    const Token& t = tokens_[i];
    const bool of_another = in_another_kernel(i);
    if (other_kernels || !of_another) out += source_.substr(at, t.at - at);
    at = t.at + t.text.size();
    if (of_another && !other_kernels) continue;
    const bool of_body = i > target_->body_open && i < target_->body_close;
    std::optional<std::string> other;
    if (replace && !of_another && t.kind == Token::Kind::identifier) other = replace(t.text, of_body);
    out += other ? *other : std::string(t.text);
  }
  return out;
}

std::string KernelSource::before(bool other_kernels) const {
  const std::size_t declaration = target_->declaration;
  if (declaration == 0) return std::string(source_.substr(0, tokens_[0].at));
  const Token& last = tokens_[declaration - 1];
  const std::size_t end = last.at + last.text.size();
  return std::string(source_.substr(0, tokens_.front().at)) + text(0, declaration, other_kernels) +
         std::string(source_.substr(end, tokens_[declaration].at - end));
}

std::string KernelSource::after(bool other_kernels) const {
  const std::size_t rest = tokens_[target_->body_close].at + 1;
  if (target_->body_close + 1 >= tokens_.size()) return {};
  return std::string(source_.substr(rest, tokens_[target_->body_close + 1].at - rest)) +
         text(target_->body_close + 1, tokens_.size(), other_kernels);
}

std::size_t KernelSource::line_after() const {
  const auto rest = static_cast<std::ptrdiff_t>(tokens_[target_->body_close].at + 1);
  return 1 + static_cast<std::size_t>(std::count(source_.begin(), source_.begin() + rest, '\n'));
}

std::vector<std::string> KernelSource::includes() const {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (!tokens_[i].directive || !is(tokens_[i], "#") || !is(tokens_[i + 1], "include")) continue;
    const std::size_t at = tokens_[i].at;
    lines.emplace_back(source_.substr(at, source_.find('\n', at) - at));
  }
  return lines;
}

std::vector<std::string> KernelSource::macros() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 2 < tokens_.size(); ++i)
    if (tokens_[i].directive && is(tokens_[i], "#") && is(tokens_[i + 1], "define"))
      names.emplace_back(tokens_[i + 2].text);
  return names;
}

}  // namespace corun::hw
