// A kernel in its source file, as the rewriting of kernels needs it: where its pieces are, what it does that
// matters, and its text with some words replaced.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/transform/tokens.h"
#include "hw/transform/transform.h"

namespace corun::hw {

/// A function with __global__: where its declaration begins, and its pieces, as indices of tokens.
struct KernelFunction {
  std::size_t declaration, name, open, close, body_open, body_close;
  bool is_template = false, has_cluster = false;
};

class KernelSource {
 public:
  /// Throws InputError where there is no such kernel, or it cannot be rewritten.
  KernelSource(std::string_view source, std::string_view file, std::string_view kernel);

  struct Parameter {
    std::string text, name;
  };
  const std::string& kernel() const { return kernel_; }
  const std::string& file() const { return file_; }
  const Traits& traits() const { return traits_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::string body() const { return text(target_->body_open, target_->body_close + 1); }
  /// What stands before and after the kernel, other kernels included or not.
  std::string before(bool other_kernels = true) const;
  std::string after(bool other_kernels = true) const;
  std::size_t line_after() const;
  /// "#include ..." lines, and the names of macros that the file defines.
  std::vector<std::string> includes() const;
  std::vector<std::string> macros() const;

  /// What a word of the source becomes, if not itself; `of_body`: inside the kernel.
  std::function<std::optional<std::string>(std::string_view word, bool of_body)> replace;

 private:
  [[noreturn]] void refuse(const Token& t, const std::string& problem, const std::string& remedy) const;
  void find_kernel();
  void look();
  void refuse_what_cannot_be() const;
  void read_parameters();
  bool in(std::size_t i, const KernelFunction& f) const { return i >= f.declaration && i <= f.body_close; }
  bool in_another_kernel(std::size_t i) const;
  std::string text(std::size_t first, std::size_t end, bool other_kernels = true) const;

  std::string_view source_;
  std::string file_, kernel_;
  std::vector<Token> tokens_;
  std::optional<KernelFunction> target_;
  std::vector<KernelFunction> others_;
  std::vector<Parameter> parameters_;
  Traits traits_;
};

}  // namespace corun::hw
