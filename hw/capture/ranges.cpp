// Ranges of NVTX, by its own interface for tools (NVTX_INJECTION64_PATH): a range that is pushed and popped, in any domain,
// becomes a line.  CUPTI's way to them crashes in CUDA 13.0 (NVIDIA/NVTX issue 125).
//
// XLA makes a range of each node of a graph that it launches, 26 a request in JAX of experiments/h100/capture, where they made a
// request 1.2 times as long.  So it is told that nobody hears its domain, unless all is to be recorded.
//
// Leaves out: marks, ranges that another thread ends, and names in wide characters.
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hw/capture/cupti_functions.h"
#include "hw/capture/lines.h"
#include "hw/capture/segments.h"

namespace corun::capture {
namespace {

struct Open {
  std::string name;
  std::uint64_t start;
};
/// Domains nest each for itself.
std::vector<Open>& open_ranges(nvtxDomainHandle_t domain) {
  static thread_local std::unordered_map<nvtxDomainHandle_t, std::vector<Open>> all;
  return all[domain];
}

int push(nvtxDomainHandle_t domain, const char* name) {
  auto& open = open_ranges(domain);
  if (domain == nullptr) range_opened();
  open.push_back({name == nullptr ? "?" : name, now()});
  return static_cast<int>(open.size()) - 1;
}

/// The program's own ranges are of no domain; libraries have one each.
int pop(nvtxDomainHandle_t domain) {
  auto& open = open_ranges(domain);
  if (open.empty()) return -1;
  const std::uint64_t end = now();
  Line line('r');
  line.add_text(open.back().name.c_str()).add(open.back().start).add(end).add(gettid()).add(domain == nullptr ? 0 : 1);
  output().write(line);
  const std::string name = std::move(open.back().name);
  open.pop_back();
  if (domain == nullptr) range_closed(end, name);
  return static_cast<int>(open.size());
}

const char* name_of(const nvtxEventAttributes_t* event) {
  if (event == nullptr) return "?";
  if (event->messageType == NVTX_MESSAGE_TYPE_ASCII) return event->message.ascii;
  if (event->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
    return reinterpret_cast<const std::string*>(event->message.registered)->c_str();
  return "?";
}

int NVTX_API push_text(const char* name) { return push(nullptr, name); }
int NVTX_API push_event(const nvtxEventAttributes_t* event) { return push(nullptr, name_of(event)); }
int NVTX_API pop_default() { return pop(nullptr); }
int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) { return push(domain, name_of(event)); }
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return pop(domain); }
nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  if (name != nullptr && std::strcmp(name, "TSL") == 0 && std::getenv("CORUN_CAPTURE_ALL") == nullptr) return nullptr;
  return reinterpret_cast<nvtxDomainHandle_t>(new char);
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  return reinterpret_cast<nvtxStringHandle_t>(new std::string(text == nullptr ? "?" : text));  // lives as long as the program
}

template <typename F>
void set(NvtxFunctionTable table, unsigned size, unsigned id, F function) {
  if (id < size && table[id] != nullptr) *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace
}  // namespace corun::capture

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  using namespace corun::capture;
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) != 0) {
    set(table, size, NVTX_CBID_CORE_RangePushA, push_text);
    set(table, size, NVTX_CBID_CORE_RangePushEx, push_event);
    set(table, size, NVTX_CBID_CORE_RangePop, pop_default);
  }
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) != 0) {
    set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
    set(table, size, NVTX_CBID_CORE2_DomainRangePop, domain_pop);
    set(table, size, NVTX_CBID_CORE2_DomainCreateA, create_domain);
    set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  }
  return 1;
}
