// The device memory of programs as they are, as a policy that decides about memory sees it: each block that a
// program has allocated is a buffer, and each launch and copy of the program may use all of them, since nobody
// knows which.
//
// A program uses its memory while something of it is on the GPU, and for a while after: a host that launches again
// and again has gaps, and to take the memory away in one costs a thousand times as much.  The while is as long as
// the memory took to come the last time, so that at most as long is lost by waiting as by moving (whether to rent
// skis or to buy them: Karlin and others 1988).  It is kLinger where the policy holds a launch of the program back:
// what others wait for is not kept by one that waits itself.
//
// A program that does not move what it was ordered to within limits::kMove is overdue, and its connection is to be closed: what the
// accounts say of its memory is not known to be so.  Memory counts as in use by launches for limits::kOnGpu after the first
// one went or the last one ended: a process that was stopped in between never says that it has, and what goes behind others is no
// sign of it.
//
// Leaves out: who asked for what launch, and the policy (books.h); what moves bytes (hw/shim/blocks.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "policies/api/decision.h"
#include "policies/service/terms.h"
#include "policies/session/device_memory.h"

namespace corun::live {

/// To a program.
struct AddressedCommand {
  std::uint32_t client = 0;  // as the books number it
  MemoryCommand command;
};

class ProgramMemory {
 public:
  static constexpr Time kLinger = std::chrono::milliseconds(2), kMostLinger = std::chrono::seconds(1);
  static constexpr Time kCopying =
      std::chrono::milliseconds(100);                      // that calls which nobody holds count as use
  static constexpr Time kStays = std::chrono::seconds(1);  // what did not come to rest, and so counts as used
  static constexpr Time kAgainIn = std::chrono::milliseconds(20);  // after the driver had no memory

  explicit ProgramMemory(std::uint64_t capacity) : memory_(capacity) {}

  void join(std::uint32_t client) { programs_[client]; }
  /// Its process is gone, and its memory with it.  Tells which allocations waited.
  std::vector<LaunchId> leave(std::uint32_t client);
  /// As a policy numbers it from here on.
  void renumber(std::uint32_t client, ClientId id);

  /// False: it is refused, since the program would have more than there is.
  bool allocates(std::uint32_t client, std::uint32_t block, std::uint32_t generation, std::uint64_t bytes,
                 LaunchId allocation, ClientId id, Time now);
  /// The allocation that waited for it, if one did.
  std::optional<LaunchId> frees(std::uint32_t client, std::uint32_t block, std::uint32_t generation);
  /// The buffer, if it is still there.
  std::optional<BufferId> moved(std::uint32_t client, std::uint32_t block, std::uint32_t generation,
                                bool done, Time now);
  /// A call of the program waits until all of its memory is there; `has`: it is with the driver.  True: nobody had told it
  /// to go.
  void wants(std::uint32_t client, std::uint32_t number);
  bool has(std::uint32_t client, std::uint32_t number, Time now);
  /// Calls that nobody decides about have touched its memory.
  void touched(std::uint32_t client, Time now);
  void launched(std::uint32_t client, Time now);
  void ended(std::uint32_t client, Time now);
  /// The policy has left launches of the program waiting, or none.
  void held_back(std::uint32_t client, bool launches) { programs_.at(client).held_back = launches; }

  /// May be launched: all of the program's memory is there.
  bool there(std::uint32_t client) const { return !memory_.absent(programs_.at(client).held); }
  /// Empty: it was done, and a command says so to the program.
  std::string apply(const decide::Checkpoint& checkpoint, Time now);
  std::string apply(const decide::Restore& restore, Time now);
  std::optional<LaunchId> apply(const decide::Allocate& allocate);

  /// Brings the buffers up to this time, as a policy sees them.  True: a policy may decide otherwise for it.
  bool look(Time now);
  /// Calls whose memory is there go.  True: one did.
  bool let_go(Time now);
  /// Programs that have not moved in time what they were ordered to.
  std::vector<std::uint32_t> overdue(Time now) const;
  /// When look() may say something new by itself; kNever: not.  `launches`: some wait.
  Time next_look(bool launches) const;

  std::vector<AddressedCommand> take_commands() { return std::exchange(commands_, {}); }
  std::span<const LaunchId> allocating() const { return allocating_; }
  const BufferId& asked_by(LaunchId allocation) const;
  std::span<const BufferId> held(std::uint32_t client) const { return programs_.at(client).held; }
  bool waits(std::uint32_t client) const { return programs_.at(client).waits(); }
  DeviceMemory& accounts() { return memory_; }
  const DeviceMemory& accounts() const { return memory_; }
  /// Bytes of a program on the device (or on their way), and on the host.
  std::pair<std::uint64_t, std::uint64_t> bytes(std::uint32_t client) const;

 private:
  struct Block {
    std::uint32_t generation = 0;
    BufferId buffer;
    std::optional<LaunchId> allocation;  // which waits for it
  };
  struct Program {
    std::map<std::uint32_t, Block> blocks;  // by number
    std::vector<BufferId> held;             // that it was given
    std::optional<std::uint32_t> wants;     // a call that waits
    std::optional<std::uint32_t> goes;      // one that was let go and is not with the driver yet
    std::uint32_t allocations = 0;          // that wait
    std::uint32_t launched = 0;
    bool uses = false, held_back = false, comes = false;
    Time last{}, copying_until{}, stays_until{}, in_again_at{};
    std::uint64_t moving = 0;  // bytes that it has been ordered to move
    Time moving_since{};       // the command, or the block before
    Time at_work{};            // a launch went where none was, one ended, or a call that touches memory went
    Time came_from{}, linger = kLinger;  // since when its memory is on its way; what that took the last time
    Time uses_until() const {
      return std::max(last + (waits() || held_back ? kLinger : linger), stays_until);
    }
    Time in_use_until() const { return launched == 0 && !goes ? Time{} : at_work + limits::kOnGpu; }
    Time due() const { return moving == 0 ? kNever : moving_since + limits::kMove + static_cast<std::int64_t>(moving >> 20) * Time{limits::kMoveGib} / 1024; }
    bool waits() const { return wants || allocations != 0; }
  };
  struct Owner {
    std::uint32_t client = 0, block = 0;
  };
  void use(Program& p, bool uses, Time now);
  void release(Program& p, Block& block);
  void came(Program& p, Time now);
  void command(MemoryCommand::What what, BufferId id);
  void command_move(MemoryCommand::What what, BufferId id, Time now);
  void has_moved(Program& p, BufferId id);
  Owner& owner(BufferId id) { return owner_.at(id.value); }

  DeviceMemory memory_;
  std::map<std::uint32_t, Program> programs_;  // by number
  std::vector<Owner> owner_;                   // by buffer
  std::vector<LaunchId> allocating_;
  std::vector<AddressedCommand> commands_;
};

}  // namespace corun::live
