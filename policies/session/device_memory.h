// Device memory as the driver accounts for it: who holds which buffer, what each launch uses, what is on its
// way to the host and back.  Bytes count from the grant (or the start of the way back) to the release (or the
// end of the way out), and never exceed the capacity.
//
// Leaves out: fragmentation (an allocation fits if its bytes do), allocation granularity, what a context and
// its modules take.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/api/decision.h"
#include "policies/api/snapshot.h"
#include "traces/model/trace.h"

namespace corun {

/// "3.61 GB", "1.5 MB"
std::string in_bytes(std::uint64_t bytes);

class DeviceMemory {
 public:
  DeviceMemory(const Trace& trace, std::uint64_t capacity);
  /// Of clients that nobody knows beforehand: who asks keeps in mind what is whose.
  explicit DeviceMemory(std::uint64_t capacity) : capacity_(capacity) {}

  /// The client asks for a buffer of its program; without one, for its memory_bytes.
  BufferId ask(ClientId client, std::optional<std::uint32_t> buffer, std::uint64_t bytes, Time now);
  BufferId ask(ClientId client, std::uint64_t bytes, Time now);
  void belongs_to(BufferId id, ClientId client) { at(id).client = client; }
  bool fits(BufferId id) const { return buffers_[id.value].bytes <= capacity_ - used_; }
  void grant(BufferId id);
  /// No longer the client's.  Its bytes are free at once, or when its move is complete or its last use ends.
  void release(BufferId id);
  /// What the client's program holds, except memory_bytes, is released.  Tells which were still asked for.
  std::vector<BufferId> end_request(ClientId client);
  std::vector<BufferId> end_client(ClientId client);

  std::optional<BufferId> held(ClientId client, std::uint32_t buffer) const;
  /// All that an operation of the client uses now.
  std::vector<BufferId> used_by(ClientId client, const Op& op) const;
  /// One of them is not on the device.
  bool absent(std::span<const BufferId> uses) const;
  void begin_use(std::span<const BufferId> uses, bool kernel, Time now);
  void end_use(std::span<const BufferId> uses);
  /// It counts as used when the other was, and as often.
  void as_used_as(BufferId id, BufferId other);
  /// Copies that wait for them to be on the device.
  void wait_for(std::span<const BufferId> uses, int copies);
  void set_copies_wait(BufferId id, std::uint32_t copies) { at(id).copies_wait = copies; }

  /// Empty: it can begin.
  std::string why_not(const decide::Checkpoint& checkpoint) const;
  std::string why_not(const decide::Restore& restore) const;
  void begin(const decide::Checkpoint& checkpoint);
  void begin(const decide::Restore& restore);
  void moved(BufferId id);
  /// What was begun could not be done: it is where it was.
  void stays(BufferId id);

  /// Released, and on the device or the host until then; told once.
  std::vector<BufferId> take_vacated() { return std::exchange(vacated_, {}); }
  /// Numbers of buffers released until now may be given anew.
  void forget_released();

  /// Valid until the next ask().
  std::span<const BufferView> buffers() const { return buffers_; }
  const BufferView& operator[](BufferId id) const { return buffers_[id.value]; }
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t moved_bytes() const { return moved_bytes_; }
  std::uint64_t checkpoints() const { return checkpoints_; }
  bool moving() const { return moving_ != 0; }
  /// Bytes that the client has on the device.
  std::uint64_t held_bytes(ClientId client) const;

  /// Throws std::logic_error if the books are wrong or memory is oversubscribed.
  void audit() const;

 private:
  struct Held {
    std::optional<BufferId> first;  // memory_bytes
    std::vector<std::optional<BufferId>> by_name;
  };
  void take(std::uint64_t bytes);
  void vacate(BufferId id);
  bool exists(BufferId id) const { return id.value < buffers_.size() && !buffers_[id.value].free; }
  BufferView& at(BufferId id) { return buffers_[id.value]; }

  std::uint64_t capacity_, used_ = 0, peak_ = 0, moved_bytes_ = 0, checkpoints_ = 0;
  std::uint32_t moving_ = 0;
  std::vector<BufferView> buffers_;
  std::vector<bool> doomed_;  // by buffer: to be vacated when nothing holds it any more
  std::vector<std::uint32_t> free_, released_;
  std::vector<BufferId> vacated_;
  std::vector<Held> held_;  // by client
};

}  // namespace corun
