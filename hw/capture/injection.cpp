// What `sim capture` puts into a program: a library that the CUDA driver loads (CUDA_INJECTION64_PATH) and that writes
// CUPTI's activity records, a line of JSON each, to PID.jsonl in the folder that CORUN_CAPTURE names.
//
// Kernels, copies, memsets (in segments of the run, segments.cpp) and allocations; host calls that issue work or wait for it,
// with their events (calls.cpp), and ranges of NVTX (ranges.cpp).  Nothing is interpreted here: traces/import/captured.cpp
// reads the lines.  Leaves out: nodes that a graph launches on the device, and what the last moments held if the program is
// killed.
#include <cuda.h>
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "hw/capture/attachment.h"
#include "hw/capture/calls.h"
#include "hw/capture/cupti_functions.h"
#include "hw/capture/lines.h"
#include "hw/capture/segments.h"

namespace corun::capture {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::uint32_t kFlushEveryMs = 200;

std::atomic<std::uint64_t> dropped{0};

class Records {
 public:
  /// Of a new file.
  void begin() {
    const std::scoped_lock lock(mutex_);
    has_devices_ = false;
    names_.clear(), calls_.clear();
    take_calls([](const Call&) {});
  }
  /// Of a full buffer, in the order in which CUPTI has them, and the calls so far.
  void write(std::uint8_t* buffer, std::size_t bytes) {
    CUpti_Activity* record = nullptr;
    const std::scoped_lock lock(mutex_);
    if (!has_devices_) write_devices();
    while (cupti().next(buffer, bytes, &record) == CUPTI_SUCCESS) write(*record);
    write_calls();
  }
  /// Calls that have been kept and not written.
  void write_rest() {
    const std::scoped_lock lock(mutex_);
    write_calls();
  }

 private:
  void write(const CUpti_Activity& record) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return kernel(as<CUpti_ActivityKernel10>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY: return copy(as<CUpti_ActivityMemcpy6>(record));
      case CUPTI_ACTIVITY_KIND_MEMCPY2: return peer_copy(as<CUpti_ActivityMemcpyPtoP4>(record));
      case CUPTI_ACTIVITY_KIND_MEMSET: return set(as<CUpti_ActivityMemset4>(record));
      case CUPTI_ACTIVITY_KIND_MEMORY2: return memory(as<CUpti_ActivityMemory4>(record));
      default: return;
    }
  }

  /// Later versions of a record append to it: what is read here stands in the part that all have since CUDA 12.
  template <typename T>
  static const T& as(const CUpti_Activity& record) {
    return reinterpret_cast<const T&>(record);
  }

  /// 0: of no call.
  static std::uint64_t number(std::uint32_t correlation) { return correlation == 0 ? 0 : number_of(correlation); }

  void kernel(const CUpti_ActivityKernel10& k) {
    Line line('k');
    line.add(name(k.name)).add(k.start).add(k.end).add(k.deviceId).add(k.contextId).add(k.streamId).add(number(k.correlationId));
    line.add(k.gridX).add(k.gridY).add(k.gridZ).add(k.blockX).add(k.blockY).add(k.blockZ).add(k.registersPerThread);
    line.add(k.staticSharedMemory).add(k.dynamicSharedMemory).add(k.clusterX).add(k.clusterY).add(k.clusterZ);
    line.add(k.graphId).add(k.channelID);
    output().write(line);
  }
  void copy(const CUpti_ActivityMemcpy6& c) {
    Line line('c');
    line.add(c.bytes).add(c.start).add(c.end).add(c.deviceId).add(c.contextId).add(c.streamId).add(number(c.correlationId));
    line.add(c.copyKind).add(c.srcKind).add(c.dstKind);
    output().write(line);
  }
  void peer_copy(const CUpti_ActivityMemcpyPtoP4& c) {
    Line line('c');
    line.add(c.bytes).add(c.start).add(c.end).add(c.deviceId).add(c.contextId).add(c.streamId).add(number(c.correlationId));
    line.add(c.copyKind).add(c.srcKind).add(c.dstKind);
    output().write(line);
  }
  void set(const CUpti_ActivityMemset4& s) {
    Line line('m');
    line.add(s.bytes).add(s.start).add(s.end).add(s.deviceId).add(s.contextId).add(s.streamId).add(number(s.correlationId));
    output().write(line);
  }
  void write_calls() {
    take_calls([&](const Call& c) {
      const auto [known, added] = calls_.try_emplace({c.domain, c.function}, 0);
      if (added) {
        const char* of = nullptr;
        if (cupti().call_name(c.domain, c.function, &of) != CUPTI_SUCCESS || of == nullptr) of = "?";
        known->second = name(of);
      }
      Line line('a');
      line.add(known->second).add(c.start).add(c.end).add(c.thread).add(c.correlation);
      output().write(line);
      if (c.event != 0) write_event(c);
    });
  }
  void write_event(const Call& c) {
    Line line(c.waits ? 's' : 'e');
    if (c.waits) line.add(c.start);
    line.add(c.context).add(c.stream).add(c.correlation).add(c.event);
    output().write(line);
  }
  void memory(const CUpti_ActivityMemory4& m) {
    if (m.memoryKind != CUPTI_ACTIVITY_MEMORY_KIND_DEVICE) return;
    Line line('x');
    line.add(static_cast<int>(m.memoryOperationType)).add(m.bytes).add(m.address).add(m.timestamp);
    output().write(line);
  }

