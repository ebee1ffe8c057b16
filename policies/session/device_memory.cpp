#include "policies/session/device_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace corun {

using Place = BufferView::Place;

std::string in_bytes(std::uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes == 0) return "nothing";
  if (n >= 1e8) return fmt::format("{:.3g} GB", n / 1e9);
  if (n >= 1e5) return fmt::format("{:.3g} MB", n / 1e6);
  return fmt::format("{} bytes", bytes);
}

DeviceMemory::DeviceMemory(const Trace& trace, std::uint64_t capacity) : capacity_(capacity) {
  for (const Client& client : trace.clients)
    held_.push_back({std::nullopt, std::vector<std::optional<BufferId>>(
                                       trace.programs[client.program.value].buffers.size())});
}

BufferId DeviceMemory::ask(ClientId client, std::optional<std::uint32_t> buffer, std::uint64_t bytes,
                           Time now) {
  const BufferId id = ask(client, bytes, now);
  Held& held = held_[client.value];
  (buffer ? held.by_name[*buffer] : held.first) = id;
  return id;
}

BufferId DeviceMemory::ask(ClientId client, std::uint64_t bytes, Time now) {
  BufferId id{static_cast<std::uint32_t>(buffers_.size())};
  if (free_.empty()) {
    buffers_.emplace_back();
    doomed_.push_back(false);
  } else {
    id.value = free_.back();
    free_.pop_back();
  }
  BufferView& b = at(id) = BufferView{};
  b.id = id, b.client = client, b.bytes = bytes, b.free = false, b.last_used = now;
  return id;
}

void DeviceMemory::take(std::uint64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak_, used_);
}

void DeviceMemory::grant(BufferId id) {
  at(id).place = Place::device;
  take(at(id).bytes);
}

void DeviceMemory::release(BufferId id) {
  if (at(id).client.value < held_.size()) {
    Held& held = held_[at(id).client.value];
    if (held.first == id) held.first.reset();
    for (auto& name : held.by_name)
      if (name == id) name.reset();
  }
  const BufferView& b = at(id);
  if (b.in_use != 0 || b.place == Place::to_host || b.place == Place::to_device)
    doomed_[id.value] = true;
  else
    vacate(id);
}

void DeviceMemory::vacate(BufferId id) {
  BufferView& b = at(id);
  if (b.place == Place::device) used_ -= b.bytes;
  b.free = true;
  doomed_[id.value] = false;
  released_.push_back(id.value);
  if (b.place != Place::asked) vacated_.push_back(id);
}

std::vector<BufferId> DeviceMemory::end_request(ClientId client) {
  std::vector<BufferId> asked;
  for (std::size_t i = 0; i < held_[client.value].by_name.size(); ++i)
    if (const auto id = held_[client.value].by_name[i]) {
      if (at(*id).place == Place::asked) asked.push_back(*id);
      release(*id);
    }
  return asked;
}

std::vector<BufferId> DeviceMemory::end_client(ClientId client) {
  std::vector<BufferId> asked = end_request(client);
  if (const auto first = held_[client.value].first) {
    if (at(*first).place == Place::asked) asked.push_back(*first);
    release(*first);
  }
  return asked;
}

std::optional<BufferId> DeviceMemory::held(ClientId client, std::uint32_t buffer) const {
  return held_[client.value].by_name[buffer];
}

std::vector<BufferId> DeviceMemory::used_by(ClientId client, const Op& op) const {
  const Held& held = held_[client.value];
  std::vector<BufferId> all;
  if (held.first) all.push_back(*held.first);
  if (op.uses) {
    for (std::uint32_t name : *op.uses)
      if (held.by_name[name]) all.push_back(*held.by_name[name]);
  } else {
    for (const auto& id : held.by_name)
      if (id) all.push_back(*id);
  }
  return all;
}

bool DeviceMemory::absent(std::span<const BufferId> uses) const {
  return std::any_of(uses.begin(), uses.end(),
                     [&](BufferId id) { return buffers_[id.value].place != Place::device; });
}

void DeviceMemory::begin_use(std::span<const BufferId> uses, bool kernel, Time now) {
  for (BufferId id : uses) {
    ++at(id).in_use;
    at(id).uses += kernel;
    at(id).last_used = now;
  }
}

void DeviceMemory::end_use(std::span<const BufferId> uses) {
  for (BufferId id : uses)
    if (--at(id).in_use == 0 && doomed_[id.value]) vacate(id);
}

void DeviceMemory::as_used_as(BufferId id, BufferId other) {
  at(id).uses = at(other).uses;
  at(id).last_used = at(other).last_used;
}

void DeviceMemory::wait_for(std::span<const BufferId> uses, int copies) {
  for (BufferId id : uses) at(id).copies_wait += static_cast<std::uint32_t>(copies);
}

std::string DeviceMemory::why_not(const decide::Checkpoint& checkpoint) const {
  if (!exists(checkpoint.buffer)) return "no such buffer";
  const BufferView& b = buffers_[checkpoint.buffer.value];
  if (b.place != Place::device) return "the buffer is not on the device";
  if (b.in_use != 0) return "a launch on the GPU uses the buffer";
  return {};
}

std::string DeviceMemory::why_not(const decide::Restore& restore) const {
  if (!exists(restore.buffer)) return "no such buffer";
  const BufferView& b = buffers_[restore.buffer.value];
  if (b.place != Place::host) return "the buffer is not on the host";
  if (b.bytes > capacity_ - used_) return "it does not fit the free device memory";
  return {};
}

void DeviceMemory::begin(const decide::Checkpoint& checkpoint) {
  at(checkpoint.buffer).place = Place::to_host;
  ++moving_;
  ++checkpoints_;
}

void DeviceMemory::begin(const decide::Restore& restore) {
  at(restore.buffer).place = Place::to_device;
  ++moving_;
  take(at(restore.buffer).bytes);
}

void DeviceMemory::moved(BufferId id) {
  BufferView& b = at(id);
  --moving_;
  moved_bytes_ += b.bytes;
  if (b.place == Place::to_host) {
    used_ -= b.bytes;
    b.place = Place::host;
  } else {
    b.place = Place::device;
  }
  if (doomed_[id.value]) vacate(id);
}

void DeviceMemory::stays(BufferId id) {
  BufferView& b = at(id);
  --moving_;
  const bool back = b.place == Place::to_device;
  if (back) used_ -= b.bytes;
  b.place = back ? Place::host : Place::device;
  if (doomed_[id.value]) vacate(id);
}

void DeviceMemory::forget_released() {
  free_.insert(free_.end(), released_.begin(), released_.end());
  released_.clear();
}

std::uint64_t DeviceMemory::held_bytes(ClientId client) const {
  std::uint64_t bytes = 0;
  for (const BufferView& b : buffers_)
    if (!b.free && b.client == client && b.place != Place::asked && b.place != Place::host) bytes += b.bytes;
  return bytes;
}

void DeviceMemory::audit() const {
  std::uint64_t bytes = 0;
  for (const BufferView& b : buffers_) {
    if (b.free) continue;
    if (b.place != Place::asked && b.place != Place::host) bytes += b.bytes;
    if (b.in_use != 0 && b.place != Place::device)
      throw std::logic_error(fmt::format("audit: buffer {} is in use and not on the device", b.id.value));
  }
  if (bytes != used_) throw std::logic_error("audit: device memory in use is not the sum of its buffers");
  if (used_ > capacity_)
    throw std::logic_error(fmt::format("audit: device memory is oversubscribed: {} of {}", used_, capacity_));
}

}  // namespace corun
