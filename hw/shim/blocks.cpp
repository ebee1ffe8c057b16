#include "hw/shim/blocks.h"


#include <algorithm>
#include <chrono>
#include <utility>

#include "hw/live/limits.h"
#include "hw/live/system.h"
#include "hw/shim/captures.h"
#include "hw/shim/client.h"
#include "hw/shim/driver.h"

namespace corun::live {
namespace {

using namespace std::chrono_literals;
using limits::kRest;
constexpr auto kLook = limits::kLookAtService;

/// What is asked of the driver, past the library's own answers.
struct Calls {
  decltype(&cuMemAddressReserve) reserve = driver<decltype(reserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) unreserve = driver<decltype(unreserve)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = driver<decltype(create)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver<decltype(release)>("cuMemRelease");
  decltype(&cuMemMap) map = driver<decltype(map)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver<decltype(unmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) access = driver<decltype(access)>("cuMemSetAccess");
  decltype(&cuMemGetAllocationGranularity) unit = driver<decltype(unit)>("cuMemGetAllocationGranularity");
  decltype(&cuMemHostAlloc) pin = driver<decltype(pin)>("cuMemHostAlloc");
  decltype(&cuMemFreeHost) unpin = driver<decltype(unpin)>("cuMemFreeHost");
  decltype(&cuCtxGetCurrent) context = driver<decltype(context)>("cuCtxGetCurrent");
  decltype(&cuCtxSetCurrent) set_context = driver<decltype(set_context)>("cuCtxSetCurrent");
  CUresult (*synchronize)() = driver<CUresult (*)()>("cuCtxSynchronize");
  decltype(&cuStreamCreate) stream = driver<decltype(stream)>("cuStreamCreate");
  CUresult (*wait)(CUstream) = driver<CUresult (*)(CUstream)>("cuStreamSynchronize");
  CUresult (*out)(void*, CUdeviceptr, size_t, CUstream) =
      driver<CUresult (*)(void*, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoHAsync_v2");
  CUresult (*in)(CUdeviceptr, const void*, size_t, CUstream) =
      driver<CUresult (*)(CUdeviceptr, const void*, size_t, CUstream)>("cuMemcpyHtoDAsync_v2");
  decltype(&cuDeviceGetCount) devices = driver<decltype(devices)>("cuDeviceGetCount");

  bool all() const {
    return reserve && unreserve && create && release && map && unmap && access && unit && pin && unpin &&
           context && set_context && synchronize && stream && wait && out && in && devices;
  }
};
const Calls& calls() {
  static const Calls all;
  return all;
}

CUmemAllocationProp on_device() {
  CUmemAllocationProp where{};
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;  // the first
  return where;
}

std::uint64_t since_ns(os::Clock::time_point begin) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(os::Clock::now() - begin).count());
}

/// A thread of which the program knows nothing: what others capture is none of its concern.
template <class Run>
void start(Run run) {
  os::start_thread([run] {
    const auto relax = driver<CUresult (*)(CUstreamCaptureMode*)>("cuThreadExchangeStreamCaptureMode");
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (relax != nullptr) relax(&mode);
    run();
  });
}

}  // namespace

/// A thread that waits for contexts, since it may wait for good.
struct Blocks::Synchronizing {
  os::Mutex mutex;
  os::Condition changed;
  std::set<CUcontext> todo;
  bool asked = false;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return asked; });
      const std::set<CUcontext> contexts = todo;
      lock.unlock();
      for (CUcontext context : contexts)
        if (calls().set_context(context) == CUDA_SUCCESS) calls().synchronize();
      lock.lock();
      asked = false;
      changed.notify_all();
    }
  }
};

void Blocks::begin(Client& client, Memory& memory) {
  if (memory.memory_cap.load() == 0 || os::getenv("CORUN_OWN_MEMORY") != nullptr || !calls().all()) return;
  auto* blocks = os::keep(new Blocks(client, memory));  // lives as long as the program
  start([blocks] { blocks->serve(); });
  start([blocks] { blocks->synchronizing_->run(); });
  os::of_process<SteeredBlocks>().now.store(blocks, std::memory_order_release);
}

Blocks::Blocks(Client& client, Memory& memory)
    : client_(client), memory_(memory), synchronizing_(os::keep(new Synchronizing)) {
  for (std::uint32_t i = kBlocks; i-- > 0;) free_.push_back(i);
}

