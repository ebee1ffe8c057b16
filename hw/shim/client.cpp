#include "hw/shim/client.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "hw/shim/blocks.h"
#include "hw/shim/driver.h"
#include "hw/shim/join.h"
#include "hw/shim/leave.h"
#include "hw/shim/uncaptured.h"

namespace corun::live {
namespace {

// To be woken takes 50 us, a tenth of a short request, so that a thread looks for as long as os::kSpins before it sleeps.
constexpr std::int64_t kLookNs = 2'000;    // for the grant of a launch that is next; twice a round trip

void warn(const char* problem, const char* more = "") {
  os::complain((std::string("corun: ") + problem + (*more != '\0' ? ": " : "") + more + "; this program is not steered\n").c_str());
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(os::Clock::now().time_since_epoch()).count();
}

std::atomic<Client*>& latest() { return os::of_process<Steered>().latest; }

struct Connecting {
  os::Once once;
};

}  // namespace

void Client::connect() {
  os::call_once(os::of_process<Connecting>().once, [] {
    const char* path = service_of_environment();
    if (path == nullptr) return;
    os::pthread_atfork(nullptr, nullptr, in_child);  // before there is a socket: another thread may fork while this one joins
    const Joined joined = join(path);
    if (joined.memory == nullptr) return warn(joined.why.c_str());
    joined_a_service();
    auto* client = os::keep(new Client(joined));  // lives as long as the program
    Blocks::begin(*client, *joined.memory);
    client->begin();
  });
}

/// The child is none of the service's: who holds the socket keeps a killed parent in the books.
void Client::in_child() {
  os::of_process<Steered>().now.store(nullptr, std::memory_order_release);
  Blocks::end();
  forget_what_to_say();
  close_what_joins();
  if (Client* client = latest().exchange(nullptr)) {
    os::close(client->socket_);
    os::munmap(client->memory_, sizeof(Memory));
  }
}

Client::Client(const Joined& joined)
    : socket_(joined.socket), memory_(joined.memory), device_(static_cast<CUdevice>(joined.device)), only_gpu_(sees_one_gpu()) {}

void Client::begin() {
  latest().store(this);
  os::of_process<Steered>().now.store(this, std::memory_order_release);
  os::start_thread([this] { watch(); });
}

/// Until the service is gone, or stands still.  What waits on the GPU then goes on, and the program joins the next service.
void Client::watch() {
  using Clock = os::Clock;
  constexpr Clock::duration kMost = 3 * limits::kLookAtService;  // that a look counts: the program may have been stopped meanwhile
  std::uint32_t beat = memory_->beat.load();
  Clock::duration still{};
  for (auto last = Clock::now(); !service_is_gone();) {
    pollfd look{socket_, POLLRDHUP, 0};
    os::poll(&look, 1, static_cast<int>(std::chrono::milliseconds(limits::kLookAtService).count()));
    const auto now = Clock::now();
    const std::uint32_t beats = memory_->beat.load();
    still = beats != beat ? Clock::duration{} : still + std::min(now - last, kMost);
    beat = beats, last = now;
    if (still >= limits::kStandsStill) leave("the service stands still");
  }
  // A thread that is in the driver, which may wait for what waits, ends there; whoever comes later finds no service.
  std::unique_lock<os::Mutex> lock(order_, std::defer_lock);
  do let_go();
  while (!lock.try_lock() && (os::sleep_for(std::chrono::milliseconds(1)), true));
  let_go();
  lock.unlock();
  // A service that stood still and goes on may write once more what it grants, and then nobody would be let go.
  for (; !all_have_ended(); let_go()) os::sleep_for(limits::kLookAtService);
  for (auto pause = limits::kRejoin; latest().load() == this; pause = std::min<decltype(pause)>(2 * pause, limits::kRejoinMost)) {
    os::sleep_for(pause);
    const Joined joined = join(service_of_environment());
    if (joined.memory == nullptr) continue;
    if (joined.memory->memory_cap.load() != 0) {
      os::close(joined.socket), os::munmap(joined.memory, sizeof(Memory));
      return warn("a service is there, but it decides about memory, and this program's is its own by now");
    }
    auto* next = os::keep(new Client(joined));
    os::complain("corun: a service is there; this program is steered again\n");
    return next->begin();
  }
}

/// No attempt is stopped any more.  One that has been is the last that the GPU says anything of before it goes on.
void Client::let_go() {
  for (auto& order : memory_->words.orders) order.store(0);
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    memory_->words.granted[i].store(numbered_[i].launched);
    memory_->words.resumed[i].store(attempt_of(numbered_[i].launched, kAllAttempts));
  }
}

