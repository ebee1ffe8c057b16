#include "hw/transform/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "hw/transform/embedded_device_code.h"
#include "hw/transform/tokens.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using Tokens = std::vector<Token>;

bool is(const Token& t, std::string_view text) { return t.text == text; }

std::string line_of(std::string_view source, std::size_t at) {
  return fmt::format("line {}", 1 + std::count(source.begin(), source.begin() + static_cast<long>(at), '\n'));
}

/// A function with __global__: where its declaration begins, and its pieces, as indices of tokens.
struct KernelFunction {
  std::size_t declaration, name, open, close, body_open, body_close;
  bool is_template = false, has_cluster = false;
};

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

/// The names of the parameters, in order.
std::vector<std::string> parameters_of(const Tokens& tokens, const KernelFunction& f) {
  std::vector<std::string> names;
  std::size_t depth = 0;
  std::string last;
  bool any = false, past_name = false;
  for (std::size_t i = f.open + 1; i <= f.close; ++i) {
    const Token& t = tokens[i];
    if ((is(t, ",") && depth == 0) || i == f.close) {
      if (any && last != "void") names.push_back(last);
      last.clear(), any = false, past_name = false;
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
  return names;
}

class Transform {
 public:
  Transform(std::string_view source, std::string_view file, std::string_view kernel)
      : source_(source), file_(file), kernel_(kernel), tokens_(tokens_of(source)) {}

  Transformed run() {
    find_kernel();
    look();
    refuse_what_cannot_be();
    return {write(), kernel_ + "__persistent", traits_};
  }

 private:
  [[noreturn]] void refuse(const Token& t, const std::string& problem, const std::string& remedy) const {
    throw InputError(file_, line_of(source_, t.at),
                     fmt::format("kernel {} cannot be made persistent: {}", kernel_, problem), remedy);
  }

  void find_kernel() {
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

  bool in(std::size_t i, const KernelFunction& f) const { return i >= f.declaration && i <= f.body_close; }
  bool in_another_kernel(std::size_t i) const {
    return std::any_of(others_.begin(), others_.end(), [&](const KernelFunction& f) { return in(i, f); });
  }

  void look() {
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

  void refuse_what_cannot_be() const {
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

  /// The source's text from token `first` to before token `end`, with what must be replaced replaced.
  std::string text(std::size_t first, std::size_t end) const {
    if (first >= end) return {};
    std::string out;
    std::size_t at = tokens_[first].at;
    for (std::size_t i = first; i < end; ++i) {
      const Token& t = tokens_[i];
      out += source_.substr(at, t.at - at);
      at = t.at + t.text.size();
      const bool of_body = i > target_->body_open && i < target_->body_close;
      if (of_body && is(t, "threadIdx"))
        out += "corun_thread";
      else
        out += in_another_kernel(i) ? std::string(t.text) : replaced(t);
    }
    return out;
  }

  std::string replaced(const Token& t) const {
    if (is(t, "blockIdx")) return "corun_block";
    if (is(t, "gridDim")) return "corun_grid";
    if (traits_.returns_before_barriers() && is(t, "__syncthreads")) return "corun_barrier";
    return std::string(t.text);
  }

  std::string write() const {
    const KernelFunction& f = *target_;
    const std::string parameters = text(f.open + 1, f.close);
    const std::vector<std::string> names = parameters_of(tokens_, f);
    const std::string more = names.empty() ? "" : ", ";
    const std::string declared = names.empty() ? "" : parameters + ", ";
    const std::string call = fmt::format("{}__body({}{}corun_at, corun_grid_size(corun_size.x, corun_size.y, corun_size.z), corun_thread_index())", kernel_,
                                         fmt::join(names, ", "), more);

    std::string out = fmt::format(
        "#define CORUN_SHARED_MEMORY {:d}\n#define CORUN_RETURNS_BEFORE_BARRIERS {:d}\n"
        "#define CORUN_HELPERS_READ_INDEX {:d}\n{}#line 1 \"{}\"\n",
        traits_.shared_memory, traits_.returns_before_barriers(), traits_.helpers_read_index,
        persistent_header(), file_);
    if (f.declaration > 0) {
      out += source_.substr(0, tokens_.front().at);
      out += text(0, f.declaration);
      const Token& last = tokens_[f.declaration - 1];
      out +=
          source_.substr(last.at + last.text.size(), tokens_[f.declaration].at - last.at - last.text.size());
    } else {
      out += source_.substr(0, tokens_[f.declaration].at);
    }
    out += fmt::format(
        "static __device__ __forceinline__ void {}__body({}const uint3 corun_block, const uint3 corun_grid, "
        "const uint3 corun_thread) ",
        kernel_, declared);
    out += text(f.body_open, f.body_close + 1);
    out += fmt::format(
        "\nextern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
        "{}__persistent({}const CorunLaunch corun_launch) {{\n"
        "  const uint3 corun_size = make_uint3(corun_launch.grid_x, corun_launch.grid_y, "
        "corun_launch.grid_z);\n"
        "  CORUN_WORK({})\n}}\n",
        kernel_, declared, call);
    out += fmt::format(
        "#if CORUN_LOGGED\n"
        "extern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
        "{}__located({}const CorunLaunch corun_launch) {{\n"
        "  const uint3 corun_size = make_uint3(gridDim.x, gridDim.y, gridDim.z);\n"
        "  const uint3 corun_at = make_uint3(blockIdx.x, blockIdx.y, blockIdx.z);\n"
        "  CORUN_TELL_HELPERS;\n  CORUN_LOG_START;\n  {};\n  CORUN_LOG_END;\n  "
        "corun_all_returned();\n}}\n#endif\n",
        kernel_, declared, call);
    const std::size_t rest = tokens_[f.body_close].at + 1;
    out +=
        fmt::format("#line {} \"{}\"\n",
                    1 + std::count(source_.begin(), source_.begin() + static_cast<long>(rest), '\n'), file_);
    if (f.body_close + 1 < tokens_.size()) {
      out += source_.substr(rest, tokens_[f.body_close + 1].at - rest);
      out += text(f.body_close + 1, tokens_.size());
    }
    out += "\n";
    return out;
  }

  std::string_view source_;
  std::string file_, kernel_;
  Tokens tokens_;
  std::optional<KernelFunction> target_;
  std::vector<KernelFunction> others_;
  Traits traits_;
};

}  // namespace

Transformed make_persistent(std::string_view source, std::string_view file, std::string_view kernel) {
  return Transform(source, file, kernel).run();
}

}  // namespace corun::hw
