// CUPTI's activity kinds, switched on and off one by one from Python, so that each one's cost for a launch can be measured.
// Built on the GPU's machine by overhead.py; the records are counted and thrown away.
#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

void* library = nullptr;
std::atomic<std::uint64_t> records{0};
constexpr std::size_t kKept = 4096;
std::uint64_t rows[kKept][6];  // kind 0: kernel, 1: synchronization, 2: copy
std::atomic<std::size_t> kept{kKept};

template <typename F>
F* find(const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = std::size_t{4} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *most = 0;
}

void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  static auto* next = find<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  CUpti_Activity* record = nullptr;
  while (next(buffer, valid, &record) == CUPTI_SUCCESS) {
    ++records;
    const std::size_t i = kept.load();
    if (i >= kKept) continue;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* k = reinterpret_cast<CUpti_ActivityKernel10*>(record);
      const std::uint64_t row[6] = {0, k->correlationId, k->queued, k->submitted, k->start, k->end};
      std::memcpy(rows[i], row, sizeof row), ++kept;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) {
      const auto* s = reinterpret_cast<CUpti_ActivitySynchronization2*>(record);
      const std::uint64_t row[6] = {1, s->correlationId, s->start, s->end, std::uint64_t(s->type), 0};
      std::memcpy(rows[i], row, sizeof row), ++kept;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* c = reinterpret_cast<CUpti_ActivityMemcpy6*>(record);
      const std::uint64_t row[6] = {2, c->correlationId, c->start, c->end, c->copyKind, 0};
      std::memcpy(rows[i], row, sizeof row), ++kept;
    }
  }
  std::free(buffer);
}

std::atomic<std::uint64_t> calls{0};
void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) { ++calls; }

}  // namespace

extern "C" {

int probe_open(const char* path) {
  library = dlopen(path, RTLD_NOW);
  if (library == nullptr) return -1;
  return find<decltype(cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks")(requested, completed);
}
int probe_kind(int kind, int on) {
  return on ? find<decltype(cuptiActivityEnable)>("cuptiActivityEnable")(CUpti_ActivityKind(kind))
            : find<decltype(cuptiActivityDisable)>("cuptiActivityDisable")(CUpti_ActivityKind(kind));
}
/// Of a domain (driver 1, runtime 2) whose kind is on: no calls but those whose names begin with one of the texts (each
/// ended by a line break).  How many stay.
int probe_only(int domain, const char* begins) {
  auto* name = find<decltype(cuptiGetCallbackName)>("cuptiGetCallbackName");
  auto* driver = find<decltype(cuptiActivityEnableDriverApi)>("cuptiActivityEnableDriverApi");
  auto* runtime = find<decltype(cuptiActivityEnableRuntimeApi)>("cuptiActivityEnableRuntimeApi");
  int n = 0;
  for (CUpti_CallbackId id = 1; id < 1200; ++id) {
    const char* text = nullptr;
    if (name(CUpti_CallbackDomain(domain), id, &text) != CUPTI_SUCCESS || text == nullptr) continue;
    bool wanted = false;
    for (const char* one = begins; *one != 0;) {
      const char* end = std::strchr(one, '\n');
      wanted |= std::strncmp(text, one, std::size_t(end - one)) == 0;
      one = end + 1;
    }
    if (wanted) ++n;
    else (domain == 1 ? driver : runtime)(id, 0);
  }
  return n;
}
/// Callbacks at the beginning and end of the calls of a domain that begin with the text, instead of records.
int probe_callbacks(int domain, const char* begins, int on) {
  static CUpti_SubscriberHandle subscriber = nullptr;
  if (subscriber == nullptr) find<decltype(cuptiSubscribe)>("cuptiSubscribe")(&subscriber, called, nullptr);
  auto* name = find<decltype(cuptiGetCallbackName)>("cuptiGetCallbackName");
  auto* enable = find<decltype(cuptiEnableCallback)>("cuptiEnableCallback");
  int n = 0;
  for (CUpti_CallbackId id = 1; id < 1200; ++id) {
    const char* text = nullptr;
    if (name(CUpti_CallbackDomain(domain), id, &text) != CUPTI_SUCCESS || text == nullptr) continue;
    if (std::strncmp(text, begins, std::strlen(begins)) != 0) continue;
    if (enable(std::uint32_t(on), subscriber, CUpti_CallbackDomain(domain), id) == CUPTI_SUCCESS) ++n;
  }
  return n;
}
int probe_flush(int period_ms) {
  return find<decltype(cuptiActivityFlushPeriod)>("cuptiActivityFlushPeriod")(std::uint32_t(period_ms));
}
int probe_drain() { return find<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll")(1); }
int probe_attribute(int attribute, std::uint64_t value) {
  std::size_t size = attribute == 8 || attribute == 9 ? 1 : sizeof value;
  return find<decltype(cuptiActivitySetAttribute)>("cuptiActivitySetAttribute")(CUpti_ActivityAttribute(attribute), &size, &value);
}
int probe_latency(int on) {
  return find<decltype(cuptiActivityEnableLatencyTimestamps)>("cuptiActivityEnableLatencyTimestamps")(std::uint8_t(on));
}
/// Rows of records from now on, and those so far.
void probe_keep() { kept = 0; }
std::uint64_t probe_kept(std::uint64_t* to) {
  const std::size_t n = kept.exchange(kKept);
  std::memcpy(to, rows, n * sizeof rows[0]);
  return n;
}
std::uint64_t probe_records() { return records.exchange(0); }
}
