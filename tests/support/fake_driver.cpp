#include "tests/support/fake_driver.h"

#include "hw/kernels/library.h"

#include <sys/mman.h>

#include <algorithm>

namespace corun::hw {

FakeDriver::~FakeDriver() {
  for (const auto& [at, bytes] : reserved_) munmap(reinterpret_cast<void*>(at), bytes);
}

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
/// Addresses that cannot be touched until there is memory behind them, and what was there is lost when it
/// goes.
DevicePointer FakeDriver::reserve(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw DriverError("no addresses are left");
  reserved_[reinterpret_cast<DevicePointer>(at)] = bytes;
  return reinterpret_cast<DevicePointer>(at);
}
void FakeDriver::unreserve(DevicePointer at, std::size_t bytes) {
  if (backed_.contains(at) || reserved_.at(at) != bytes) throw DriverError("there is memory behind it");
  munmap(reinterpret_cast<void*>(at), bytes);
  reserved_.erase(at);
}
void FakeDriver::back(DevicePointer at, std::size_t bytes) {
  if (bytes > memory_free()) throw DriverError("out of memory");
  if (bytes > reserved_.at(at) || !backed_.emplace(at, bytes).second)
    throw DriverError("no such addresses, or there is memory behind them");
  mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE);
  most_backed = std::max(most_backed, backed_bytes());
}
void FakeDriver::unback(DevicePointer at, std::size_t bytes) {
  if (backed_.at(at) != bytes) throw DriverError("not what is behind it");
  madvise(reinterpret_cast<void*>(at), bytes, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(at), bytes, PROT_NONE);
  backed_.erase(at);
}
std::uint64_t FakeDriver::backed_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [at, bytes] : backed_) sum += bytes;
  return sum;
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
void FakeDriver::queue(Stream s, Work work) {
  if (capturing_ != nullptr)
    capturing_->push_back(std::move(work));
  else
    streams_.at(s.value).work.push_back(std::move(work));
}
void FakeDriver::now_or_later(Stream s, std::function<void()> what) {
  queue(s, [what = std::move(what)] { return what(), true; });
}
Graph FakeDriver::capture(Stream, const std::function<void()>& calls) {
  std::vector<Work> all;
  capturing_ = &all;
  calls();
  capturing_ = nullptr;
  graphs_[next_] = std::move(all);
  return {next_++};
}
void FakeDriver::launch(Graph g, Stream s) {
  for (const Work& each : graphs_.at(g.value)) queue(s, each);
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
  if (entry.starts_with("cluster_of_"))
    return now_or_later(s, [=, this, to = pointer(0), size = static_cast<std::uint32_t>(entry.back() - '0')] {
      for (std::uint32_t b = 0; b < grid.x; ++b) {
        const std::uint32_t cluster = b / size, last = 132 / 16, chosen = cluster % (last + 1);
        const std::uint32_t gpc = chosen == last && size > 4 ? 0 : chosen, sms = gpc == last ? 4 : 16;
        reinterpret_cast<std::uint32_t*>(to)[b] = notes_sms ? 16 * gpc + (cluster / (last + 1) * 3 + b % size) % sms : 0;
      }
    });
  if (entry == "corun_padded") return padded(s, grid.x, parameters);
  const auto number = [&](std::size_t i) { return *static_cast<const std::uint32_t*>(parameters[i]); };
  if (entry == "fill_u32")
    return now_or_later(s, [to = pointer(0), n = number(1), seed = number(2)] {
      for (std::uint32_t i = 0; i < n; ++i) reinterpret_cast<std::uint32_t*>(to)[i] = hash_of(i, seed);
    });
  if (entry == "digest")
    return now_or_later(s, [from = pointer(0), n = number(1), to = pointer(2)] {
      std::uint64_t sum = 0;
      for (std::uint32_t i = 0; i < n; ++i)
        sum += std::uint64_t{hash_of(reinterpret_cast<std::uint32_t*>(from)[i], i)} * (2ull * i + 1);
      *reinterpret_cast<std::uint64_t*>(to) += sum;
    });
  if (entry == "publish")
    return now_or_later(s, [from = pointer(0), to = pointer(1)] {
      *reinterpret_cast<std::uint64_t*>(to) = *reinterpret_cast<std::uint64_t*>(from);
    });
  if (other_kernels && !entry.starts_with("spin"))
    if (Kernel kernel = other_kernels({entry, grid, parameters}))
      return queue(s, std::move(kernel));
  if (!entry.starts_with("spin")) return;  // other fillings
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
  auto plain = std::make_shared<Control>();
  const bool stuck = sound_launches == 0;
  if (lost_launches != 0) {
    --lost_launches;
    return [] { return true; };
  }
  const std::uint32_t came = p.seated != 0 ? workers : 0;
  seated_grids += p.seated != 0;
  if (p.seated != 0 && crowded_grids != 0) {
    --crowded_grids;
    workers = crowded_seats;
  }
  auto all = std::make_shared<std::vector<Worker>>(workers);
  if (!stuck) --sound_launches;
  return [=, this, tells = came != 0]() mutable {
    if (hangs || stuck) return false;
    if (tells) {
      std::uint64_t& seats = reinterpret_cast<Control*>(p.control)->seats;
      seats += came * ((std::uint64_t{1} << 40) + (1 << 16)) + workers;
      reinterpret_cast<Progress*>(p.progress)->seats[0] = seats;
      tells = false;
    }
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
            w.gone = true;
            continue;
          }
          const std::uint32_t i = c.taken++;
          if ((c.command & kStop) != 0 || i >= p.chunks) {
            if (i < p.chunks && p.progress != 0) {
              auto& at = *reinterpret_cast<Progress*>(p.progress);
              if (c.stopped_at < ~i) at.stopped_at[c.records++ % 16] = i, c.stopped_at = ~i;
            }
            w.gone = true;
          } else {
            const std::uint32_t first = p.first + blocks_in(p, i), end = p.first + blocks_in(p, i + 1);
            for (std::uint32_t b = first; b < end; ++b) out[b] = b * 2654435761u;
            w.busy_until = now_ + from_ns(ns) * (end - first);
            if (p.progress != 0) {
              auto& at = *reinterpret_cast<Progress*>(p.progress);
              at.taken = i + 1;
              if (i + 1 == p.chunks) at.all_taken = 1;
            }
          }
        }
      }
      over &= w.gone;
    }
    return over;
  };
}

