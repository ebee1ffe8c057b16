// A driver with one GPU for each process: a stream is a thread that does what it was given, in order.  A function is a number
// of microseconds.  Each kernel is a line of the file that CORUN_FAKE_LOG names: NAME BEGIN_NS END_NS PRIORITY GROUPS, the last
// as a number with a bit for each group of SMs that a green context has.  Its groups are an H200's: 15 of 8 SMs and a rest of 12.
// CORUN_FAKE_DEVICE: of two devices the program uses this one.  A kernel with arguments (an address, a number of words) adds 1
// to each of these words when its time is over.
// Of a module's PTX the kernel busy_US takes this many microseconds and adds 1 to a word of its argument for each block.  Its worker
// (busy_US__persistent) is played as hw/transform/ptx.h says: it can be stopped, and goes on, and where SMs have seats it has as many
// workers as its quotas say, of which it learns by an order.  Of these a line for each number of workers, which is in place of GROUPS,
// above kWorkers.
// A context that is reset takes with it what was made in it: who uses a stream or an event of it, or lets the GPU write where nothing is
// registered any more, is told "stale".  The GPU's place on the bus is 0000:0N:00.0, N from 1 on by CUDA_VISIBLE_DEVICES.
// A capture is as strict as the driver's: what its streams were given and the first does not depend on leaves it unjoined, a wait or a
// write of the GPU is a node of it, the legacy stream is not to be used while a blocking stream is captured, and what may not be called
// while a thread captures makes the capture invalid.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_driver.h"
#include "hw/transform/ptx.h"

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int kGroups = 16, kAllGroups = (1 << kGroups) - 1;

/// A graph of as many kernels as were captured runs as one, where the last was captured.
struct Graph {
  int us = 0, groups = kAllGroups;
  std::intptr_t nodes = 0;
  std::size_t edges = 0;
};

class Queue;

/// What has been captured so far, in all of its streams.
struct Capture {
  Queue* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  Graph graph, *into = nullptr;  // a graph that there was before
  std::map<std::intptr_t, std::set<std::intptr_t>> before;  // of each node
  bool valid = true;
  std::vector<Queue*> queues{};
};

class Queue {
 public:
  explicit Queue(int priority, int on = kAllGroups, bool waits_for_legacy = false) : groups(on), blocking(waits_for_legacy), priority_(priority) {
    std::thread([this] { work(); }).detach();
  }
  const int groups;
  const bool blocking;
  std::atomic<bool> gone{false};  // with its context, and what waits in it
  void add(std::function<void()> what) {
    const std::scoped_lock lock(mutex_);
    todo_.push_back(std::move(what));
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return todo_.empty(); });
  }
  Capture* captured = nullptr;  // what is launched goes into its graph
  std::set<std::intptr_t> depends;  // of which nodes what is captured next is
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
      if (!gone) next();
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

std::mutex all_mutex;
std::vector<Queue*>& all() {
  static auto* const queues = new std::vector<Queue*>;
  return *queues;
}
Queue* made(int priority, int groups = kAllGroups, bool blocking = false) {
  const std::scoped_lock lock(all_mutex);
  return all().emplace_back(new Queue(priority, groups, blocking));
}

/// Contexts so far: what belongs to an earlier one is gone.
std::atomic<int> life{0};
std::atomic<bool> registered{false};

CUresult stale() {
  std::puts("stale");
  std::fflush(stdout);
  return CUDA_ERROR_INVALID_HANDLE;
}

struct Event {
  int in_life = life;
  Queue* of = nullptr;
  Capture* in = nullptr;            // when it was recorded in a capture
  std::set<std::intptr_t> depends;
};

std::mutex captures_mutex;
std::vector<Capture*>& captures() {
  static auto* const all = new std::vector<Capture*>;
  return *all;
}

