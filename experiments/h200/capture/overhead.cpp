// What a capture could ask of CUPTI, each by itself, so that its cost for a launch can be measured: a library that the CUDA
// driver loads (CUDA_INJECTION64_PATH) and that does what PROBE says, words separated by commas:
//
//   subscribe   cuptiSubscribe and nothing else
//   runtime     callbacks at the runtime's calls that issue work or wait for it, with the time of their beginning and end
//   driver      the same of the driver's
//   kind=N      records of that CUpti_ActivityKind
//   attribute=N:V  that CUpti_ActivityAttribute, 1 byte for booleans
//
// Built on the GPU's machine by overhead.py, which also calls it.  Records are counted and thrown away.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <vector>

namespace {

void* library = nullptr;

template <typename F>
F* find(const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}
#define CUPTI(function) find<decltype(::function)>(#function)

struct Row {
  std::uint64_t what, id, correlation, start, end;  // what: 1 call of the driver, 2 of the runtime, else 100 + its kind of record
};
std::mutex mutex;
std::vector<Row> kept;
std::atomic<bool> keeps{false};
std::atomic<std::uint64_t> records{0}, calls{0};

void keep(const Row& row) {
  const std::scoped_lock lock(mutex);
  kept.push_back(row);
}

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = std::size_t{4} << 20;
  *buffer = static_cast<std::uint8_t*>(std::calloc(1, *bytes));
  *most = 0;
}

Row row_of(const CUpti_Activity& record) {
  const std::uint64_t what = 100 + record.kind;
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& k = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    return {what, k.graphId, k.correlationId, k.start, k.end};
  }
  if (record.kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
    const auto& g = reinterpret_cast<const CUpti_ActivityGraphTrace2&>(record);
    return {what, g.graphId, g.correlationId, g.start, g.end};
  }
  return {what, 0, 0, 0, 0};
}

void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  static auto* next = CUPTI(cuptiActivityGetNextRecord);
  CUpti_Activity* record = nullptr;
  while (next(buffer, valid, &record) == CUPTI_SUCCESS) {
    ++records;
    if (keeps) keep(row_of(*record));
  }
  std::free(buffer);
}

/// As a capture would keep them: no lock, no text.
struct Calls {
  Row rows[4096];
  std::size_t next = 0;
};

void CUPTIAPI called(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  static auto* now = CUPTI(cuptiGetTimestamp);
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite == CUPTI_API_ENTER) {
    now(call.correlationData);
    return;
  }
  static thread_local Calls* mine = new Calls;
  Row& row = mine->rows[mine->next++ % 4096];
  row = {std::uint64_t(domain), id, call.correlationId, *call.correlationData, 0};
  now(&row.end);
  calls.fetch_add(1, std::memory_order_relaxed);
  if (keeps) keep(row);
}

const char* name_of(std::uint32_t domain, std::uint32_t id) {
  const char* text = nullptr;
  return CUPTI(cuptiGetCallbackName)(CUpti_CallbackDomain(domain), id, &text) == CUPTI_SUCCESS && text != nullptr ? text : "";
}

/// As traces/import/call_kind.cpp has them.
bool wanted(const char* name) {
  name += std::strncmp(name, "cuda", 4) == 0 ? 4 : 2;
  for (const char* begin : {"LaunchK", "LaunchC", "GraphLaunch", "Memcpy", "Memset", "EventRecord", "StreamWaitEvent", "StreamSynchronize",
                            "DeviceSynchronize", "CtxSynchronize", "EventSynchronize", "EventQuery", "StreamQuery"})
    if (std::strncmp(name, begin, std::strlen(begin)) == 0) return true;
  return false;
}

CUpti_SubscriberHandle subscriber = nullptr;

void call_back_at(CUpti_CallbackDomain domain) {
  for (CUpti_CallbackId id = 1; id < 1200; ++id)
    if (*name_of(domain, id) != 0 && wanted(name_of(domain, id))) CUPTI(cuptiEnableCallback)(1, subscriber, domain, id);
}

void do_as(const std::string& word) {
  const auto number = [&](std::size_t from) { return std::strtoull(word.c_str() + from, nullptr, 10); };
  if (word == "subscribe") CUPTI(cuptiSubscribe)(&subscriber, called, nullptr);
  if (word == "runtime") call_back_at(CUPTI_CB_DOMAIN_RUNTIME_API);
  if (word == "driver") call_back_at(CUPTI_CB_DOMAIN_DRIVER_API);
  if (word.rfind("kind=", 0) == 0) CUPTI(cuptiActivityEnable)(CUpti_ActivityKind(number(5)));
  if (word.rfind("attribute=", 0) == 0) {
    std::uint64_t value = number(word.find(':') + 1);
    const auto attribute = CUpti_ActivityAttribute(number(10));
    std::size_t size = attribute >= 8 || attribute == 5 ? 1 : sizeof value;
    if (CUPTI(cuptiActivitySetAttribute)(attribute, &size, &value) != CUPTI_SUCCESS) std::fprintf(stderr, "%s is refused\n", word.c_str());
  }
}

template <typename F>
double ns_of(F one) {
  timespec a{}, b{};
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < 100'000; ++i) one();
  clock_gettime(CLOCK_MONOTONIC, &b);
  return (double(b.tv_sec - a.tv_sec) * 1e9 + double(b.tv_nsec - a.tv_nsec)) / 1e5;
}

}  // namespace

extern "C" {

int InitializeInjection() {
  const char* words = std::getenv("PROBE");
  if (words == nullptr || library != nullptr) return 1;
  for (const char* name : {"libcupti.so.13", "libcupti.so.12"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW);
  if (library == nullptr) return 0;
  std::string all(words);
  if (all.find("kind=") != std::string::npos) CUPTI(cuptiActivityRegisterCallbacks)(requested, completed);
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(',', at), all.size());
    do_as(all.substr(at, end - at));
    at = end + 1;
  }
  if (all.find("kind=") != std::string::npos) CUPTI(cuptiActivityFlushPeriod)(200);
  return 1;
}

int probe_kind(int kind, int on) {
  return on ? CUPTI(cuptiActivityEnable)(CUpti_ActivityKind(kind)) : CUPTI(cuptiActivityDisable)(CUpti_ActivityKind(kind));
}
int probe_drain() { return CUPTI(cuptiActivityFlushAll)(1); }
void probe_counts(std::uint64_t* of) { of[0] = records.exchange(0), of[1] = calls.exchange(0); }
void probe_keep(int on) { keeps = on != 0; }
std::uint64_t probe_kept(Row* to, std::uint64_t most) {
  const std::scoped_lock lock(mutex);
  const std::uint64_t n = std::min<std::uint64_t>(kept.size(), most);
  std::memcpy(to, kept.data(), n * sizeof(Row));
  kept.clear();
  return n;
}
const char* probe_name(std::uint32_t domain, std::uint32_t id) { return name_of(domain, id); }

/// Nanoseconds of reading CUPTI's clock and the host's, and how far CUPTI's is from the host's two.
void probe_clock(double* of) {
  auto* now = CUPTI(cuptiGetTimestamp);
  std::uint64_t time = 0;
  timespec t{};
  of[0] = ns_of([&] { now(&time); });
  of[1] = ns_of([&] { clock_gettime(CLOCK_MONOTONIC, &t); });
  const auto beside = [&](clockid_t clock) {
    clock_gettime(clock, &t);
    now(&time);
    return double(std::int64_t(time) - (std::int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec));
  };
  of[2] = beside(CLOCK_REALTIME), of[3] = beside(CLOCK_MONOTONIC);
}
}
