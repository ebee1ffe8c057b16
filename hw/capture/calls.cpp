// Calls are told by callbacks at their beginning and end and not by CUPTI's records, which leave a process a fifth slower
// (experiments/h200/capture).  A thread writes what it calls into blocks of its own without a lock; another reads them.
//
// Of launches the driver's call is heard, which each of the runtime's makes under its number; of others the outer one.  Leaves
// out what a thread calls while it ends.
#include "hw/capture/calls.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hw/capture/attachment.h"
#include "hw/capture/cupti_functions.h"
#include "hw/capture/segments.h"
#include "traces/import/kineto_records.h"

namespace corun::capture {
namespace {

constexpr std::size_t kCallsInBlock = 512;

/// One thread adds, another takes.
class Queue {
 public:
  void add(const Call& call) {
    const std::size_t count = last_->count.load(std::memory_order_relaxed);
    if (count == kCallsInBlock) {
      Block* block = new Block;
      block->calls[0] = call;
      block->count.store(1, std::memory_order_relaxed);
      last_->next.store(block, std::memory_order_release);
      last_ = block;
    } else {
      last_->calls[count] = call;
      last_->count.store(count + 1, std::memory_order_release);
    }
  }
  void take(const std::function<void(const Call&)>& taker) {
    for (;;) {
      const std::size_t count = first_->count.load(std::memory_order_acquire);
      for (; taken_ < count; ++taken_) taker(first_->calls[taken_]);
      Block* next = first_->next.load(std::memory_order_acquire);
      if (count < kCallsInBlock || next == nullptr) return;
      first_.reset(next);
      taken_ = 0;
    }
  }
  std::atomic<bool> ended{false};  // no more will be added

 private:
  struct Block {
    std::array<Call, kCallsInBlock> calls;
    std::atomic<std::size_t> count{0};
    std::atomic<Block*> next{nullptr};
  };
  std::unique_ptr<Block> first_ = std::make_unique<Block>();
  Block* last_ = first_.get();
  std::size_t taken_ = 0;
};

struct Queues {
  std::mutex mutex;
  std::vector<std::unique_ptr<Queue>> all;
};
Queues& queues() {
  static Queues* all = new Queues;  // outlives the program's own destructors
  return *all;
}

/// Of a thread that calls.
struct Caller {
  Caller() {
    const std::scoped_lock lock(queues().mutex);
    queue = queues().all.emplace_back(std::make_unique<Queue>()).get();
  }
  ~Caller() { std::exchange(queue, nullptr)->ended = true; }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  Queue* queue;
  std::uint32_t thread = static_cast<std::uint32_t>(gettid());
  std::uint32_t runtime_calls = 0, heard = 0;  // how many it is in, since which hear_calls()
  std::uint32_t known = 0;                     // of thread_called()
};

std::atomic<std::uint32_t> times_heard{0};

using Kind = kineto::Call::Kind;
struct Function {
  std::optional<Kind> kind;
  bool of_thread = false;        // the stream 0 is the thread's own
  bool has_kernel = false;       // its parameters are those of cuLaunchKernel or cuLaunchKernelEx
  bool notices = false;          // the GPU calls a function of the host's
  bool uploads = false;          // a graph, before its first launch
  int captures = 0;              // 1: what is launched becomes a graph from here; -1: no longer
};
/// By number; the runtime's and the driver's.
std::array<std::vector<Function>, 2> functions;

const Function& function_of(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return functions[domain == CUPTI_CB_DOMAIN_RUNTIME_API ? 0 : 1][id];
}

// The runtime's calls have the same parameters as the driver's, and those with flags have them at the end.
struct Recorded {
  CUevent event;
  CUstream stream;
};
struct WaitedFor {
  CUstream stream;
  CUevent event;
};
static_assert(offsetof(cuEventRecordWithFlags_params, hStream) == offsetof(Recorded, stream));
static_assert(offsetof(cuStreamWaitEvent_params, hEvent) == offsetof(WaitedFor, event));

/// CUPTI's number of the stream, as kernels have it.
bool number_stream(CUstream stream, bool of_thread, std::uint32_t& number) {
  if (stream == CU_STREAM_PER_THREAD) stream = nullptr, of_thread = true;
  else if (stream == CU_STREAM_LEGACY) stream = nullptr, of_thread = false;
  return cupti().stream_number(nullptr, stream, of_thread ? 1 : 0, &number) == CUPTI_SUCCESS;
}

void add_event(const CUpti_CallbackData& data, const Function& function, Call& call) {
  CUevent event = nullptr;
  CUstream stream = nullptr;
  if (function.kind == Kind::event_record) {
    const auto& given = *static_cast<const Recorded*>(data.functionParams);
    event = given.event, stream = given.stream;
  } else if (function.kind == Kind::event_wait) {
    const auto& given = *static_cast<const WaitedFor*>(data.functionParams);
    event = given.event, stream = given.stream, call.waits = true;
  } else {
    return;
  }
  if (event != nullptr && number_stream(stream, function.of_thread, call.stream))
    call.event = reinterpret_cast<std::uintptr_t>(event), call.context = data.contextUid;
}

void tell_launch(const CUpti_CallbackData& data, CUpti_CallbackId id, const Function& function) {
  if (function.kind == Kind::graph_launch) {
    graph_given();
    launched(static_cast<const cuGraphLaunch_params*>(data.functionParams)->hGraph, 0);
  } else if (function.kind == Kind::launch && function.has_kernel) {
    if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx || id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
      const auto& given = *static_cast<const cuLaunchKernelEx_params*>(data.functionParams);
      launched(reinterpret_cast<const void*>(given.f), given.config == nullptr ? 0 : given.config->gridDimX);
    } else {
      const auto& given = *static_cast<const cuLaunchKernel_params*>(data.functionParams);
      launched(reinterpret_cast<const void*>(given.f), given.gridDimX);
    }
  }
}

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  static thread_local Caller caller;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const Function& function = function_of(domain, id);
  const bool of_runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (caller.queue == nullptr) return;
  if (function.captures != 0) {
    const auto* result = static_cast<const int*>(call.functionReturnValue);
    if (call.callbackSite == CUPTI_API_EXIT && (function.captures < 0 || result == nullptr || *result == 0)) graph_captured(function.captures);
    return;
  }
  if (function.notices) {
    if (call.callbackSite == CUPTI_API_EXIT) host_function_given();
    return;
  }
  if (function.uploads) {
    if (call.callbackSite == CUPTI_API_ENTER) graph_given();
    return;
  }
  if (caller.heard != times_heard.load(std::memory_order_relaxed)) caller.heard = times_heard, caller.runtime_calls = 0;
  if (call.callbackSite == CUPTI_API_ENTER) {
    caller.runtime_calls += of_runtime;
    *call.correlationData = now();
    if (!of_runtime) tell_launch(call, id, function);
    return;
  }
  if (!of_runtime && caller.runtime_calls != 0) return;
  if (of_runtime && caller.runtime_calls != 0) --caller.runtime_calls;
  if (*call.correlationData == 0) return;  // began before it was heard
  Call kept{domain, id, caller.thread, number_of(call.correlationId), *call.correlationData, now(), 0, 0, 0, false};
  add_event(call, function, kept);
  caller.queue->add(kept);
  thread_called(caller.thread, caller.known);
  if (function.kind == Kind::synchronize || function.kind == Kind::copy_and_wait) host_waited(kept.end);
  else if (function.kind == Kind::launch || function.kind == Kind::graph_launch) launch_ended(kept.end);
}

