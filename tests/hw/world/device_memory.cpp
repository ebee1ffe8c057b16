#include "tests/hw/world/device_memory.h"

#include <algorithm>
#include <utility>

#include "tests/hw/world/gpu.h"

namespace corun::world {

DeviceMemory* DeviceMemory::the_ = nullptr;

DeviceMemory::Physical* DeviceMemory::at(CUdeviceptr address) {
  const auto r = ranges.find(address);
  if (r == ranges.end() || r->second.behind == 0) return nullptr;
  const auto p = physical.find(r->second.behind);
  return p != physical.end() ? &p->second : nullptr;
}

DeviceMemory::Physical* DeviceMemory::used_at(CUdeviceptr address) {
  Physical* p = at(address);
  if (p != nullptr && !ranges.at(address).open) Machine::the().wrong("memory is used to which the GPU has no access");
  return p;
}

bool DeviceMemory::all_there(int pid) const {
  return std::ranges::all_of(ranges, [&](const auto& each) { return each.second.pid != pid || !each.second.in_use || each.second.behind != 0; });
}

void DeviceMemory::context_ended(int pid) {
  for (const auto& [at, r] : ranges)
    if (r.pid == pid && r.of_context) physical.erase(r.behind);
  std::erase_if(ranges, [&](const auto& each) { return each.second.pid == pid && each.second.of_context; });
  std::erase_if(pinned, [&](const auto& each) { return each.second.pid == pid; });
}

bool DeviceMemory::has_any(int pid) const {
  return std::ranges::any_of(ranges, [&](const auto& each) { return each.second.pid == pid; }) ||
         std::ranges::any_of(physical, [&](const auto& each) { return each.second.pid == pid; }) ||
         std::ranges::any_of(pinned, [&](const auto& each) { return each.second.pid == pid; });
}

void DeviceMemory::ended(int pid) {
  std::erase_if(pinned, [&](const auto& each) { return each.second.pid == pid; });
  std::erase_if(ranges, [&](const auto& each) { return each.second.pid == pid; });
  std::erase_if(physical, [&](const auto& each) { return each.second.pid == pid; });
}

std::uint64_t DeviceMemory::used() const {
  std::uint64_t bytes = 0;
  for (const auto& [handle, p] : physical) bytes += p.bytes;
  return bytes;
}

namespace {

constexpr std::uint64_t kUnit = 2 << 20;

Machine& machine() { return Machine::the(); }
DeviceMemory& memory() { return DeviceMemory::the(); }

template <class Call>
CUresult call(Call what) {
  if (machine().thread() == nullptr || !machine().process()->alive) return CUDA_ERROR_DEINITIALIZED;
  machine().spend(5us);
  if (Gpu::the().fails()) return machine().tell("the driver refuses a call"), CUDA_ERROR_OUT_OF_MEMORY;
  return what();
}

CUresult reserve(CUdeviceptr* at, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  return call([&] {
    *at = (std::uint64_t{1} << 40) + memory().next++ * (std::uint64_t{1} << 32);
    memory().ranges[*at] = {machine().process()->pid, bytes, 0, false};
    return CUDA_SUCCESS;
  });
}
CUresult unreserve(CUdeviceptr at, std::size_t) {
  if (const auto r = memory().ranges.find(at); r == memory().ranges.end())
    machine().wrong("addresses are given back that are not reserved");
  else if (r->second.behind != 0)
    machine().wrong("addresses are given back with memory behind them");
  return memory().ranges.erase(at), CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp*, unsigned long long) {
  return call([&] {
    *handle = memory().next++;
    memory().physical[*handle] = {machine().process()->pid, bytes, 0};
    if (memory().used() > memory().cap) machine().wrong("programs have more device memory than the service gives");
    return CUDA_SUCCESS;
  });
}
CUresult release(CUmemGenericAllocationHandle handle) {
  if (memory().physical.erase(handle) == 0) machine().wrong("device memory is given back twice");
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr at, std::size_t, std::size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  return call([&] {
    if (memory().at(at) != nullptr || !memory().ranges.contains(at)) return machine().wrong("memory is put where some is, or nothing is reserved"), CUDA_ERROR_INVALID_VALUE;
    memory().ranges.at(at).behind = handle;
    return CUDA_SUCCESS;
  });
}
CUresult unmap(CUdeviceptr at, std::size_t) {
  if (memory().at(at) == nullptr) machine().wrong("memory is taken from where none is");
  if (const auto r = memory().ranges.find(at); r != memory().ranges.end()) r->second.behind = 0, r->second.open = false;
  return CUDA_SUCCESS;
}
CUresult access(CUdeviceptr at, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return call([&] { return memory().ranges.at(at).open = true, CUDA_SUCCESS; });
}
CUresult unit(std::size_t* is, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) { return *is = kUnit, CUDA_SUCCESS; }
CUresult pin(void** at, std::size_t, unsigned) {
  return call([&] {
    *at = reinterpret_cast<void*>((std::uint64_t{1} << 60) + memory().next++ * 64);
    memory().pinned[*at] = {machine().process()->pid, 0};
    return CUDA_SUCCESS;
  });
}
CUresult unpin(void* at) {
  if (memory().pinned.erase(at) == 0) machine().wrong("memory of the host is given back that is none");
  return CUDA_SUCCESS;
}

/// A copy of 20 GiB a second, in its stream.
CUresult copy(CUdeviceptr at, std::size_t bytes, CUstream stream, std::function<void(DeviceMemory::Physical&)> what) {
  return call([&] {
    Gpu::Op takes, done;
    takes.takes = Ns(static_cast<std::int64_t>(bytes / 21));
    if (const CUresult r = Gpu::the().enqueue(stream, std::move(takes)); r != CUDA_SUCCESS) return r;
    done.what = Gpu::Op::What::call;
    done.call = [at, what = std::move(what)] {
      if (DeviceMemory::Physical* p = memory().used_at(at); p != nullptr)
        what(*p);
      else
        machine().wrong("memory is copied that is not there");
    };
    return Gpu::the().enqueue(stream, std::move(done));
  });
}
CUresult out(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(from, bytes, stream, [to](const DeviceMemory::Physical& p) {
    memory().pinned.at(to).content = p.content;
    ++machine().count("moved to the host");
  });
}
CUresult in(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy(to, bytes, stream, [from](DeviceMemory::Physical& p) { 
    p.content = memory().pinned.at(const_cast<void*>(from)).content;
    ++machine().count("moved back");
  });
}

CUresult allocate(CUdeviceptr* at, std::size_t bytes) {
  const CUresult reserved = reserve(at, bytes, 0, 0, 0);
  if (reserved != CUDA_SUCCESS) return reserved;
  const CUmemGenericAllocationHandle handle = memory().next++;
  memory().physical[handle] = {machine().process()->pid, bytes, 0};
  memory().ranges.at(*at).behind = handle;
  memory().ranges.at(*at).of_context = memory().ranges.at(*at).open = true;
  return CUDA_SUCCESS;
}
CUresult free(CUdeviceptr at) {
  const auto r = memory().ranges.find(at);
  if (r == memory().ranges.end()) return machine().wrong("memory is freed that is none"), CUDA_ERROR_INVALID_VALUE;
  memory().physical.erase(r->second.behind);
  memory().ranges.erase(r);
  return CUDA_SUCCESS;
}
CUresult tell(std::size_t* left, std::size_t* all) { return *left = *all = std::size_t{1} << 40, CUDA_SUCCESS; }
CUresult set(CUdeviceptr at, unsigned value, std::size_t) {
  return call([&] {
    DeviceMemory::Physical* p = memory().used_at(at);
    if (p == nullptr) return machine().wrong("a call touches memory that is not there"), CUDA_ERROR_INVALID_VALUE;
    p->content = value;
    return CUDA_SUCCESS;
  });
}
CUresult copy_back(void* to, CUdeviceptr from, std::size_t) {
  return call([&] {
    const DeviceMemory::Physical* p = memory().used_at(from);
    if (p == nullptr) return machine().wrong("a call touches memory that is not there"), CUDA_ERROR_INVALID_VALUE;
    *static_cast<std::uint64_t*>(to) = p->content;
    return CUDA_SUCCESS;
  });
}

const std::pair<std::string_view, void*> kMemory[] = {
#define CORUN_PLAYED(NAME, FUNCTION) {NAME, reinterpret_cast<void*>(&FUNCTION)},
    CORUN_PLAYED("cuMemAddressReserve", reserve)
    CORUN_PLAYED("cuMemAddressFree", unreserve)
    CORUN_PLAYED("cuMemCreate", create)
    CORUN_PLAYED("cuMemRelease", release)
    CORUN_PLAYED("cuMemMap", map)
    CORUN_PLAYED("cuMemUnmap", unmap)
    CORUN_PLAYED("cuMemSetAccess", access)
    CORUN_PLAYED("cuMemGetAllocationGranularity", unit)
    CORUN_PLAYED("cuMemHostAlloc", pin)
    CORUN_PLAYED("cuMemFreeHost", unpin)
    CORUN_PLAYED("cuMemcpyDtoHAsync_v2", out)
    CORUN_PLAYED("cuMemcpyHtoDAsync_v2", in)
    CORUN_PLAYED("cuMemAlloc_v2", allocate)
    CORUN_PLAYED("cuMemFree_v2", free)
    CORUN_PLAYED("cuMemGetInfo_v2", tell)
    CORUN_PLAYED("cuMemsetD32_v2", set)
    CORUN_PLAYED("cuMemcpyDtoH_v2", copy_back)
#undef CORUN_PLAYED
};

}  // namespace

void* memory_function(std::string_view name) {
  const auto* at = std::ranges::find(kMemory, name, &std::pair<std::string_view, void*>::first);
  return at != std::end(kMemory) ? at->second : nullptr;
}

}  // namespace corun::world