/// Who comes after it counts its own launches only.
bool Client::all_have_ended() {
  for (std::uint32_t i = 0; i < kStreams; ++i)
    if (!reached(memory_->words.ended[i].load(std::memory_order_acquire), numbered_[i].marked)) return false;
  return true;
}

/// A number is not given to another stream while launches may still run when theirs is destroyed.  Where none can be stopped, a
/// stream that the driver makes later at the same address goes on with it.
Client::Stream* Client::stream(const StreamKey& key) {
  struct Known {
    StreamKey key;
    Stream* stream = nullptr;
    const Client* of = nullptr;
    std::uint32_t since = 0;
  };
  auto& [last, known, of, known_since] = os::of_thread<Known>();
  const std::uint32_t since = destroyed_.load(std::memory_order_acquire);
  if (known != nullptr && of == this && last == key && known_since == since) return known;
  const std::scoped_lock lock(tables_);
  auto& of_handle = streams_[key.stream];
  const auto [at, added] = of_handle.try_emplace(key.thread, nullptr);
  if (added && used_ < kStreams) {
    at->second = &numbered_[used_];
    at->second->index = used_++;
  } else if (added) {
    const auto over = std::ranges::find_if(retired_, [&](std::uint32_t i) {
      return memory_->words.ended[i].load(std::memory_order_acquire) == numbered_[i].launched;
    });
    if (over != retired_.end()) at->second = &numbered_[*over], retired_.erase(over);
  }
  last = key, known = at->second, of = this, known_since = since;
  return known;
}

