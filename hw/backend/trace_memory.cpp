#include "hw/backend/trace_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "policies/session/device_memory.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kMostBytes = std::uint64_t{16'000} << 20;  // indices of its words have 32 bits
constexpr std::uint32_t kNoRegion = ~std::uint32_t{0};

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

TraceMemory::TraceMemory(const Trace& trace, std::uint64_t capacity, bool moves, bool checks, Workbench& work)
    : trace_(trace), work_(work), driver_(work.driver()), moves_(moves), checks_(checks) {
  for (std::uint32_t c = 0; c < trace.clients.size(); ++c) {
    const Client& client = trace.clients[c];
    const Program& program = trace.programs[client.program.value];
    const auto add = [&](const std::string& name) -> Region& {
      clients_[c].push_back(static_cast<std::uint32_t>(regions_.size()));
      Region& r = regions_.emplace_back();
      r.client = c, r.name = name;
      return r;
    };
    clients_.emplace_back();
    for (const std::string& name : program.buffers) add(name);
    for (const Op& op : program.ops)
      if (const auto* alloc = std::get_if<Alloc>(&op.what)) {
        Region& r = regions_[clients_[c][alloc->buffer]];
        r.least = r.bytes == 0 ? alloc->bytes : std::min(r.least, alloc->bytes);
        r.bytes = std::max(r.bytes, alloc->bytes);
      }
    first_.emplace_back();
    if (client.memory_bytes != 0) {
      first_[c] = static_cast<std::uint32_t>(regions_.size());
      Region& r = add("memory_bytes");
      r.bytes = r.least = client.memory_bytes;
    }
  }
  if (regions_.empty()) return;
  std::uint64_t all = 0;
  for (const Region& r : regions_) {
    if (r.bytes > kMostBytes)
      throw InputError(
          trace.name, "",
          fmt::format("client {} allocates {} at once, and {} is the most that can be checked here",
                      trace.clients[r.client].name, in_bytes(r.bytes), in_bytes(kMostBytes)),
          "allocate it in several buffers");
    all += r.bytes;
  }
  const std::size_t unit = driver_.memory_unit();
  const std::uint64_t wanted = std::min(all, capacity) + unit * regions_.size(), free = driver_.memory_free();
  if (wanted > free)
    throw InputError("", "--backend=cuda",
                     fmt::format("the clients' buffers take up to {}, and this GPU has {} free",
                                 in_bytes(wanted), in_bytes(free)),
                     "give the run less of it with --memory");
  try {
    words_ = driver_.allocate_host(4 * regions_.size());
    for (Stream* s : {&fill_, &out_, &in_}) *s = driver_.stream(driver_.facts().highest_priority, {});
    for (Region& r : regions_) {
      r.range = rounded(std::max<std::uint64_t>(r.bytes, 1), unit);
      r.at = driver_.reserve(r.range);
      r.filled = driver_.event();
      if (moves_) r.host = driver_.allocate_host(r.bytes);
    }
  } catch (...) {
    free_all();
    throw;
  }
}

TraceMemory::~TraceMemory() { free_all(); }

void TraceMemory::free_all() noexcept {
  const auto attempt = [](auto&& what) {
    try {
      what();
    } catch (const std::exception&) {  // the context may be lost; the process gives all back at its end
    }
  };
  for (const Stream s : {fill_, out_, in_})
    if (s) attempt([&] { driver_.synchronize(s); });
  for (Region& r : regions_) {
    if (r.backed != 0) attempt([&] { unback(r); });
    if (r.at != 0) attempt([&] { driver_.unreserve(r.at, r.range); });
    if (r.host.host != nullptr) attempt([&] { driver_.free(r.host); });
    if (r.filled) attempt([&] { driver_.destroy(r.filled); });
  }
  for (const Stream s : {fill_, out_, in_})
    if (s) attempt([&] { driver_.destroy(s); });
  if (words_.host != nullptr) attempt([&] { driver_.free(words_); });
  regions_.clear();
}

// ---- whose kernels lie where ------------------------------------------------------------------------------

