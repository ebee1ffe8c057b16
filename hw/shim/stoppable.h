// Kernels that can be stopped at a block and go on later, made from the PTX that the program loaded
// (hw/transform/ptx.h).  A launch becomes several attempts in its stream, all of them with the driver at
// once, as calls of the program may keep a later one waiting.  Each attempt goes on where the one before it
// was stopped.  Between them the GPU waits until the launch is done, or the service lets it go on; the last
// one cannot be stopped.  Where the policy gives sizes all attempts but that one keep to quotas of workers by SM, which the
// service writes.
//
// Leaves out: kernels without PTX; those of one wave of blocks, which a stop finds running anyway; launches
// with attributes; programs whose context has ended.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hw/live/system.h"
#include "hw/shim/client.h"

namespace corun::live {

/// What a launch of a program gives its kernel: one of the two.
struct Arguments {
  void** each = nullptr;
  void** extra = nullptr;
};

class StoppableKernels {
 public:
  // What the program does.
  void loaded(const void* module, const void* image);
  void unloaded(const void* module);
  /// The module of a library, the function of its kernel.
  void is_of(const void* module, const void* library);
  void found(const void* function, const void* module, const char* name);
  void is_kernels(const void* function, const void* kernel);
  /// A context has ended, and all that was made with it.
  void context_ended();

  struct Made {
    CUfunction function = nullptr;
    std::uint32_t parameters = 0, launch_offset = 0, workers = 0;
  };
  /// Of a launch of this shape; none: it is to go plainly.  Made at the first call, which takes as long as
  /// the driver compiles.
  std::optional<Made> of(const Work& work, Client& client);
  /// CUDA_ERROR_NOT_SUPPORTED: nothing was launched.
  CUresult launch(const Made& made, const Work& work, CUstream stream, const Arguments& arguments,
                  std::uint32_t attempts, const Client::Stream& of, Client& client);

 private:
  struct Module {
    std::string ptx;
    // Until the first kernel of it is made, as most of what programs load is never asked for.
    std::string_view fat_binary;
    std::string copy;  // where it may be gone by then
  };
  struct Function {
    std::shared_ptr<Module> module;
    std::string name;
  };
  struct Kept {  // of a function, for all shapes
    bool possible = false;
    CUfunction function = nullptr;
    std::uint32_t parameters = 0, launch_offset = 0;
    bool by_warps_along_x = false;
  };
  bool prepare();
  Kept make(const Function& function, Client& client) const;

  os::Mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Module>> modules_;
  std::unordered_map<const void*, Function> functions_;
  std::unordered_map<const void*, Kept> made_;
  std::map<std::pair<CUfunction, std::vector<std::uint32_t>>, std::uint32_t>
      workers_;  // by shape; 0: it is to go plainly
  bool ended_ = false, prepared_ = false;
  CUcontext context_ = nullptr;
  CUdeviceptr controls_ = 0;  // of each stream, PtxControl
  std::uint32_t sms_ = 0;
};
/// Lives as long as the program.
StoppableKernels& stoppable_kernels();

}  // namespace corun::live