CUpti_SubscriberHandle subscriber = nullptr;

void look_up(CUpti_CallbackDomain domain, CUpti_CallbackId end) {
  const bool of_runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  auto& all = functions[of_runtime ? 0 : 1];
  all.assign(end, {});
  for (CUpti_CallbackId id = 1; id < end; ++id) {
    const char* text = nullptr;
    if (cupti().call_name(domain, id, &text) != CUPTI_SUCCESS || text == nullptr) continue;
    const std::string_view name = text;
    Function& function = all[id];
    function.kind = kineto::call_kind(name);
    if (of_runtime && (function.kind == Kind::launch || function.kind == Kind::graph_launch)) function.kind.reset();
    function.of_thread = name.find("_ptsz") != name.npos;
    function.has_kernel = name.starts_with("cuLaunchKernel");
    function.notices = !of_runtime && name.starts_with("cuLaunchHostFunc");
    function.captures = name.find("StreamBeginCapture") != name.npos ? 1 : name.find("StreamEndCapture") != name.npos ? -1 : 0;
    function.uploads = !of_runtime && name.starts_with("cuGraphUpload");
  }
}

void hear(CUpti_CallbackDomain domain) {
  const auto& all = functions[domain == CUPTI_CB_DOMAIN_RUNTIME_API ? 0 : 1];
  for (CUpti_CallbackId id = 1; id < all.size(); ++id)
    if (all[id].kind || all[id].notices || all[id].uploads || all[id].captures != 0)
      cupti().enable_callback(1, subscriber, domain, id);
}

}  // namespace

CUptiResult hear_calls() {
  static const bool looked_up = [] {
    look_up(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE);
    look_up(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE);
    return true;
  }();
  (void)looked_up;
  ++times_heard;
  if (const CUptiResult result = cupti().subscribe(&subscriber, called, nullptr); result != CUPTI_SUCCESS) return result;
  hear(CUPTI_CB_DOMAIN_RUNTIME_API);
  hear(CUPTI_CB_DOMAIN_DRIVER_API);
  return CUPTI_SUCCESS;
}

void hear_no_calls() { cupti().unsubscribe(subscriber); }

void take_calls(const std::function<void(const Call&)>& taker) {
  const std::scoped_lock lock(queues().mutex);
  std::erase_if(queues().all, [&](const std::unique_ptr<Queue>& queue) {
    const bool ended = queue->ended;  // before the last are taken
    queue->take(taker);
    return ended;
  });
}

}  // namespace corun::capture
