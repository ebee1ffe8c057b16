#include "hw/shim/stoppable.h"

#include <link.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "hw/shim/contexts.h"
#include "hw/shim/driver.h"
#include "hw/shim/fat_binary.h"
#include "hw/shim/end_marker.h"
#include "hw/shim/uncaptured.h"
#include "hw/transform/ptx.h"

namespace corun::live {
namespace {

constexpr std::uint32_t kMostBlocks = 1u << 30;

int attribute_of_device(CUdevice_attribute which) {
  static const auto get = driver<CUresult (*)(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute");
  const Client* client = Client::get();
  const CUdevice device = client != nullptr ? client->device() : 0;
  int value = 0;
  return get != nullptr && get(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

std::uint32_t architecture() {
  const int it = 10 * attribute_of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                 attribute_of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return static_cast<std::uint32_t>(it);
}

/// Code in the read-only part of a program or a library that is loaded: there until that is unloaded.
bool stays(const void* image) {
  const auto holds = [](dl_phdr_info* object, std::size_t, void* address) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (const auto& segment : std::span(object->dlpi_phdr, object->dlpi_phnum))
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0 &&
          at - object->dlpi_addr - segment.p_vaddr < segment.p_memsz)
        return 1;
    return 0;
  };
  return dl_iterate_phdr(holds, const_cast<void*>(image)) != 0;
}

}  // namespace

StoppableKernels& stoppable_kernels() {
  return os::of_process<StoppableKernels>();
}

void StoppableKernels::loaded(const void* module, const void* image) {
  auto made = std::make_shared<Module>();
  if (const std::string_view fat = fat_binary_of(image); has_ptx(fat, architecture())) {
    if (!stays(fat.data())) made->copy = fat;
    made->fat_binary = made->copy.empty() ? fat : made->copy;
  } else {
    made->ptx = text_of(image);
    if (made->ptx.empty()) made->ptx = ptx_beside(image);
  }
  const std::scoped_lock lock(mutex_);
  modules_.erase(module);
  if (!made->ptx.empty() || !made->fat_binary.empty()) modules_[module] = std::move(made);
}

void StoppableKernels::unloaded(const void* module) {
  const std::scoped_lock lock(mutex_);
  const auto at = modules_.find(module);
  if (at == modules_.end()) return;
  // Another's may be where a function of it was.
  std::erase_if(functions_, [&](const auto& each) {
    if (each.second.module != at->second) return false;
    made_.erase(each.first);
    return true;
  });
  const std::shared_ptr<Module> gone = at->second;
  std::erase_if(modules_, [&](const auto& each) { return each.second == gone; });
}

void StoppableKernels::is_of(const void* module, const void* library) {
  const std::scoped_lock lock(mutex_);
  modules_.erase(module);
  if (const auto at = modules_.find(library); at != modules_.end())
    modules_[module] = std::shared_ptr<Module>(at->second);
}

void StoppableKernels::found(const void* function, const void* module, const char* name) {
  const std::scoped_lock lock(mutex_);
  const auto at = modules_.find(module);
  const auto known = functions_.find(function);
  if (known != functions_.end() && at != modules_.end() && known->second.module == at->second &&
      known->second.name == name)
    return;
  functions_.erase(function), made_.erase(function);
  if (at != modules_.end()) functions_[function] = {at->second, name};
}

void StoppableKernels::is_kernels(const void* function, const void* kernel) {
  const std::scoped_lock lock(mutex_);
  if (function == kernel) return;
  const auto at = functions_.find(kernel);
  if (at == functions_.end()) {
    functions_.erase(function), made_.erase(function);
    return;
  }
  const Function same = at->second;
  if (const auto known = functions_.find(function);
      known != functions_.end() && known->second.module == same.module && known->second.name == same.name)
    return;
  made_.erase(function);
  functions_[function] = same;
}

void StoppableKernels::context_ended() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
}

/// Memory on the device that launches share, once; false: there is none.
bool StoppableKernels::prepare() {
  if (prepared_) return controls_ != 0;
  prepared_ = true;
  static const auto allocate = driver<CUresult (*)(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2");
  static const auto set =
      driver<CUresult (*)(CUdeviceptr, unsigned char, std::size_t, CUstream)>("cuMemsetD8Async");
  static const auto make_stream = driver<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate");
  static const auto wait = driver<CUresult (*)(CUstream)>("cuStreamSynchronize");
  static const auto destroy = driver<CUresult (*)(CUstream)>("cuStreamDestroy_v2");
  context_ = current_context();
  sms_ = static_cast<std::uint32_t>(attribute_of_device(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  constexpr std::size_t kBytes = kStreams * sizeof(hw::PtxControl);
  CUstream stream = nullptr;
  if (allocate == nullptr || set == nullptr || make_stream == nullptr || wait == nullptr ||
      destroy == nullptr || sms_ == 0 || allocate(&controls_, kBytes) != CUDA_SUCCESS)
    return controls_ = 0, false;
  // Not in the null stream, where it would wait for what is held there and others not for it.
  if (make_stream(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      set(controls_, 0, kBytes, stream) != CUDA_SUCCESS || wait(stream) != CUDA_SUCCESS)
    controls_ = 0;
  if (stream != nullptr) destroy(stream);
  return controls_ != 0;
}

StoppableKernels::Kept StoppableKernels::make(const Function& function, Client& client) const {
  static const auto load = driver<CUresult (*)(CUmodule*, const void*)>("cuModuleLoadData");
  static const auto get = driver<CUresult (*)(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
  Module& from = *function.module;
  if (!from.fat_binary.empty()) {
    Ptx read = read_ptx(from.fat_binary, architecture());
    if (read.unreadable) client.count_unreadable();
    from = {std::move(read.text), {}, {}};
  }
  if (from.ptx.empty()) return {};
  const hw::ParsedPtx parsed = hw::parse_ptx(from.ptx);
  if (!parsed.problem.empty() || load == nullptr || get == nullptr) return {};
  const hw::PersistentPtx made = hw::make_persistent(parsed.module, function.name);
  CUmodule module = nullptr;
  CUfunction of = nullptr;
  if (!made.refused.empty() || load(&module, made.text.c_str()) != CUDA_SUCCESS ||
      get(&of, module, made.entry.c_str()) != CUDA_SUCCESS)
    return {};
  const hw::PtxFunction* entry = parsed.module.entry(function.name);
  return {true, of, static_cast<std::uint32_t>(entry->parameters.size()), made.launch_offset,
          made.by_warps_along_x};
}

std::optional<StoppableKernels::Made> StoppableKernels::of(const Work& work, Client& client) {
  const std::scoped_lock lock(mutex_);
  const auto known = functions_.find(work.key);
  if (known == functions_.end() || ended_) return std::nullopt;
  const Uncaptured now;
  if (!prepare() || current_context() != context_) return std::nullopt;
  auto [at, added] = made_.try_emplace(work.key);
  if (added) {
    at->second = make(known->second, client);
    client.count_made(at->second.possible);
  }
  const Kept& kept = at->second;
  if (!kept.possible ||
      (kept.by_warps_along_x && work.block[0] % 32 != 0 && work.block[1] * work.block[2] != 1))
    return std::nullopt;
  const std::uint64_t blocks = std::uint64_t{work.grid[0]} * work.grid[1] * work.grid[2];
  const std::uint32_t threads = work.block[0] * work.block[1] * work.block[2];
  auto [size, is_new] = workers_.try_emplace({kept.function, {threads, work.shared_bytes}}, 0);
  if (is_new) {
    static const auto allow =
        driver<CUresult (*)(CUfunction, CUfunction_attribute, int)>("cuFuncSetAttribute");
    static const auto fit = driver<CUresult (*)(int*, CUfunction, int, std::size_t)>(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    int fits = 0;
    // What a kernel has of its own counts with it: where the two are over 48 KiB it is to be allowed.
    const bool room =
        work.shared_bytes == 0 ||
        (allow != nullptr && allow(kept.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   static_cast<int>(work.shared_bytes)) == CUDA_SUCCESS);
    if (room && fit != nullptr &&
        fit(&fits, kept.function, static_cast<int>(threads), work.shared_bytes) == CUDA_SUCCESS)
      size->second = static_cast<std::uint32_t>(fits) * sms_;
  }
  const std::uint32_t workers = size->second;
  if (workers == 0 || blocks <= workers || blocks > kMostBlocks) return std::nullopt;
  return Made{kept.function, kept.parameters, kept.launch_offset, workers};
}

CUresult StoppableKernels::launch(const Made& made, const Work& work, CUstream stream,
                                  const Arguments& arguments, std::uint32_t attempts,
                                  const Client::Stream& of, Client& client) {
  static const auto launch =
      driver<CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          CUstream, void**, void**)>("cuLaunchKernel");
  if (launch == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  hw::PtxLaunch p;
  p.launch.control = controls_ + of.index * sizeof(hw::PtxControl);
  p.launch.progress = client.report(of);
  p.launch.chunks = p.launch.end = work.grid[0] * work.grid[1] * work.grid[2];
  p.launch.progress_mask = ~0u;
  p.launch.grid_x = work.grid[0], p.launch.grid_y = work.grid[1], p.launch.grid_z = work.grid[2];
  p.done = client.resumed(of);
  p.done_value = attempt_of(of.launched, kAllAttempts);
  p.quotas = client.quotas(of);

  std::vector<void*> each;
  std::vector<char> packed;
  void* extra[5] = {};
  std::size_t bytes = made.launch_offset + sizeof p;
  if (arguments.each != nullptr) {
    each.assign(arguments.each, arguments.each + made.parameters);
    each.push_back(&p);
  } else if (arguments.extra != nullptr) {
    const void* from = nullptr;
    std::size_t size = 0;
    for (void** at = arguments.extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
      if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) from = at[1];
      if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const std::size_t*>(at[1]);
    }
    if (from == nullptr || size > made.launch_offset) return CUDA_ERROR_NOT_SUPPORTED;
    packed.resize(bytes);
    std::memcpy(packed.data(), from, size);
    void* const all[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                         CU_LAUNCH_PARAM_END};
    std::memcpy(extra, all, sizeof extra);
  } else if (made.parameters == 0) {
    each.push_back(&p);
  } else {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (std::uint32_t a = 0; a < attempts; ++a) {
    p.number = attempt_of(of.launched, a);
    p.order = a + 1 < attempts ? client.orders(of) : 0;
    p.launch.seated = p.order != 0 && client.sized() ? 1 : 0;
    if (!packed.empty()) std::memcpy(packed.data() + made.launch_offset, &p, sizeof p);
    if (a > 0 && !hold(stream, p.done, p.number))
      return CUDA_ERROR_UNKNOWN;  // what was stopped would overtake it
    const CUresult result = launch(made.function, made.workers, 1, 1, work.block[0], work.block[1],
                                   work.block[2], work.shared_bytes, stream,
                                   each.empty() ? nullptr : each.data(), packed.empty() ? nullptr : extra);
    if (result != CUDA_SUCCESS) return a == 0 ? CUDA_ERROR_NOT_SUPPORTED : result;
  }
  return CUDA_SUCCESS;
}

}  // namespace corun::live