void Client::destroyed(CUstream stream) {
  const std::scoped_lock lock(tables_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  for (const auto& [thread, of] : at->second)
    if (of != nullptr) retired_.push_back(of->index);
  streams_.erase(at);
  destroyed_.fetch_add(1, std::memory_order_release);
}

/// False: nobody hears it any more.
bool Client::say(const Message& message) {
  const std::scoped_lock lock(sending_);
  const std::uint32_t said = memory_->said.load(std::memory_order_relaxed);
  for (std::uint64_t spins = 1; said - memory_->heard.load(std::memory_order_acquire) >= kMessageRing; ++spins) {
    os::pause();
    if (left_.load(std::memory_order_relaxed) || (spins % os::kSpins == 0 && service_is_gone())) return false;
  }
  memory_->messages[said % kMessageRing] = message;
  memory_->said.store(said + 1);  // seq_cst: before the look whether it sleeps
  if (memory_->service_sleeps.load() != 0) {
    const char ring = 1;
    (void)os::send(socket_, &ring, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return true;
}

bool Client::service_is_gone() {
  if (left_.load()) return true;
  pollfd look{socket_, POLLRDHUP, 0};
  if (os::poll(&look, 1, 0) <= 0) return false;
  return leave("the service has ended"), true;
}

/// Says it once.
void Client::leave(const char* why) {
  left_.store(true);
  Client* self = this;
  if (os::of_process<Steered>().now.compare_exchange_strong(self, nullptr)) warn(why);
  os::shutdown(socket_, SHUT_RDWR);
}

const Terms& Client::standing() const {
  struct Known {
    Terms terms;
    std::uint32_t version = 0;
    const Client* of = nullptr;
  };
  auto& [known, known_version, of] = os::of_thread<Known>();
  if (of != this) of = this, known = {}, known_version = 0;
  for (std::uint64_t spins = 1;; ++spins) {
    // Odd for good: the service was killed while it wrote.  What was known stands until that is seen.
    if (left_.load(std::memory_order_relaxed) || spins % os::kSpins == 0) return known;
    const std::uint32_t version = memory_->version.load(std::memory_order_acquire);
    if (version == known_version) return known;
    Terms read;
    read.priority = memory_->priority.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < read.tpcs.size(); ++i) read.tpcs[i] = memory_->tpcs[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (version % 2 != 0 || memory_->version.load(std::memory_order_relaxed) != version) continue;
    known = read, known_version = version;
  }
}

void Client::has_groups(std::span<const std::uint32_t> tpcs_of_group) {
  const std::size_t count = std::min<std::size_t>(tpcs_of_group.size(), kSms);
  for (std::size_t g = 0; g < count; ++g) memory_->tpcs_of_group[g].store(static_cast<std::uint16_t>(tpcs_of_group[g]), std::memory_order_relaxed);
  memory_->groups.store(static_cast<std::uint32_t>(count), std::memory_order_release);
}

bool Client::has_grant(const Stream& stream, std::uint32_t number) const {
  return reached(memory_->words.granted[stream.index].load(std::memory_order_acquire), number);
}

bool Client::ask(Stream& stream, const Work& work, std::uint32_t attempts) {
  const std::uint32_t number = ++stream.launched, ahead = in_flight();
  if (!say({Message::What::launch, stream.index, number, number_of(work), attempts})) return true;
  if (ahead == 0 || !has_grant(stream, number - ahead)) wait_until_granted(stream, number - ahead);
  if (ahead == 0 || has_grant(stream, number)) return true;
  // Where it is next its grant may be on its way: to look costs the host less than the GPU's wait costs the GPU.
  const std::int64_t until = has_grant(stream, number - 1) ? now_ns() + kLookNs : 0;
  while (now_ns() < until)
    if (has_grant(stream, number)) return true;
  memory_->queued.fetch_add(1, std::memory_order_relaxed);
  return !joined();
}

void Client::wait_for_grant(Stream& stream) { wait_until_granted(stream, stream.launched); }

void Client::wait_until_granted(const Stream& stream, std::uint32_t number) {
  const std::int64_t begin = now_ns();
  std::atomic<std::uint32_t>& word = memory_->words.granted[stream.index];
  for (std::uint64_t spins = 0; !has_grant(stream, number); ++spins) {
    if (left_.load(std::memory_order_relaxed)) break;
    if (spins < os::kSpins) {
      os::pause();
      continue;
    }
    memory_->sleeps[stream.index].store(1);  // seq_cst: before the look whether it is granted
    const std::uint32_t seen = word.load();
    if (!reached(seen, number)) os::wait_for_change(word, seen, limits::kLookAtService);
    if (!has_grant(stream, number) && service_is_gone()) break;
  }
  memory_->sleeps[stream.index].store(0);
  memory_->held_ns.fetch_add(static_cast<std::uint64_t>(now_ns() - begin), std::memory_order_relaxed);
}

Terms Client::terms(const Stream& stream) const {
  if (!joined()) return {};
  return in_flight() != 0 ? standing() : memory_->terms[stream.index];
}

CUdeviceptr Client::ended(const Stream& stream) {
  if (!mapped_.load(std::memory_order_acquire) && !map()) return 0;
  return on_device_ + stream.index * sizeof(std::uint32_t);
}

/// Again after a context has ended, which may have been the one that it was mapped in.
bool Client::map() {
  const std::scoped_lock lock(mapping_);
  if (mapped_.load()) return true;
  const Uncaptured now;
  const auto context_of = driver<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
  const auto add = driver<CUresult (*)(void*, size_t, unsigned)>("cuMemHostRegister_v2");
  const auto address = driver<CUresult (*)(CUdeviceptr*, void*, unsigned)>("cuMemHostGetDevicePointer_v2");
  CUcontext context = nullptr;
  if (context_of != nullptr && (context_of(&context) != CUDA_SUCCESS || context == nullptr)) return false;  // the driver refuses the launch
  const CUresult added = add != nullptr ? add(&memory_->words, sizeof memory_->words, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)
                                        : CUDA_ERROR_NOT_SUPPORTED;
  if ((added != CUDA_SUCCESS && added != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) || address == nullptr ||
      address(&on_device_, &memory_->words, 0) != CUDA_SUCCESS) {
    leave("the GPU cannot write into the service's memory");
    latest().store(nullptr);  // nor into another's
    return false;
  }
  mapped_.store(true, std::memory_order_release);
  return true;
}

CUdeviceptr Client::granted(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, granted) + stream.index * sizeof(std::uint32_t);
}

CUdeviceptr Client::resumed(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, resumed) + stream.index * sizeof(std::uint32_t);
}
CUdeviceptr Client::orders(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, orders) + stream.index * sizeof(std::uint64_t);
}
CUdeviceptr Client::report(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, reports) + stream.index * sizeof(Memory::Words::reports[0]);
}

