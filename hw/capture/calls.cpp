// Calls are told by callbacks at their beginning and end and not by CUPTI's records, which leave a process a fifth slower
// (experiments/h200/capture).  A thread writes what it calls into blocks of its own without a lock; another reads them.
//
// Leaves out the driver's calls within one of the runtime, which have its number, and what a thread calls while it ends.
#include "hw/capture/calls.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hw/capture/cupti_functions.h"
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
};

std::atomic<std::uint32_t> times_heard{0};

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId function, const void* data) {
  static thread_local Caller caller;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const bool of_runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (caller.queue == nullptr) return;
  if (caller.heard != times_heard.load(std::memory_order_relaxed)) caller.heard = times_heard, caller.runtime_calls = 0;
  if (call.callbackSite == CUPTI_API_ENTER) {
    caller.runtime_calls += of_runtime;
    *call.correlationData = now();
    return;
  }
  if (!of_runtime && caller.runtime_calls != 0) return;
  if (of_runtime && caller.runtime_calls != 0) --caller.runtime_calls;
  if (*call.correlationData == 0) return;  // began before it was heard
  caller.queue->add({domain, function, caller.thread, call.correlationId, *call.correlationData, now()});
}

CUpti_SubscriberHandle subscriber = nullptr;

void hear(CUpti_CallbackDomain domain, CUpti_CallbackId end) {
  for (CUpti_CallbackId function = 1; function < end; ++function) {
    const char* name = nullptr;
    if (cupti().call_name(domain, function, &name) == CUPTI_SUCCESS && name != nullptr && kineto::call_kind(name))
      cupti().enable_callback(1, subscriber, domain, function);
  }
}

}  // namespace

CUptiResult hear_calls() {
  take_calls([](const Call&) {});
  ++times_heard;
  if (const CUptiResult result = cupti().subscribe(&subscriber, called, nullptr); result != CUPTI_SUCCESS) return result;
  hear(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE);
  hear(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE);
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