bool is_legacy(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

/// The streams of threads, for which who waits for the legacy stream waits too.
std::vector<Queue*>& of_threads() {
  static auto* const all = new std::vector<Queue*>;
  return *all;
}

Queue& of(CUstream stream) {
  static auto* const common = made(0);
  static thread_local Queue* mine = nullptr;
  if (is_legacy(stream)) return *common;
  if (stream != CU_STREAM_PER_THREAD) return *reinterpret_cast<Queue*>(stream);
  if (mine == nullptr) {
    mine = made(0, kAllGroups, true);
    const std::scoped_lock lock(all_mutex);
    of_threads().push_back(mine);
  }
  return *mine;
}
std::vector<Queue*> waited_for(CUstream stream) {
  std::vector<Queue*> queues{&of(stream)};
  const std::scoped_lock lock(all_mutex);
  if (is_legacy(stream)) queues.insert(queues.end(), of_threads().begin(), of_threads().end());
  return queues;
}

thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// What may wait for the GPU, or allocates: it makes what others capture invalid, unless the thread says that it knows better.
CUresult unsafe() {
  const std::scoped_lock lock(captures_mutex);
  CUresult result = CUDA_SUCCESS;
  for (Capture* capture : captures())
    if (mode_of_thread != CU_STREAM_CAPTURE_MODE_RELAXED && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
      capture->valid = false, result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return result;
}

/// To use the legacy stream while a blocking stream is captured: refused, and the capture is invalid.
CUresult legacy(CUstream stream, bool invalidates = true) {
  if (!is_legacy(stream)) return CUDA_SUCCESS;
  const std::scoped_lock lock(captures_mutex);
  for (Capture* capture : captures())
    for (const Queue* queue : capture->queues)
      if (queue->blocking) return capture->valid = capture->valid && !invalidates, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  return CUDA_SUCCESS;
}

void add_node(Queue& queue) {
  Graph& graph = queue.captured->graph;
  graph = {graph.us, queue.groups, graph.nodes + 1, graph.edges + queue.depends.size()};
  queue.captured->before[graph.nodes] = queue.depends;
  queue.depends = {graph.nodes};
}

void note(std::int64_t begin, int priority, int groups) {
  const char* log = std::getenv("CORUN_FAKE_LOG");
  if (log == nullptr) return;
  char line[128];
  const char* name = std::getenv("CORUN_NAME");
  const int n = std::snprintf(line, sizeof line, "%s %lld %lld %d %d\n", name != nullptr ? name : "?", static_cast<long long>(begin),
                              static_cast<long long>(now_ns()), priority, groups);
  const int fd = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (write(fd, line, static_cast<std::size_t>(n)) != n) std::abort();
  close(fd);
}

void run(std::intptr_t us, CUstream stream, int priority, int groups, const std::function<void()>& what = [] {}) {
  of(stream).add([us, priority, groups, what] {
    const std::int64_t begin = now_ns();
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    what();
    note(begin, priority, groups);
  });
}

constexpr std::intptr_t kOfModule = std::intptr_t{1} << 40, kWorker = std::intptr_t{1} << 41, kOfLibrary = std::intptr_t{1} << 42;

constexpr int kWorkers = 1'000'000, kSms = 132, kOfSm = 16;

int workers_of(const corun::hw::PtxLaunch& p) {
  if (p.launch.seated == 0) return kSms * kOfSm;
  int all = 0;
  for (int sm = 0; sm < kSms; ++sm)
    all += std::min<int>(kOfSm, static_cast<int>(__atomic_load_n(&reinterpret_cast<corun::hw::PtxQuota*>(p.quotas)[sm].workers, __ATOMIC_ACQUIRE)));
  return all;
}

void run_worker(std::intptr_t us, std::uint32_t* counts, const corun::hw::PtxLaunch& p) {
  auto& control = *reinterpret_cast<corun::hw::PtxControl*>(p.launch.control);
  auto* const said = reinterpret_cast<std::uint32_t*>(p.launch.progress);
  std::int64_t begin = now_ns();
  const std::uint32_t blocks = p.launch.end, step = blocks / 64;
  std::uint32_t &at = control.control.taken, first = at;
  int workers = workers_of(p);
  const auto note_piece = [&] {
    if (at != first) note(begin, 0, p.launch.seated == 0 ? kAllGroups : kWorkers + workers);
    begin = now_ns(), first = at;
  };
  std::uint64_t seen = 0;
  while (at < blocks && workers != 0) {
    const std::uint64_t order = p.order == 0 ? 0 : __atomic_load_n(reinterpret_cast<std::uint64_t*>(p.order), __ATOMIC_ACQUIRE);
    if (order == corun::hw::ptx_stop(p.number)) break;
    if (order != seen && static_cast<std::uint32_t>(order) == p.number) {
      note_piece();
      seen = order, workers = std::min(workers, workers_of(p));  // nobody comes
      if (workers == 0) break;
    }
    for (const std::uint32_t end = std::min(at + step, blocks); at < end; ++at) ++counts[at];
    std::this_thread::sleep_for(std::chrono::microseconds(us / 64 * kSms * kOfSm / workers));
  }
  note_piece();
  said[3] = at;
  if (at == blocks && p.done != 0) __atomic_store_n(reinterpret_cast<std::uint32_t*>(p.done), p.done_value, __ATOMIC_RELEASE);
  if (p.order == 0) at = 0;
  __atomic_store_n(said + 2, p.number, __ATOMIC_RELEASE);
}

/// What a kernel of a module gets: its counts, and a worker its launch.
CUresult run_of_module(std::intptr_t f, unsigned blocks, CUstream stream, void** arguments, void** extra) {
  const std::intptr_t us = f & 0xffffffff;
  if (arguments == nullptr && extra == nullptr) return run(us, stream, of(stream).priority(), of(stream).groups), CUDA_SUCCESS;
  std::uint32_t* counts = nullptr;
  corun::hw::PtxLaunch launch;
  if (arguments != nullptr) {
    counts = *static_cast<std::uint32_t**>(arguments[0]);
    if ((f & kWorker) != 0) std::memcpy(&launch, arguments[1], sizeof launch);
  } else {
    std::memcpy(&counts, extra[1], sizeof counts);
    if ((f & kWorker) != 0) std::memcpy(&launch, static_cast<char*>(extra[1]) + 8, sizeof launch);
  }
  if ((f & kWorker) != 0) return of(stream).add([=] { run_worker(us, counts, launch); }), CUDA_SUCCESS;
  of(stream).add([=] {
    for (unsigned b = 0; b < blocks; ++b) ++counts[b];
  });
  return run(us, stream, of(stream).priority(), of(stream).groups), CUDA_SUCCESS;
}

CUresult launch(CUfunction f, CUstream stream, int priority, void** arguments = nullptr) {
  if (of(stream).gone) return stale();
  if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult r = legacy(stream, false); r != CUDA_SUCCESS) return r;
  const auto us = reinterpret_cast<std::intptr_t>(f);
  Queue& queue = of(stream);
  if (queue.captured == nullptr && arguments != nullptr) {
    auto* words = reinterpret_cast<std::uint32_t*>(*static_cast<CUdeviceptr*>(arguments[0]));
    const std::uint64_t count = *static_cast<std::uint64_t*>(arguments[1]);
    run(us, stream, priority, queue.groups, [=] {
      for (std::uint64_t i = 0; i < count; ++i) ++words[i];
    });
    return CUDA_SUCCESS;
  }
  if (queue.captured == nullptr) return run(us, stream, priority, queue.groups), CUDA_SUCCESS;
  queue.captured->graph.us = static_cast<int>(us);
  return add_node(queue), CUDA_SUCCESS;
}

}  // namespace

