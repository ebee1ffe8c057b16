// CUDA source to machine code at run time, with a store of what was compiled before.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace corun::hw {

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Machine code (a cubin).  Throws InputError with the compiler's log if the source is wrong.
  virtual std::string compile(const std::string& source, const std::string& file,
                              const std::vector<std::string>& options) = 0;
};

/// NVIDIA's run-time compiler for an architecture as "sm_90", or to PTX for one as "compute_90", opened at run time.
/// `store`: a folder that keeps compiled code between runs; empty: none.  Throws InputError where there is no such compiler.
std::unique_ptr<Compiler> open_nvrtc(const std::string& architecture, const std::string& store);

}  // namespace corun::hw
