// A program's device memory where the service decides about it: each allocation from kBlockUnit on is a block, a range of
// addresses with physical memory behind it that comes and goes.  A thread of the library's own carries out the service's
// commands; what was on the GPU is meanwhile in pinned memory of the host.
//
// Whatever may touch a block passes Touch.  Its first look is one load where all is on the GPU.  Else the call waits until
// the service has brought all back.  Before a block goes nothing is inside a Touch, no stream is captured, and the
// program's contexts have been synchronized; where that takes longer than kRest, as where the GPU waits for the host, the
// block stays.  The service grants no launch meanwhile, and commands nothing while one is on the GPU.
// When the service has ended all comes back, and memory is allocated as if there were none.
//
// Passed through: programs that see several devices (others could use a block by its address), what is smaller, pools,
// managed memory, memory that the program maps itself.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "hw/live/system.h"
#include "hw/live/wire.h"

namespace corun::live {

class Client;
class Blocks;
struct SteeredBlocks {
  std::atomic<Blocks*> now{nullptr};
};

class Blocks {
 public:
  /// Null: the program's memory is not steered.
  static Blocks* get() { return os::of_process<SteeredBlocks>().now.load(std::memory_order_acquire); }
  /// Null, too, where its service is gone: memory is allocated as if there were none.
  static Blocks* in_charge();
  static void begin(Client& client, Memory& memory);
  static void end() { os::of_process<SteeredBlocks>().now.store(nullptr, std::memory_order_release); }  // in a forked child

  /// None: the driver is to answer.
  std::optional<CUresult> allocate(CUdeviceptr* at, std::size_t bytes);
  std::optional<CUresult> free(CUdeviceptr at);
  struct Range {
    CUdeviceptr at = 0;
    std::size_t bytes = 0;
  };
  /// The block that an address is in.
  std::optional<Range> find(CUdeviceptr address);
  /// Of all programs' memory, and what this one has of it.
  std::uint64_t cap() const { return memory_.memory_cap.load(std::memory_order_relaxed); }
  std::uint64_t own();
  void count_passed() { memory_.passed.fetch_add(1, std::memory_order_relaxed); }
  /// Around a driver call that destroys the context: its blocks are not moved meanwhile, and freed where the context is `gone`.
  void context_ends(CUcontext context);
  void context_ended(CUcontext context, bool gone);

  void enter();
  void leave() { inside_.fetch_sub(1); }

 private:
  Blocks(Client& client, Memory& memory);
  enum class State : std::uint8_t { none, asked, device, host };
  struct Block {
    State state = State::none;
    bool moving = false;
    std::uint32_t ending = 0;  // calls that destroy its context
    std::uint32_t generation = 0;
    CUdeviceptr at = 0;
    std::size_t asked_bytes = 0, bytes = 0;
    CUcontext context = nullptr;  // null: it has ended, and memory of the host with it
    CUmemGenericAllocationHandle handle = 0;
    void* host = nullptr;
    std::optional<CUresult> answer{};  // to the thread that allocates it
  };
  using Lock = std::unique_lock<os::Mutex>;

  static bool is_usable();
  void serve();
  bool service_is_gone();
  void carry_out(const MemoryCommand& command);
  void move_out(Block& block, std::uint32_t number, Lock& lock);
  bool move_in(Block& block, Lock& lock);
  bool comes_to_rest();
  bool synchronize_contexts();
  static bool pin(Block& block);
  bool copy(const Block& block, bool out);
  CUresult give_memory(Block& block);
  static void take_memory(Block& block);
  void drop(Block& block);
  void say_free(const Block& block);
  bool wait_until_there();
  void note_context();

  Client& client_;
  Memory& memory_;
  os::Mutex mutex_;
  os::Condition changed_;
  std::vector<Block> blocks_{kBlocks};
  std::vector<std::uint32_t> free_;                 // numbers that may be given to a block
  std::map<CUdeviceptr, std::uint32_t> at_;         // number of the block that begins there
  std::vector<CUdeviceptr> later_;                  // freed while a stream was captured
  std::map<CUcontext, CUstream> streams_;           // of the thread that moves
  std::set<CUcontext> contexts_;                    // in which something may have touched a block
  std::atomic<std::uint32_t> inside_{0}, away_{0};  // calls in Touch; blocks that are not on the GPU
  os::Mutex wanting_;                               // one call waits, others behind it
  std::uint32_t wanted_ = 0, goes_ = 0;
  struct Synchronizing;
  Synchronizing* synchronizing_ = nullptr;
  bool usable_ = is_usable();  // none of it is where the program sees several devices
};

/// Around a call that may touch device memory.
class Touch {
 public:
  Touch() : blocks_(depth()++ == 0 ? Blocks::get() : nullptr) {
    if (blocks_ != nullptr) blocks_->enter();
  }
  ~Touch() {
    --depth();
    if (blocks_ != nullptr) blocks_->leave();
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;

 private:
  struct Depth {
    int calls = 0;  // that the driver answers by others
  };
  static int& depth() { return os::of_thread<Depth>().calls; }
  Blocks* blocks_;
};

}  // namespace corun::live