CUdeviceptr Client::quotas(const Stream& stream) const {
  return on_device_ + offsetof(Memory::Words, quotas) + stream.index * sizeof(Memory::Words::quotas[0]);
}

void Client::failed(const Stream& stream) { say({Message::What::failed, stream.index, stream.launched, 0, 0}); }

void Client::waits() { say({Message::What::waits, 0, 0, 0, 0}); }

std::size_t Client::Hash::operator()(const Work& work) const {
  std::size_t hash = reinterpret_cast<std::size_t>(work.key) ^ work.shared_bytes;
  for (const std::uint32_t* n : {work.grid, work.block})
    for (int i = 0; i < 3; ++i) hash = hash * 0x9E3779B97F4A7C15u + n[i];
  return hash;
}

std::uint32_t Client::number_of(const Work& work) {
  struct Known {
    Work work;
    const Client* of = nullptr;
    std::uint32_t number = 0, since = 0;
  };
  auto& [last, of, known, known_since] = os::of_thread<Known>();
  const std::uint32_t since = forgets_.load(std::memory_order_acquire);
  if (last == work && of == this && known_since == since) {
    if (known == kKernels - 1) memory_->crowded.fetch_add(1, std::memory_order_relaxed);
    return known;
  }
  const std::scoped_lock lock(tables_);
  last = work, of = this, known_since = since;
  if (const auto at = kernels_.find(work); at != kernels_.end()) return known = at->second;
  KernelEntry entry;
  const std::string description = describe(entry, work);
  if (const auto same = forgotten_.find(description); same != forgotten_.end()) {
    known = same->second.back();
    same->second.pop_back();
    if (same->second.empty()) forgotten_.erase(same);
  } else if (described_.size() < kKernels - 1) {
    known = static_cast<std::uint32_t>(described_.size());
    if (work.graph) std::snprintf(entry.name, sizeof entry.name, "graph %u", known);
    memory_->kernels[known] = entry;
    described_.push_back(description);
  } else {
    if (memory_->crowded.fetch_add(1, std::memory_order_relaxed) == 0) {
      std::strcpy(memory_->kernels[kKernels - 1].name, "others");
      os::complain(("corun: this program has more than " + std::to_string(kKernels - 1) + " kernels, by their shapes; how long others take is not told apart\n").c_str());
    }
    return known = kKernels - 1;
  }
  kernels_.emplace(work, known);
  return known;
}