/// As a later CUDA might mean it: the stream comes first.
static CUresult launch_of_14(CUstream stream, CUfunction f) { return launch(f, stream, 0); }

static CUstream of_thread(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

void enqueue(CUstream stream, std::function<void()> what) { of(stream).add(std::move(what)); }
void finish(CUstream stream) { of(stream).wait(); }
void finish_all() {
  std::unique_lock lock(all_mutex);
  const std::vector<Queue*> queues = all();
  lock.unlock();
  for (Queue* queue : queues) queue->wait();
}

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = std::getenv("CORUN_FAKE_DEVICE") != nullptr ? 2 : 1, CUDA_SUCCESS; }
CUresult cuGetProcAddress_v2(const char* name, void** f, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  std::string symbol = name;
  if (symbol == "cuCtxSynchronize" && version >= 13000) symbol = "cuCtxSynchronize_v2";
  if (symbol == "cuLaunchKernel" && version >= 14000) return *f = reinterpret_cast<void*>(&launch_of_14), CUDA_SUCCESS;
  if (symbol == "cuGetProcAddress" && version >= 12000) symbol = "cuGetProcAddress_v2";
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
CUresult cuGetProcAddress(const char* name, void** f, int version, cuuint64_t flags) {  // as until CUDA 11
  return cuGetProcAddress_v2(name, f, version, flags, nullptr);
}
CUresult cuLaunchKernel(CUfunction f, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream stream,
                        void** arguments, void** extra) {
  if (const auto number = reinterpret_cast<std::intptr_t>(f); number >= kOfModule)
    return run_of_module(number, blocks, stream, arguments, extra);
  return launch(f, stream, of(stream).priority(), arguments);
}
CUresult cuLaunchGrid(CUfunction f, int, int) { return launch(f, nullptr, 0); }
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                             CUstream stream, void** arguments, void** extra) {
  return cuLaunchKernel(f, a, b, c, d, e, g, h, of_thread(stream), arguments, extra);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void**, void**) {
  int priority = of(config->hStream).priority();
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PRIORITY) priority = config->attrs[i].value.priority;
  return launch(f, config->hStream, priority);
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const auto us = reinterpret_cast<std::intptr_t>(graph);
  const Graph& made = us < 1'000'000 ? Graph{static_cast<int>(us), kAllGroups} : *reinterpret_cast<const Graph*>(graph);
  return run(made.us, stream, of(stream).priority(), made.groups), CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  return *made = reinterpret_cast<CUgraphExec>(graph), CUDA_SUCCESS;
}
CUresult cuDeviceGetDevResource(CUdevice, CUdevResource* all, CUdevResourceType type) {
  *all = {};
  all->type = type;
  all->sm.smCount = 132;
  return CUDA_SUCCESS;
}
CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count, const CUdevResource*, CUdevResource* rest, unsigned,
                                     unsigned) {
  *count = kGroups - 1;
  for (int g = 0; groups != nullptr && g < kGroups; ++g) {
    CUdevResource& group = g < kGroups - 1 ? groups[g] : *rest;
    group = {};
    group.type = CU_DEV_RESOURCE_TYPE_SM;
    group.sm.smCount = g < kGroups - 1 ? 8 : 12;
    group._internal_padding[0] = static_cast<unsigned char>(g);
  }
  return CUDA_SUCCESS;
}
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* described, CUdevResource* groups, unsigned count) {
  std::intptr_t bits = 0;
  for (unsigned i = 0; i < count; ++i) bits |= 1 << groups[i]._internal_padding[0];
  return *described = reinterpret_cast<CUdevResourceDesc>(bits), CUDA_SUCCESS;
}
constexpr std::intptr_t kLife = 1 << 20;  // of a green context, above its groups
CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc described, CUdevice, unsigned) {
  return *context = reinterpret_cast<CUgreenCtx>(reinterpret_cast<std::intptr_t>(described) + life * kLife), CUDA_SUCCESS;
}
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned, int priority) {
  if (reinterpret_cast<std::intptr_t>(context) / kLife != life) return stale();
  const auto groups = static_cast<int>(reinterpret_cast<std::intptr_t>(context) % kLife);
  return *stream = reinterpret_cast<CUstream>(made(priority, groups)), CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  const char* used = std::getenv("CORUN_FAKE_DEVICE");
  return *device = used != nullptr ? std::atoi(used) : 0, CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return *stream = reinterpret_cast<CUstream>(made(priority, kAllGroups, (flags & CU_STREAM_NON_BLOCKING) == 0)), CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
CUresult cuStreamGetPriority(CUstream stream, int* priority) { return *priority = of(stream).priority(), CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) { return std::swap(*mode, mode_of_thread), CUDA_SUCCESS; }
CUresult cuGraphCreate(CUgraph* graph, unsigned) { return *graph = reinterpret_cast<CUgraph>(new Graph), CUDA_SUCCESS; }
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*, size_t, CUstreamCaptureMode mode) {
  Queue& queue = of(stream);
  if (is_legacy(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (queue.captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  queue.captured = new Capture{&queue, mode, {}, reinterpret_cast<Graph*>(graph), {}, true, {&queue}};
  const std::scoped_lock lock(captures_mutex);
  return captures().push_back(queue.captured), CUDA_SUCCESS;
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(of_thread(stream), graph, nodes, edges, count, mode);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, mode);
}
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) { return cuStreamBeginCapture_v2(of_thread(stream), mode); }
CUresult cuStreamBeginCapture(CUstream stream) { return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); }
CUresult cuStreamBeginCapture_ptsz(CUstream stream) { return cuStreamBeginCapture(of_thread(stream)); }
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  Queue& queue = of(stream);
  Capture* capture = queue.captured;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &queue) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  std::set<std::intptr_t> joined = queue.depends;
  for (bool more = true; more;) {
    const std::size_t before = joined.size();
    for (const std::intptr_t node : std::set(joined)) joined.insert(capture->before[node].begin(), capture->before[node].end());
    more = joined.size() != before;
  }
  CUresult result = capture->valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  for (Queue* each : capture->queues) {
    if (!std::ranges::includes(joined, each->depends) && result == CUDA_SUCCESS) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    each->captured = nullptr, each->depends.clear();
  }
  {
    const std::scoped_lock lock(captures_mutex);
    std::erase(captures(), capture);
  }
  if (result != CUDA_SUCCESS) return *graph = nullptr, result;
  Graph* made = capture->into != nullptr ? capture->into : new Graph;
  *made = capture->graph;
  *graph = reinterpret_cast<CUgraph>(made);
  if (const char* log = std::getenv("CORUN_FAKE_LOG"))
    std::ofstream(std::string(log) + ".edges", std::ios::app) << made->nodes << ' ' << made->edges << '\n';
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) { return cuStreamEndCapture(of_thread(stream), graph); }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const Capture* capture = of(stream).captured;
  *status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->valid   ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                               : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return legacy(stream, false);
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode** nodes,
                                   const CUgraphEdgeData**, size_t* count) {
  static thread_local std::vector<CUgraphNode> all;
  all.clear();
  for (const std::intptr_t node : of(stream).depends) all.push_back(reinterpret_cast<CUgraphNode>(node));
  *nodes = all.data(), *count = all.size();
  return cuStreamIsCapturing(stream, status);
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData*, size_t count, unsigned flags) {
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) of(stream).depends.clear();
  for (size_t i = 0; i < count; ++i) of(stream).depends.insert(reinterpret_cast<std::intptr_t>(nodes[i]));
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  for (Queue* queue : waited_for(stream)) queue->wait();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return finish_all(), CUDA_SUCCESS; }
CUresult cuCtxSynchronize_v2(CUcontext) { return cuCtxSynchronize(); }
CUresult cuStreamQuery(CUstream stream) {
  return std::ranges::all_of(waited_for(stream), &Queue::idle) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned) {
  if (of(stream).gone || !registered) return stale();
  if (const CUresult r = legacy(stream); r != CUDA_SUCCESS) return r;
  if (of(stream).captured != nullptr) return add_node(of(stream)), CUDA_SUCCESS;
  of(stream).add([at, value] { __atomic_store_n(reinterpret_cast<cuuint32_t*>(at), value, __ATOMIC_RELEASE); });
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  if (of(stream).gone) return stale();
  if (const CUresult r = legacy(stream); r != CUDA_SUCCESS) return r;
  if (of(stream).captured != nullptr) return add_node(of(stream)), CUDA_SUCCESS;
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) std::abort();
  of(stream).add([at, value] {
    const auto there = [&] { return static_cast<int>(__atomic_load_n(reinterpret_cast<cuuint32_t*>(at), __ATOMIC_ACQUIRE) - value) >= 0; };
    while (!there()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
  of(stream).add([=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  Queue& queue = of(stream);
  if (queue.captured != nullptr && queue.captured->origin == &queue) {
    const std::scoped_lock lock(captures_mutex);
    std::erase(captures(), queue.captured);
    for (Queue* each : queue.captured->queues) each->captured = nullptr, each->depends.clear();
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, size_t) { return *blocks = 16, CUDA_SUCCESS; }
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  static std::intptr_t modules = 0;
  if (image == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  return *module = reinterpret_cast<CUmodule>(++modules), CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* name) {
  if (std::strncmp(name, "busy_", 5) != 0) return CUDA_ERROR_NOT_FOUND;
  const bool worker = std::strstr(name, "__persistent") != nullptr;
  static std::intptr_t found = 0;  // each is at another address
  return *f = reinterpret_cast<CUfunction>(++found << 48 | kOfModule | (worker ? kWorker : 0) | std::atoi(name + 5)), CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
  return cuModuleLoadData(reinterpret_cast<CUmodule*>(library), image);
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  const CUresult result = cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), reinterpret_cast<CUmodule>(library), name);
  if (result == CUDA_SUCCESS) *kernel = reinterpret_cast<CUkernel>(reinterpret_cast<std::intptr_t>(*kernel) | kOfLibrary);
  return result;
}
CUresult cuKernelGetFunction(CUfunction* f, CUkernel kernel) {
  const auto bits = reinterpret_cast<std::intptr_t>(kernel);
  if ((bits & kOfLibrary) == 0) return CUDA_ERROR_INVALID_HANDLE;
  return *f = reinterpret_cast<CUfunction>(bits & ~kOfLibrary), CUDA_SUCCESS;
}
CUresult cuMemHostRegister_v2(void*, size_t, unsigned) {
  if (const CUresult r = unsafe(); r != CUDA_SUCCESS) return r;
  return registered.exchange(true) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return cuCtxGetCurrent(context);
}
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) { return *flags = 0, *active = 1, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice) {
  const std::scoped_lock lock(all_mutex);
  for (Queue* queue : all()) queue->gone = queue != &of(nullptr);
  ++life;
  registered = false;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuDeviceGetPCIBusId(char* place, int bytes, CUdevice device) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::snprintf(place, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 1 + device + (visible != nullptr ? std::atoi(visible) : 0));
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* at, void* host, unsigned) {
  return *at = reinterpret_cast<CUdeviceptr>(host), CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = reinterpret_cast<CUcontext>(1), CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuEventCreate(CUevent* event, unsigned) {
  static auto* const all = new std::deque<Event>;  // as nobody destroys one
  static auto* const mutex = new std::mutex;
  const std::scoped_lock lock(*mutex);
  return *event = reinterpret_cast<CUevent>(&all->emplace_back()), CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult r = legacy(stream); r != CUDA_SUCCESS) return r;
  Event& is = *reinterpret_cast<Event*>(event);
  if (of(stream).gone || is.in_life != life) return stale();
  return is = {life, &of(stream), of(stream).captured, of(stream).depends}, CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  // All that is in the other stream now, which is at least what was there when the event was recorded.
  const auto& [in_life, other, in, depends] = *reinterpret_cast<Event*>(event);
  if (of(stream).gone || in_life != life) return stale();
  if (const CUresult r = legacy(stream); r != CUDA_SUCCESS) return r;
  if (in != nullptr) {  // the stream joins the capture
    if (other->captured != in) return CUDA_ERROR_INVALID_VALUE;
    const std::scoped_lock lock(captures_mutex);
    if (of(stream).captured == nullptr) in->queues.push_back(&of(stream));
    of(stream).depends.insert(depends.begin(), depends.end());
    return of(stream).captured = in, CUDA_SUCCESS;
  }
  struct Passed {
    std::mutex mutex;
    std::condition_variable changed;
    bool there = false;
  };
  const auto passed = std::make_shared<Passed>();
  other->add([=] {
    const std::scoped_lock lock(passed->mutex);
    passed->there = true;
    passed->changed.notify_all();
  });
  of(stream).add([=] {
    std::unique_lock lock(passed->mutex);
    passed->changed.wait(lock, [&] { return passed->there; });
  });
  return CUDA_SUCCESS;
}
// A kernel of a library can be launched as a function, but has no attributes of one.
CUresult cuFuncGetName(const char** name, CUfunction f) {
  if ((reinterpret_cast<std::intptr_t>(f) & kOfLibrary) != 0) return CUDA_ERROR_INVALID_HANDLE;
  return *name = "busy", CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction f) {
  if ((reinterpret_cast<std::intptr_t>(f) & kOfLibrary) != 0) return CUDA_ERROR_INVALID_HANDLE;
  return *value = 32, CUDA_SUCCESS;
}
}