/// Regions, in the program's order.
std::vector<std::uint32_t> TraceMemory::used_by(std::uint32_t client, OpId op) const {
  const Program& program = trace_.programs[trace_.clients[client].program.value];
  std::vector<std::uint32_t> uses;
  if (program.ops[op.value].uses) {
    for (std::uint32_t name : *program.ops[op.value].uses) uses.push_back(clients_[client][name]);
  } else {
    std::vector<bool> held(program.buffers.size());
    for (std::uint32_t i = 0; i < op.value; ++i) {
      if (const auto* alloc = std::get_if<Alloc>(&program.ops[i].what)) held[alloc->buffer] = true;
      if (const auto* freed = std::get_if<Free>(&program.ops[i].what)) held[freed->buffer] = false;
    }
    for (std::uint32_t name = 0; name < held.size(); ++name)
      if (held[name]) uses.push_back(clients_[client][name]);
  }
  if (first_[client]) uses.push_back(*first_[client]);
  return uses;
}

TraceMemory::Placed TraceMemory::place(std::uint32_t client, OpId op, const Kernel& named,
                                       const LibraryKernel& kernel) {
  const auto launched =
      std::get<corun::Launch>(trace_.programs[trace_.clients[client].program.value].ops[op.value].what);
  const std::vector<std::uint32_t> uses = used_by(client, op);
  std::uint32_t key = 0;
  for (; key < sets_.size(); ++key)
    if (const Set& s = sets_[key]; s.client == client && s.kernel == launched.kernel.value && s.uses == uses)
      break;
  if (key == sets_.size()) {
    Set set{client, launched.kernel.value, uses, {}, nullptr, 0};
    for (std::uint32_t b = 0; b < kernel.buffers.size(); ++b) {
      const std::uint64_t bytes = rounded(kernel.buffers[b].bytes(), kAlignment);
      const auto with_room = std::find_if(uses.begin(), uses.end(), [&](std::uint32_t r) {
        return regions_[r].placed + bytes <= regions_[r].least;
      });
      if (with_room == uses.end()) {
        std::uint64_t wanted = 0, room = 0;
        for (const Buffer& each : kernel.buffers) wanted += rounded(each.bytes(), kAlignment);
        for (std::uint32_t r : uses) room += regions_[r].least;
        throw InputError(
            named.origin.file, named.origin.place,
            fmt::format(
                "kernel {} needs {}, in {} buffers, and what client {}'s launch uses has {}, shared with "
                "its other kernels",
                named.name, in_bytes(wanted), kernel.buffers.size(), trace_.clients[client].name,
                in_bytes(room)),
            "allocate more, or larger buffers, for it");
      }
      Region& r = regions_[*with_room];
      set.parts.push_back({*with_room, b, r.placed});
      r.placed += bytes;
    }
    sets_.push_back(std::move(set));
  }
  Placed placed{key, {}};
  for (const Part& p : sets_[key].parts) placed.at.push_back(regions_[p.region].at + p.offset);
  return placed;
}

void TraceMemory::fill_for(std::uint32_t key, Instance& instance, std::uint32_t seed) {
  sets_[key].instance = &instance;
  sets_[key].seed = seed;
}

std::vector<std::uint32_t> TraceMemory::instances_in(BufferId buffer) const {
  std::vector<std::uint32_t> keys;
  const std::uint32_t region = region_of(buffer);
  for (std::uint32_t key = 0; key < sets_.size(); ++key)
    if (std::any_of(sets_[key].parts.begin(), sets_[key].parts.end(),
                    [&](const Part& p) { return p.region == region; }))
      keys.push_back(key);
  return keys;
}

std::uint32_t TraceMemory::client_of(BufferId buffer) const { return regions_[region_of(buffer)].client; }

bool TraceMemory::complete(std::uint32_t key) const {
  return std::all_of(sets_[key].parts.begin(), sets_[key].parts.end(),
                     [&](const Part& p) { return regions_[p.region].state == State::device; });
}

// ---- memory that comes and goes ---------------------------------------------------------------------------

void TraceMemory::back(Region& r) {
  const std::size_t bytes = rounded(r.now_bytes, driver_.memory_unit());
  driver_.back(r.at, bytes);
  r.backed = bytes;
}
void TraceMemory::unback(Region& r) {
  driver_.unback(r.at, r.backed);
  r.backed = 0;
}