/// What it has in common with a later one that is the same kernel at another address.
std::string Client::describe(KernelEntry& entry, const Work& work) const {
  std::memcpy(entry.grid, work.grid, sizeof entry.grid);
  std::memcpy(entry.block, work.block, sizeof entry.block);
  entry.shared_bytes = work.shared_bytes;
  if (!work.graph) {
    const Uncaptured now;  // the driver may load the kernel
    auto function = static_cast<CUfunction>(const_cast<void*>(work.key));
    using Name = CUresult (*)(const char**, CUfunction);
    using Attribute = CUresult (*)(int*, CUfunction_attribute, CUfunction);
    const char* name = nullptr;
    int registers = 0, shared = 0;
    const auto attribute = driver<Attribute>("cuFuncGetAttribute");
    // A kernel of a library, as the runtime launches them, has no attributes of a function.
    if (attribute != nullptr && attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function) != CUDA_SUCCESS)
      if (const auto function_of = driver<CUresult (*)(CUfunction*, CUkernel)>("cuKernelGetFunction")) {
        CUfunction its = nullptr;
        if (function_of(&its, reinterpret_cast<CUkernel>(function)) == CUDA_SUCCESS) function = its;
      }
    if (const auto name_of = driver<Name>("cuFuncGetName")) name_of(&name, function);
    if (attribute != nullptr) {
      attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      attribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    }
    entry.registers = static_cast<std::uint32_t>(registers), entry.static_shared_bytes = static_cast<std::uint32_t>(shared);
    std::strncpy(entry.name, name != nullptr ? name : "?", sizeof entry.name - 1);
  }
  return {reinterpret_cast<const char*>(&entry), sizeof entry};
}

void Client::forget_graph(const void* graph) {
  const std::scoped_lock lock(tables_);
  std::erase_if(kernels_, [&](const auto& each) {
    if (each.first.key != graph || !each.first.graph) return false;
    forgotten_[described_[each.second]].push_back(each.second);
    return true;
  });
  forgets_.fetch_add(1, std::memory_order_release);
}

/// All of them: the next launch of one that is still there finds its number by its description.
void Client::forget_kernels() {
  const std::scoped_lock lock(tables_);
  std::erase_if(kernels_, [&](const auto& each) {
    if (each.first.graph) return false;
    forgotten_[described_[each.second]].push_back(each.second);
    return true;
  });
  forgets_.fetch_add(1, std::memory_order_release);
}

template <class What>
void Client::each_of(CUcontext context, What what) {
  std::unique_lock lock(tables_);
  const std::uint32_t used = used_;
  lock.unlock();
  for (std::uint32_t i = 0; i < used; ++i)
    if (numbered_[i].end_marker.context() == context) what(numbered_[i], memory_->words.ended[i]);
}

void Client::context_ends(CUcontext context) {
  if (!asks() || context == nullptr) return;
  waits();
  const auto until = os::Clock::now() + limits::kContextEnds;
  each_of(context, [&](const Stream& stream, const std::atomic<std::uint32_t>& ended) {
    while (!reached(ended.load(std::memory_order_acquire), stream.marked) && joined() && os::Clock::now() < until) os::sleep_for(std::chrono::microseconds(50));
  });
}

void Client::context_ended(CUcontext context) {
  mapped_.store(false);
  if (context == nullptr) return;
  each_of(context, [&](Stream& stream, std::atomic<std::uint32_t>& ended) {
    const std::scoped_lock order(this->order(stream));
    for (std::uint32_t n = ended.load() + 1; reached(stream.launched, n); ++n) say({Message::What::failed, stream.index, n, 0, 0});
    ended.store(stream.launched);
    stream.marked.store(stream.launched);
  });
  forget_kernels();
  const std::scoped_lock lock(tables_);
  std::erase_if(kernels_, [&](const auto& each) {
    forgotten_[described_[each.second]].push_back(each.second);
    return true;
  });
}

}  // namespace corun::live
