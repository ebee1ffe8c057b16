// A graph that was launched while kernels were recorded fails at its next launch once CUPTI has left: the
// process then holds what CUPTI has put into the graph and no longer serves.  Graphs that were made, but not
// launched meanwhile, live, as do single launches (experiments/h100/capture, leaves.txt).  A thread that is
// inside of a call while CUPTI leaves could return into what is gone, so CUPTI leaves only where one thread
// calls.
#include "hw/capture/attachment.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>

#include "hw/capture/calls.h"
#include "hw/capture/cupti_functions.h"

namespace corun::capture {
namespace {

constexpr std::uint32_t kSeveral = ~std::uint32_t{0};

std::atomic<std::uint64_t> attachments{0};  // times
std::atomic<bool> recording{false}, graph_recorded{false};
std::atomic<std::uint32_t> calling_thread{0}, since{1};  // 0: none so far

void wait_for_gpu() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return;
  if (const auto wait = reinterpret_cast<decltype(&::cuCtxSynchronize)>(dlsym(driver, "cuCtxSynchronize")))
    wait();
}

}  // namespace

CUptiResult attach(const Attachment& attachment) {
  ++attachments;
  set_attached(true);
  const CUptiResult result = attachment.attach();
  if (result != CUPTI_SUCCESS) return set_attached(false), result;
  cupti().enable(CUPTI_ACTIVITY_KIND_MEMORY2);
  return CUPTI_SUCCESS;
}

void detach() {
  cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cupti().disable(CUPTI_ACTIVITY_KIND_MEMORY2);
  hear_no_calls();
}

void leave(const Attachment& attachment) {
  hear_no_calls();  // of the wait, either
  wait_for_gpu();
  cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cupti().disable(CUPTI_ACTIVITY_KIND_MEMORY2);
  attachment.write_rest();
  cupti().finalize();
  set_attached(false);
}

bool may_leave() {
  static const bool can = cupti().finalize != nullptr && one_clock();
  return can && !graph_recorded && calling_thread == static_cast<std::uint32_t>(gettid());
}
void forget_threads() { calling_thread = 0, ++since; }

void thread_called(std::uint32_t thread, std::uint32_t& known) {
  const std::uint32_t now = since.load(std::memory_order_relaxed);
  if (known == now) return;
  known = now;
  std::uint32_t none = 0;
  if (!calling_thread.compare_exchange_strong(none, thread) && none != thread) calling_thread = kSeveral;
}

void records_kernels(bool records) { recording = records; }
void graph_comes() {
  if (recording.load(std::memory_order_relaxed)) graph_recorded = true;
}
bool first_graph_recorded() { return recording.load(std::memory_order_relaxed) && !graph_recorded; }

std::uint64_t number_of(std::uint32_t correlation) {
  return (attachments.load(std::memory_order_relaxed) - 1) << 32 | correlation;
}

}  // namespace corun::capture