  /// A name's number; new ones are written.
  std::uint32_t name(const char* mangled) {
    if (mangled == nullptr) mangled = "?";
    const auto [known, added] = names_.try_emplace(mangled, static_cast<std::uint32_t>(names_.size()));
    if (added) {
      int status = 0;
      char* readable = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
      Line line('n');
      line.add(known->second).add_text(status == 0 && readable != nullptr ? readable : mangled);
      std::free(readable);
      output().write(line);
    }
    return known->second;
  }

  void write_devices() {
    has_devices_ = true;
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) return;
    const auto count = reinterpret_cast<decltype(&::cuDeviceGetCount)>(dlsym(driver, "cuDeviceGetCount"));
    const auto get = reinterpret_cast<decltype(&::cuDeviceGetName)>(dlsym(driver, "cuDeviceGetName"));
    const auto attribute = reinterpret_cast<decltype(&::cuDeviceGetAttribute)>(dlsym(driver, "cuDeviceGetAttribute"));
    int devices = 0;
    if (count == nullptr || get == nullptr || attribute == nullptr || count(&devices) != CUDA_SUCCESS) return;
    for (int device = 0; device < devices; ++device) {
      char text[256] = "";
      int sms = 0;
      if (get(text, sizeof text, device) != CUDA_SUCCESS) continue;
      attribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
      Line line('d');
      line.add(device).add_text(text).add(sms);
      output().write(line);
    }
  }

  std::mutex mutex_;
  bool has_devices_ = false;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::map<std::pair<CUpti_CallbackDomain, CUpti_CallbackId>, std::uint32_t> calls_;  // names' numbers
};

Records& records() {
  static Records* all = new Records;  // outlives the program's own destructors: buffers come until the very end
  return *all;
}

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most = 0;
}

void CUPTIAPI completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  records().write(buffer, valid);
  std::size_t lost = 0;
  if (cupti().dropped(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  output().flush();
  std::free(buffer);
}

std::atomic<bool> running{false};

/// At the program's end, or of what is captured of it.
void finish() {
  if (!running.exchange(false)) return;
  end_segments();
  records().write_rest();
  Line line('z');
  line.add(dropped.load());
  output().write(line);
  output().close();
}

bool complain(const std::string& what, CUptiResult result = CUPTI_SUCCESS) {
  const char* words = "";
  if (result != CUPTI_SUCCESS) cupti().in_words(result, &words);
  Line line('!');
  line.add_text((what + words).c_str());
  output().write(line);
  output().close();
  return false;
}

/// Also where CUPTI comes back.
CUptiResult hear() {
  if (const CUptiResult result = cupti().register_callbacks(requested, completed); result != CUPTI_SUCCESS) return result;
  if (const CUptiResult result = hear_calls(); result != CUPTI_SUCCESS) return result;
  cupti().flush_period(kFlushEveryMs);
  return CUPTI_SUCCESS;
}

bool start() {
  if (std::getenv("CORUN_CAPTURE") == nullptr || running.load()) return true;
  static const bool loaded = cupti().load();
  if (!loaded) return complain("libcupti was not found");
  records().begin();
  const Attachment attachment{hear, [] { records().write_rest(); }};
  if (const CUptiResult result = begin_segments(std::getenv("CORUN_CAPTURE_ALL") == nullptr, attachment); result != CUPTI_SUCCESS)
    return complain("CUPTI cannot be used: ", result);
  running = true;
  static const int at_exit = std::atexit(finish);
  return at_exit == 0;
}

}  // namespace
}  // namespace corun::capture

#define CORUN_VISIBLE extern "C" __attribute__((visibility("default")))

/// The driver calls this before cuInit returns; 1: the library stays.
CORUN_VISIBLE int InitializeInjection() {
  corun::capture::start();
  return 1;
}

/// Of a program that captures a part of itself: into the folder, from here on; 0: it does.
CORUN_VISIBLE int corun_capture_start(const char* folder) {
  setenv("CORUN_CAPTURE", folder, 1);
  return corun::capture::start() ? 0 : 1;
}
CORUN_VISIBLE void corun_capture_stop() {
  corun::capture::finish();
  unsetenv("CORUN_CAPTURE");
}
