// A driver with one GPU for each process: a stream is a thread that does what it was given, in order.  A function is a number
// of microseconds.  Each kernel is a line of the file that CORUN_FAKE_LOG names: NAME BEGIN_NS END_NS.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Queue {
 public:
  explicit Queue(int priority) : priority_(priority) {
    std::thread([this] { work(); }).detach();
  }
  void add(std::function<void()> what) {
    const std::scoped_lock lock(mutex_);
    todo_.push_back(std::move(what));
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return todo_.empty(); });
  }
  bool captured = false;  // what is launched goes into a graph
  bool idle() {
    const std::scoped_lock lock(mutex_);
    return todo_.empty();
  }
  int priority() const { return priority_; }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !todo_.empty(); });
      const std::function<void()> next = todo_.front();
      lock.unlock();
      next();
      lock.lock();
      todo_.pop_front();
      changed_.notify_all();
    }
  }
  int priority_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> todo_;
};

Queue& of(CUstream stream) {
  static auto* const common = new Queue(0);
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ? *common : *reinterpret_cast<Queue*>(stream);
}

void run(CUfunction f, CUstream stream, int priority) {
  const auto us = reinterpret_cast<std::intptr_t>(f);
  of(stream).add([us, priority] {
    const std::int64_t begin = now_ns();
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    const char* log = std::getenv("CORUN_FAKE_LOG");
    if (log == nullptr) return;
    char line[128];
    const char* name = std::getenv("CORUN_NAME");
    const int n = std::snprintf(line, sizeof line, "%s %lld %lld %d\n", name != nullptr ? name : "?", static_cast<long long>(begin),
                                static_cast<long long>(now_ns()), priority);
    const int fd = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(fd, line, static_cast<std::size_t>(n)) != n) std::abort();
    close(fd);
  });
}

}  // namespace

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuGetProcAddress_v2(const char* name, void** f, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  std::string symbol = name;
  if (symbol == "cuCtxSynchronize" && version >= 13000) symbol = "cuCtxSynchronize_v2";
  if (symbol == "cuGetProcAddress") symbol = "cuGetProcAddress_v2";
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && symbol == "cuLaunchKernel") symbol = "cuLaunchKernel_ptsz";
  static void* const self = [] {
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&cuGetProcAddress_v2), &here);
    return dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  *f = dlsym(self, symbol.c_str());
  if (found != nullptr) *found = *f != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *f != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuLaunchKernel(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream, void**,
                        void**) {
  if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (of(stream).captured) return CUDA_SUCCESS;
  return run(f, stream, of(stream).priority()), CUDA_SUCCESS;
}
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                             CUstream stream, void** arguments, void** extra) {
  return cuLaunchKernel(f, a, b, c, d, e, g, h, stream, arguments, extra);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void**, void**) {
  int priority = of(config->hStream).priority();
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = config->attrs[i].value.priority;
  return run(f, config->hStream, priority), CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return run(reinterpret_cast<CUfunction>(graph), stream, of(stream).priority()), CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int priority) {
  return *stream = reinterpret_cast<CUstream>(new Queue(priority)), CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
CUresult cuStreamGetPriority(CUstream stream, int* priority) { return *priority = of(stream).priority(), CUDA_SUCCESS; }
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) { return of(stream).captured = true, CUDA_SUCCESS; }
CUresult cuStreamEndCapture(CUstream stream, CUgraph*) { return of(stream).captured = false, CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = of(stream).captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) { return of(stream).wait(), CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return cuStreamSynchronize(nullptr); }
CUresult cuCtxSynchronize_v2(CUcontext) { return cuStreamSynchronize(nullptr); }
CUresult cuStreamQuery(CUstream stream) { return of(stream).idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  if (of(stream).captured) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  of(stream).add([at, value] { __atomic_store_n(reinterpret_cast<cuuint32_t*>(at), value, __ATOMIC_RELEASE); });
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister_v2(void*, size_t, unsigned) { return CUDA_SUCCESS; }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* at, void* host, unsigned) {
  return *at = reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = nullptr, CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent* event, unsigned) { return *event = reinterpret_cast<CUevent>(new std::pair<Queue*, int>), CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return reinterpret_cast<std::pair<Queue*, int>*>(event)->first = &of(stream), CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  // All that is in the other stream now, which is at least what was there when the event was recorded.
  Queue* other = reinterpret_cast<std::pair<Queue*, int>*>(event)->first;
  auto* passed = new std::pair<std::mutex, std::condition_variable>;
  auto* there = new bool(false);
  other->add([=] {
    const std::scoped_lock lock(passed->first);
    *there = true;
    passed->second.notify_all();
  });
  of(stream).add([=] {
    std::unique_lock lock(passed->first);
    passed->second.wait(lock, [=] { return *there; });
  });
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction) { return *name = "busy", CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) { return *value = 32, CUDA_SUCCESS; }
}