bool Blocks::is_usable() {
  int devices = 0;
  std::size_t unit = 0;
  const CUmemAllocationProp where = on_device();
  return calls().devices(&devices) == CUDA_SUCCESS && devices == 1 &&
         calls().unit(&unit, &where, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && unit != 0 && kBlockUnit % unit == 0;
}

bool Blocks::service_is_gone() { return client_.service_is_gone(); }

Blocks* Blocks::in_charge() {
  Blocks* blocks = get();
  return blocks != nullptr && blocks->client_.joined() ? blocks : nullptr;
}

// ---- what the program asks for ------------------------------------------------------------------------------

std::optional<CUresult> Blocks::allocate(CUdeviceptr* at, std::size_t bytes) {
  if (at == nullptr || bytes < kBlockUnit || !client_.joined()) return {};
  CUcontext context = nullptr;
  if (!usable_ || calls().context(&context) != CUDA_SUCCESS || context == nullptr)
    return count_passed(), std::nullopt;
  const std::uint64_t units = bytes / kBlockUnit + (bytes % kBlockUnit != 0 ? 1 : 0);
  if (units > cap() / kBlockUnit) return CUDA_ERROR_OUT_OF_MEMORY;
  Lock lock(mutex_);
  const std::vector<CUdeviceptr> freed = std::exchange(later_, {});
  lock.unlock();
  for (CUdeviceptr each : freed) free(each);
  CUdeviceptr range = 0;
  if (calls().reserve(&range, units * kBlockUnit, 0, 0, 0) != CUDA_SUCCESS)
    return count_passed(), std::nullopt;

  lock.lock();
  if (free_.empty()) {
    calls().unreserve(range, units * kBlockUnit);
    return count_passed(), std::nullopt;
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Block& block = blocks_[number];
  block.state = State::asked;
  ++block.generation;
  block.at = range, block.asked_bytes = bytes, block.bytes = units * kBlockUnit, block.context = context;
  block.answer.reset();
  at_[range] = number;
  contexts_.insert(context);
  lock.unlock();
  client_.say({Message::What::allocates, number, static_cast<std::uint32_t>(units), block.generation});
  lock.lock();
  while (!block.answer &&
         (changed_.wait_for(lock, kLook) == std::cv_status::no_timeout || !service_is_gone())) {
  }
  if (block.answer == CUDA_SUCCESS) return *at = range, CUDA_SUCCESS;
  const std::optional<CUresult> answer = block.answer;  // none: nobody answers any more, and the driver does
  if (answer) say_free(block);
  drop(block);
  return answer;
}

std::optional<CUresult> Blocks::free(CUdeviceptr at) {
  Lock lock(mutex_);
  auto found = at_.find(at);
  changed_.wait(lock, [&] {
    found = at_.find(at);  // its context may have ended meanwhile
    return found == at_.end() || (!blocks_[found->second].moving && blocks_[found->second].ending == 0);
  });
  if (found == at_.end()) return {};
  Block& block = blocks_[found->second];
  if (captures().any()) return later_.push_back(at), CUDA_SUCCESS;
  at_.erase(found);
  block.moving = true;  // the thread that moves leaves it alone
  lock.unlock();
  calls().synchronize();  // as the driver does before it frees
  lock.lock();
  block.moving = false;
  if (block.state == State::device) take_memory(block);
  if (block.state == State::host) away_.fetch_sub(1);
  say_free(block);
  drop(block);
  return CUDA_SUCCESS;
}

void Blocks::say_free(const Block& block) {
  const auto number = static_cast<std::uint32_t>(&block - blocks_.data());
  if (client_.joined()) client_.say({Message::What::frees, number, 0, block.generation});
}

/// It has no device memory any more.
void Blocks::drop(Block& block) {
  if (block.host != nullptr && block.context != nullptr) calls().unpin(block.host);
  calls().unreserve(block.at, block.bytes);
  at_.erase(block.at);
  block.host = nullptr;
  block.state = State::none;
  block.ending = 0;
  ++block.generation;  // what was commanded about it is about none
  free_.push_back(static_cast<std::uint32_t>(&block - blocks_.data()));
  changed_.notify_all();
}

std::optional<Blocks::Range> Blocks::find(CUdeviceptr address) {
  const Lock lock(mutex_);
  auto at = at_.upper_bound(address);
  if (at == at_.begin()) return {};
  const Block& block = blocks_[(--at)->second];
  if (address >= block.at + block.asked_bytes) return {};
  return Range{block.at, block.asked_bytes};
}

std::uint64_t Blocks::own() {
  const Lock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [at, number] : at_) bytes += blocks_[number].bytes;
  return bytes;
}

void Blocks::context_ends(CUcontext context) {
  Lock lock(mutex_);
  const auto is_its = [&](const Block& b) { return b.context == context && (b.state == State::device || b.state == State::host); };
  changed_.wait(lock, [&] { return std::ranges::none_of(blocks_, [&](const Block& b) { return is_its(b) && b.moving; }); });
  for (Block& b : blocks_)
    if (is_its(b)) ++b.ending;
}

void Blocks::context_ended(CUcontext context, bool gone) {
  Lock lock(mutex_);
  for (Block& b : blocks_) {
    if (b.context != context || b.ending == 0) continue;
    --b.ending;
    if (!gone) continue;
    b.context = nullptr;
    if (b.state == State::device && captures().any()) {
      later_.push_back(b.at);
      continue;
    }
    if (b.state == State::device)
      take_memory(b);
    else
      away_.fetch_sub(1);
    say_free(b);
    drop(b);
  }
  if (gone) streams_.erase(context), contexts_.erase(context);
  changed_.notify_all();
}

// ---- calls that touch memory --------------------------------------------------------------------------------

void Blocks::note_context() {
  struct Known {
    CUcontext context = nullptr;
  };
  CUcontext& last = os::of_thread<Known>().context;
  CUcontext context = nullptr;
  if (calls().context(&context) != CUDA_SUCCESS || context == nullptr || context == last) return;
  last = context;
  const Lock lock(mutex_);
  contexts_.insert(context);
}

void Blocks::enter() {
  inside_.fetch_add(1);  // seq_cst: before the look whether all is there
  if (away_.load() != 0) {
    inside_.fetch_sub(1);
    while (!wait_until_there()) {
    }
  }
  memory_.touches.fetch_add(1, std::memory_order_relaxed);
  note_context();
}

/// True: it is, and the call is inside.
bool Blocks::wait_until_there() {
  const std::scoped_lock turn(wanting_);
  Lock lock(mutex_);
  const auto go_in = [this] {
    inside_.fetch_add(1);
    if (away_.load() == 0) return true;
    inside_.fetch_sub(1);
    return false;
  };
  if (go_in()) return true;
  const std::uint32_t number = ++wanted_;
  lock.unlock();
  const bool heard = client_.joined() && client_.say({Message::What::wants, 0, number, 0});
  lock.lock();
  // What could not come to rest stays on the GPU, and the service need not say so.
  while (away_.load() != 0 && (!heard || goes_ != number)) {
    changed_.wait_for(lock, kLook);
    if (heard && service_is_gone()) break;
  }
  const bool in = go_in();
  lock.unlock();
  if (heard && client_.joined()) client_.say({Message::What::has, 0, number, 0});
  return in;
}

// ---- what the service commands ------------------------------------------------------------------------------

void Blocks::serve() {
  for (std::uint32_t taken = 0;;) {
    const std::uint32_t commanded = memory_.commanded.load(std::memory_order_acquire);
    if (taken != commanded) {
      const MemoryCommand command = memory_.commands[taken % kCommands];
      memory_.taken.store(++taken, std::memory_order_release);
      carry_out(command);
      continue;
    }
    if (service_is_gone()) break;
    os::wait_for_change(memory_.commanded, commanded, kLook);
  }
  // All comes back, also where others have the memory for a while.
  Lock lock(mutex_);
  const auto is_away = [](const Block& b) { return b.state == State::host && (!b.moving || b.ending != 0); };
  for (auto at = blocks_.begin(); (at = std::ranges::find_if(blocks_, is_away)) != blocks_.end();) {
    if (at->ending == 0 && move_in(*at, lock)) continue;
    lock.unlock();
    os::sleep_for(10ms);
    lock.lock();
  }
  changed_.notify_all();
}

void Blocks::carry_out(const MemoryCommand& command) {
  Lock lock(mutex_);
  if (command.what == MemoryCommand::What::go) {
    goes_ = command.block;
    return changed_.notify_all();
  }
  Block& block = blocks_[std::min(command.block, kBlocks - 1)];
  if (block.generation != command.generation || block.moving) return;
  if (block.ending != 0) {  // the service is to ask again
    lock.unlock();
    client_.say({Message::What::moved, command.block, 0, command.generation});
    return;
  }
  switch (command.what) {
    case MemoryCommand::What::refuse:
      block.answer = CUDA_ERROR_OUT_OF_MEMORY;
      break;
    case MemoryCommand::What::allocate:
      if (block.state != State::asked) return;
      block.answer = give_memory(block);
      if (block.answer == CUDA_SUCCESS) block.state = State::device;
      break;
    case MemoryCommand::What::checkpoint:
      if (block.state == State::device) move_out(block, command.block, lock);
      break;
    case MemoryCommand::What::restore: {
      if (block.state != State::host) return;
      const bool done = move_in(block, lock);
      lock.unlock();
      client_.say({Message::What::moved, command.block, done, command.generation});
      lock.lock();
      break;
    }
    case MemoryCommand::What::go:
      break;
  }
  changed_.notify_all();
}

void Blocks::move_out(Block& block, std::uint32_t number, Lock& lock) {
  const std::uint32_t generation = block.generation;
  block.moving = true;
  away_.fetch_add(1);  // seq_cst: before the look whether a call is inside
  lock.unlock();
  auto begin = os::Clock::now();
  bool done = comes_to_rest();
  memory_.rest_ns.fetch_add(since_ns(begin)), begin = os::Clock::now();
  done = done && pin(block);
  memory_.pin_ns.fetch_add(since_ns(begin)), begin = os::Clock::now();
  done = done && copy(block, true);
  lock.lock();
  if (done) {
    take_memory(block);
    block.state = State::host;
    memory_.out_bytes.fetch_add(block.bytes), memory_.out_ns.fetch_add(since_ns(begin));
  } else {
    away_.fetch_sub(1);
  }
  block.moving = false;
  changed_.notify_all();
  lock.unlock();
  client_.say({Message::What::moved, number, done, generation});
  lock.lock();
}

bool Blocks::move_in(Block& block, Lock& lock) {
  const auto begin = os::Clock::now();
  block.moving = true;
  lock.unlock();
  bool done = give_memory(block) == CUDA_SUCCESS;
  if (done && !copy(block, false)) {
    done = false;
    take_memory(block);
  }
  lock.lock();
  block.moving = false;
  if (done) {
    block.state = State::device;
    away_.fetch_sub(1);
    memory_.in_bytes.fetch_add(block.bytes), memory_.in_ns.fetch_add(since_ns(begin));
  }
  changed_.notify_all();
  return done;
}

/// Nothing of the program touches memory any more, or is on the GPU.
bool Blocks::comes_to_rest() {
  const auto until = os::Clock::now() + kRest;
  while (inside_.load() != 0) {
    if (os::Clock::now() > until) return false;
    os::sleep_for(20us);
  }
  return !captures().any() && synchronize_contexts();
}

bool Blocks::synchronize_contexts() {
  Lock lock(mutex_);
  const std::set<CUcontext> contexts = contexts_;
  lock.unlock();
  std::unique_lock turn(synchronizing_->mutex);
  if (synchronizing_->asked) return false;  // the last time has not ended
  synchronizing_->todo = contexts;
  synchronizing_->asked = true;
  synchronizing_->changed.notify_all();
  return synchronizing_->changed.wait_for(turn, kRest, [this] { return !synchronizing_->asked; });
}

/// Memory of the host, which a block keeps: to pin 1 GiB takes half a second.
bool Blocks::pin(Block& block) {
  if (block.host != nullptr) return true;
  if (calls().set_context(block.context) == CUDA_SUCCESS &&
      calls().pin(&block.host, block.bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS)
    return true;
  return block.host = nullptr, false;
}

bool Blocks::copy(const Block& block, bool out) {
  const Calls& call = calls();
  if (call.set_context(block.context) != CUDA_SUCCESS) return false;
  Lock lock(mutex_);
  CUstream& known = streams_[block.context];
  if (known == nullptr && call.stream(&known, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
    return known = nullptr, false;
  CUstream stream = known;
  lock.unlock();
  const CUresult begun = out ? call.out(block.host, block.at, block.bytes, stream)
                             : call.in(block.at, block.host, block.bytes, stream);
  return begun == CUDA_SUCCESS && call.wait(stream) == CUDA_SUCCESS;
}

CUresult Blocks::give_memory(Block& block) {
  const Calls& call = calls();
  const CUmemAllocationProp where = on_device();
  const CUmemAccessDesc both{where.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  call.set_context(block.context);
  if (const CUresult r = call.create(&block.handle, block.bytes, &where, 0); r != CUDA_SUCCESS) return r;
  CUresult r = call.map(block.at, block.bytes, 0, block.handle, 0);
  if (r == CUDA_SUCCESS) {
    r = call.access(block.at, block.bytes, &both, 1);
    if (r != CUDA_SUCCESS) call.unmap(block.at, block.bytes);
  }
  if (r != CUDA_SUCCESS) call.release(block.handle);
  return r;
}

void Blocks::take_memory(Block& block) {
  calls().unmap(block.at, block.bytes);
  calls().release(block.handle);
}

}  // namespace corun::live
