// NVIDIA's run-time compiler, for tests of device code: it needs no GPU, but may not be there.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "hw/driver/compiler.h"
#include "traces/model/error.h"

namespace corun::hw {

struct NvrtcIfThere {
  std::unique_ptr<Compiler> compiler;
  std::string why_not;  // where there is none
};

/// For an H200.  It is opened when it first compiles, so that is tried.
inline NvrtcIfThere nvrtc_if_there() {
  try {
    std::unique_ptr<Compiler> compiler = open_nvrtc("sm_90", "");
    compiler->compile("__global__ void k() {}", "k.cu", {});
    return {std::move(compiler), ""};
  } catch (const InputError& e) {
    return {nullptr, e.what()};
  }
}

}  // namespace corun::hw