Outcome TraceMemory::allocate(const LaunchView& allocation) {
  const std::uint32_t c = allocation.client.value;
  const Alloc* op = allocation.operation != nullptr ? &std::get<Alloc>(allocation.operation->what) : nullptr;
  const std::uint32_t region = op != nullptr ? clients_[c][op->buffer] : first_[c].value();
  Region& r = regions_[region];
  if (r.state != State::absent) return Refused{"its former contents are still on their way"};
  r.buffer = allocation.uses.front();
  r.now_bytes = allocation.bytes;
  back(r);
  r.state = State::device;
  if (region_of_.size() <= r.buffer.value) region_of_.resize(r.buffer.value + 1, kNoRegion);
  region_of_[r.buffer.value] = region;
  work_.fill_words(r.at, r.now_bytes / 4, ++generation_, fill_);
  for (const Set& set : sets_)
    for (const Part& p : set.parts)
      if (p.region == region && set.instance != nullptr) work_.fill(*set.instance, p.buffer, set.seed, fill_);
  driver_.record(r.filled, fill_);
  return Applied{};
}

void TraceMemory::before(Stream s, std::span<const BufferId> uses) {
  for (BufferId id : uses)
    if (id.value < region_of_.size() && region_of_[id.value] != kNoRegion)
      driver_.wait(s, regions_[region_of(id)].filled);
}

Outcome TraceMemory::checkpoint(BufferId buffer) {
  const std::uint32_t region = region_of(buffer);
  Region& r = regions_[region];
  driver_.wait(out_, r.filled);
  if (checks_) r.digest = work_.digest(r.at, r.now_bytes, fill_);
  driver_.copy_to_host(out_, r.host.host, r.at, r.now_bytes);
  word(region) = 0;
  driver_.write(out_, words_.device + 4 * region, 1);
  r.state = State::to_host;
  ++moving_;
  return Applied{};
}

Outcome TraceMemory::restore(BufferId buffer) {
  const std::uint32_t region = region_of(buffer);
  Region& r = regions_[region];
  back(r);
  driver_.copy_to_device(in_, r.at, r.host.host, r.now_bytes);
  word(region) = 0;
  driver_.write(in_, words_.device + 4 * region, 1);
  r.state = State::to_device;
  ++moving_;
  return Applied{};
}

void TraceMemory::look(std::vector<Notice>& notices) {
  if (moving_ == 0) return;
  for (std::uint32_t i = 0; i < regions_.size(); ++i) {
    Region& r = regions_[i];
    if ((r.state != State::to_host && r.state != State::to_device) || word(i) == 0) continue;
    --moving_;
    if (r.state == State::to_host) {
      unback(r);
      r.state = State::host;
    } else {
      r.state = State::device;
      if (checks_) {
        ++compared_;
        if (work_.digest(r.at, r.now_bytes, fill_) != r.digest)
          wrong_.push_back(fmt::format("client {}, buffer {}: not what it was before it went to the host",
                                       trace_.clients[r.client].name, r.name));
      }
    }
    notices.push_back(BufferMoved{r.buffer});
  }
}

void TraceMemory::release(BufferId buffer) {
  Region& r = regions_[region_of(buffer)];
  if (r.state == State::device) {
    driver_.synchronize(fill_);  // it may never have been used
    unback(r);
  }
  r.state = State::absent;
  region_of_[buffer.value] = kNoRegion;
}

std::string TraceMemory::what_moves() const {
  std::string text;
  for (const Region& r : regions_)
    if (r.state == State::to_host || r.state == State::to_device)
      text += fmt::format("{}buffer {} of client {} on its way to the {}", text.empty() ? "" : ", ", r.name,
                          trace_.clients[r.client].name, r.state == State::to_host ? "host" : "device");
  return text;
}

void TraceMemory::bring_back() {
  std::vector<Notice> ignored;
  for (const Stream s : {fill_, out_, in_})
    if (s) driver_.synchronize(s);
  look(ignored);
  for (const Region& r : regions_)
    if (r.state == State::host) restore(r.buffer);
  if (in_) driver_.synchronize(in_);
  look(ignored);
}

}  // namespace corun::hw