/// padding.cuh, of two kernels of spin.cu.
void FakeDriver::padded(Stream s, std::uint32_t workers, std::span<void* const> parameters) {
  PaddedParameters p;
  std::memcpy(static_cast<void*>(&p), parameters[2], sizeof p);
  struct Values {
    std::uint32_t* out;
    std::uint32_t ns;
  };
  const auto a = *static_cast<const Values*>(parameters[0]), b = *static_cast<const Values*>(parameters[1]);
  const std::uint32_t on_each = workers / facts().sms;
  const Work first = persistent(p.first, p.sms * (p.seats != 0 ? p.per_sm : on_each), a.out, a.ns),
             second = persistent(p.second, (facts().sms - p.sms) * on_each, b.out, b.ns);
  streams_.at(s.value).work.push_back([=, first_over = false, second_over = false]() mutable {
    if (!first_over && (first_over = first())) reinterpret_cast<Control*>(p.second.control)->command |= kStop;
    if (!second_over) second_over = second();
    return first_over && second_over;
  });
}

void FakeDriver::write(Stream s, DevicePointer at, std::uint32_t value) {
  writes += value != 1;
  now_or_later(s, [=] { *reinterpret_cast<std::uint32_t*>(at) = value; });
}
void FakeDriver::write(Stream s, std::span<const std::pair<DevicePointer, std::uint32_t>> all) {
  for (const auto& [at, value] : all) write(s, at, value);
}
void FakeDriver::copy_to_device(Stream s, DevicePointer to, const void* from, std::size_t bytes) {
  now_or_later(s, [=, this, data = std::string(static_cast<const char*>(from), bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), data.data(), bytes);
    if (loses_memory) ++*reinterpret_cast<char*>(to);
  });
}
void FakeDriver::copy_to_host(Stream s, void* to, DevicePointer from, std::size_t bytes) {
  now_or_later(s, [=] { std::copy_n(reinterpret_cast<const char*>(from), bytes, static_cast<char*>(to)); });
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
