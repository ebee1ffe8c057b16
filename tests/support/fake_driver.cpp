#include "tests/support/fake_driver.h"

#include <algorithm>

namespace corun::hw {

FakeDriver::~FakeDriver() = default;

DeviceFacts FakeDriver::facts() const {
  DeviceFacts f;
  f.name = "fake H200", f.driver = "none", f.sms = 132, f.capability_major = 9, f.highest_priority = -5;
  return f;
}

Function FakeDriver::load(std::string_view, const std::string& entry) {
  functions_[next_] = entry;
  return {next_++};
}
Partition FakeDriver::partition(std::span<const std::uint32_t> groups) {
  ++partitions_;
  partition_sizes.push_back(groups.size());
  first_group_[next_] = groups.front();
  return {next_++};
}
Stream FakeDriver::stream(std::int32_t, Partition p) {
  streams_[next_].first_group = p ? first_group_[p.value] : 0;
  return {next_++};
}
Event FakeDriver::event() {
  events_[next_];
  return {next_++};
}
DevicePointer FakeDriver::allocate(std::size_t bytes) {
  auto memory = std::make_unique<char[]>(bytes);
  const auto at = reinterpret_cast<DevicePointer>(memory.get());
  memory_[at] = std::move(memory);
  return at;
}
HostMemory FakeDriver::allocate_host(std::size_t bytes) {
  const DevicePointer at = allocate(bytes);
  return {reinterpret_cast<void*>(at), at, bytes};
}

void FakeDriver::step() {
  now_ += std::chrono::microseconds(1);
  for (auto& [id, s] : streams_)
    while (!s.work.empty() && s.work.front()()) s.work.pop_front();
}
void FakeDriver::now_or_later(Stream s, std::function<void()> what) {
  streams_.at(s.value).work.push_back([what = std::move(what)] { return what(), true; });
}
void FakeDriver::synchronize(Stream s) {
  for (int i = 0; !idle(s); ++i) {
    if (i > 1'000'000) throw DriverError("a stream's work has not ended within a second");
    step();
  }
}

void FakeDriver::launch(Function f, Dim3 grid, Dim3, std::uint32_t, Stream s,
                        std::span<void* const> parameters) {
  const std::string& entry = functions_.at(f.value);
  const auto pointer = [&](std::size_t i) { return *static_cast<const DevicePointer*>(parameters[i]); };
  if (entry == "where") {
    auto* to = reinterpret_cast<std::uint32_t*>(pointer(0));
    // Groups lie in another order than TPCs.
    return now_or_later(s, [=, group = streams_.at(s.value).first_group] { *to = 2 * (65 - group); });
  }
  if (!entry.starts_with("spin")) return;  // filling and digests
  auto* out = reinterpret_cast<std::uint32_t*>(pointer(0));
  const auto ns = *static_cast<const std::uint32_t*>(parameters[1]);
  LaunchParameters p;
  std::uint32_t workers = 1056;
  if (entry == "spin__persistent") {
    std::memcpy(static_cast<void*>(&p), parameters[2], sizeof p);
    workers = grid.x;
  } else {
    p.end = p.chunks = p.large = grid.x;
  }
  streams_.at(s.value).work.push_back(persistent(p, workers, out, ns));
}

/// persistent.cuh, in virtual time.  Without a control: a plain grid.
FakeDriver::Work FakeDriver::persistent(const LaunchParameters& p, std::uint32_t workers, std::uint32_t* out,
                                        std::uint32_t ns) {
  struct Worker {
    Time busy_until{};
    std::uint32_t seen = 0;
    bool gone = false;
  };
  auto all = std::make_shared<std::vector<Worker>>(workers);
  auto plain = std::make_shared<Control>();
  return [=, this] {
    if (hangs) return false;
    Control& c = p.control != 0 ? *reinterpret_cast<Control*>(p.control) : *plain;
    bool over = true;
    for (Worker& w : *all) {
      if (!w.gone && w.busy_until <= now_) {
        if (c.command != w.seen && (c.command & kStop) == 0 && c.left < c.leave) {
          ++c.left;
          w.gone = true;
        } else {
          w.seen = c.command;
          if (p.single != 0 && w.busy_until != Time{}) {
            ++c.left;
            w.gone = true;
            continue;
          }
          const std::uint32_t i = c.taken++;
          if ((c.command & kStop) != 0 || i >= p.chunks) {
            w.gone = true;
          } else {
            const std::uint32_t first = p.first + blocks_in(p, i), end = p.first + blocks_in(p, i + 1);
            for (std::uint32_t b = first; b < end; ++b) out[b] = b * 2654435761u;
            w.busy_until = now_ + from_ns(ns) * (end - first);
            if (p.progress != 0) *reinterpret_cast<std::uint32_t*>(p.progress) = i + 1;
          }
        }
      }
      over &= w.gone;
    }
    return over;
  };
}

void FakeDriver::write(Stream s, DevicePointer at, std::uint32_t value) {
  writes += value != 1;
  now_or_later(s, [=] { *reinterpret_cast<std::uint32_t*>(at) = value; });
}
void FakeDriver::write(Stream s, std::span<const std::pair<DevicePointer, std::uint32_t>> all) {
  for (const auto& [at, value] : all) write(s, at, value);
}
void FakeDriver::copy_to_device(Stream s, DevicePointer to, const void* from, std::size_t bytes) {
  now_or_later(s, [=, data = std::string(static_cast<const char*>(from), bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), data.data(), bytes);
  });
}
void FakeDriver::copy_to_host(Stream s, void* to, DevicePointer from, std::size_t bytes) {
  now_or_later(s, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
}
void FakeDriver::copy_on_device(Stream s, DevicePointer to, DevicePointer from, std::size_t bytes) {
  now_or_later(s, [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
void FakeDriver::fill(Stream s, DevicePointer at, std::uint8_t value, std::size_t bytes) {
  now_or_later(s, [=] { std::memset(reinterpret_cast<void*>(at), value, bytes); });
}
void FakeDriver::record(Event e, Stream s) {
  const std::uint64_t n = ++events_.at(e.value).recorded;
  now_or_later(s, [=, this] {
    EventState& state = events_.at(e.value);
    state.reached = n;
    state.at = now_;
  });
}
void FakeDriver::wait(Stream s, Event e) {
  const std::uint64_t n = events_.at(e.value).recorded;
  streams_.at(s.value).work.push_back([=, this] { return events_.at(e.value).reached >= n; });
}

}  // namespace corun::hw
