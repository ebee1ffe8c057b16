#include "hw/calibrate/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "hw/backend/cuda_backend.h"
#include "hw/transform/embedded_device_code.h"

namespace corun::hw {
namespace {

constexpr std::uint32_t kMostClients = 4;
constexpr double kBetweenClients = 200;  // us
constexpr std::uint32_t kMostPauses = 1024;

// What a client writes lies in the scratch memory, one client after the other.
constexpr std::size_t kWanted = 0, kClaimed = 512, kUnits = 2048, kLogs = 4096;
constexpr std::size_t kLogBytes = std::size_t{kMostSmsOfClients} * 64 * sizeof(WarpLog);
constexpr std::size_t kPerClient = kLogs + kLogBytes;

// What host and GPU both see: the gate's word, and a pair for round trips, each in a line of its own.
constexpr std::size_t kGate = 0, kPing = 128, kPong = 256, kTimer = 384, kPageBytes = 4096;

template <class T>
volatile T& word(const HostMemory& page, std::size_t at) {
  return *reinterpret_cast<volatile T*>(static_cast<char*>(page.host) + at);
}

std::string device_code() {
  std::string all;
  for (const char* part : {"launch_kernels.cuh", "work.cuh", "compute_units.cuh", "memory_units.cuh",
                           "tensor_units.cuh", "client_kernel.cuh", "entries.cuh"}) {
    std::string_view text = library_source(part);
    while (!text.empty()) {  // the parts stand in their order here
      const std::string_view line = text.substr(0, text.find('\n'));
      if (!line.starts_with("#include \"") && !line.starts_with("#pragma once")) all.append(line);
      all += '\n';
      text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
  }
  return all;
}

}  // namespace

double median(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return samples.empty() ? 0 : samples[samples.size() / 2];
}

Bench::Bench(Driver& driver, Compiler& compiler, const std::atomic<bool>& interrupted)
    : driver_(driver),
      compiler_(compiler),
      interrupted_(interrupted),
      facts_(driver.facts()),
      code_(compiler_.compile(device_code(), "hw/calibrate/entries.cuh", {})),
      urgent_(driver.stream(facts_.highest_priority, {})),
      from_(driver.event()),
      to_(driver.event()),
      page_(driver.allocate_host(kPageBytes)),
      scratch_(driver, kMostClients * kPerClient) {
  for (const char* entry :
       {"client_read", "client_write", "client_copy", "client_gather", "client_scatter", "client_chase",
        "client_fma", "client_fp64", "client_mma", "nothing", "plain_worker", "persistent_worker"})
    driver_.allow_shared_memory(function(entry), facts_.sm.block_shared_bytes - 1024);
  buffer_bytes_ = std::min(std::uint64_t{4} << 30, std::bit_floor(driver_.memory_free() / 4));
}
Bench::~Bench() {
  for (const Stream s : streams_) driver_.destroy(s);
  driver_.destroy(urgent_);
  driver_.destroy(from_), driver_.destroy(to_);
  driver_.free(page_);
  if (buffer_ != 0) driver_.free(buffer_);
}

void Bench::check_interrupt() const {
  if (interrupted_) throw Interrupted("interrupted");
}
void Bench::wait_us(double us) { wait_until(now_us() + us); }
void Bench::wait_until(double host_us) {
  while (now_us() < host_us) driver_.pause();
}
bool Bench::wait_for(const std::function<bool()>& condition, double limit_us) {
  for (const double end = now_us() + limit_us; !condition(); driver_.pause())
    if (now_us() > end) return false;
  return true;
}

Function Bench::function(std::string_view entry) {
  if (const auto known = functions_.find(entry); known != functions_.end()) return known->second;
  return functions_.emplace(entry, driver_.load(code_, std::string(entry))).first->second;
}
Stream Bench::stream(std::size_t i) {
  while (streams_.size() <= i) streams_.push_back(driver_.stream(0, {}));
  return streams_[i];
}
Stream Bench::urgent_stream() { return urgent_; }
void Bench::synchronize_all() {
  for (const Stream s : streams_) driver_.synchronize(s);
  driver_.synchronize(urgent_);
}

void Bench::body(Stream s, std::uint32_t blocks, std::uint32_t threads, DevicePointer stamps, double us) {
  launch("body", blocks, threads, 0, s, stamps, cycles(us), std::int32_t{0});
}
void Bench::read_bytes(DevicePointer from, void* to, std::size_t bytes) {
  driver_.copy_to_host(stream(0), to, from, bytes);
  driver_.synchronize(stream(0));
}
void Bench::fill(DevicePointer at, std::uint8_t value, std::size_t bytes) {
  driver_.fill(stream(0), at, value, bytes);
  driver_.synchronize(stream(0));
}
double Bench::held_us(Stream s, const std::function<void()>& calls) {
  hold(s);
  driver_.record(from_, s);
  calls();
  driver_.record(to_, s);
  wait_us(50);
  open_gate();
  driver_.synchronize(s);
  return 1e3 * driver_.milliseconds(from_, to_);
}

void Bench::hold(Stream s, double limit_us) {
  word<std::uint32_t>(page_, kGate) = 0;
  launch("gate", 1, 1, 0, s, page_.device + kGate, static_cast<std::uint64_t>(limit_us * 1e3));
}
void Bench::open_gate() { word<std::uint32_t>(page_, kGate) = 1; }

Samples Bench::round_trips(std::uint32_t rounds) {
  Samples us;
  volatile std::uint32_t& ping = word<std::uint32_t>(page_, kPing);
  volatile std::uint64_t& pong = word<std::uint64_t>(page_, kPong);
  ping = 0;
  launch("echo", 1, 1, 0, stream(0), page_.device + kPing, page_.device + kPong, rounds,
         std::uint64_t{200'000'000});
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    const std::uint64_t old = pong;
    const double sent = now_us();
    ping = round;
    if (!wait_for([&] { return pong != old; }, 100e3)) throw DriverError("the GPU does not answer");
    us.push_back(now_us() - sent);
  }
  driver_.synchronize(stream(0));
  return us;
}

std::vector<Pause> Bench::pauses(double us) {
  const DevicePointer at = scratch_.at(), count = at + std::size_t{16} * kMostPauses;
  fill(at, 0, 16 * kMostPauses + 4);
  launch("watch", 1, 1, 0, stream(0), at, std::int32_t{kMostPauses}, count,
         static_cast<std::uint64_t>(us * 1e3));
  driver_.synchronize(stream(0));
  const auto found = read<std::uint32_t>(count, 1)[0];
  return read<Pause>(at, std::min(found, kMostPauses));
}

std::vector<LoadRate> Bench::run_together(const std::vector<Load>& wanted_clients, double window_us,
                                         double settle_us, const std::function<void()>& meanwhile) {
  check_interrupt();
  if (wanted_clients.size() > kMostClients || facts_.sms > kMostSmsOfClients)
    throw DriverError("more clients or SMs than a bench has room for");
  std::vector<Load> clients = wanted_clients;
  std::vector<std::uint32_t> grids;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    Load& c = clients[i];
    const std::uint32_t resident = driver_.blocks_per_sm(function(c.kernel), c.threads, 4096);
    c.per_sm = std::min(c.per_sm, resident);  // a block without a place would come when the others leave
    std::vector<std::uint8_t> wanted(kMostSmsOfClients, c.sms.empty());
    for (const std::uint32_t sm : c.sms) wanted[sm] = 1;
    const DevicePointer own = scratch_.at() + i * kPerClient;
    fill(own, 0, kLogs + std::size_t{facts_.sms} * c.per_sm * c.threads / 32 * sizeof(WarpLog));
    driver_.copy_to_device(stream(0), own + kWanted, wanted.data(), wanted.size());
    driver_.synchronize(stream(0));
    grids.push_back(resident * facts_.sms);
  }
  launch("read_timer", 1, 1, 0, stream(0), page_.device + kTimer);
  driver_.synchronize(stream(0));
  const std::uint64_t zero = word<std::uint64_t>(page_, kTimer);
  const double host_zero = now_us();
  const auto at = [&](double us) { return zero + static_cast<std::uint64_t>(us * 1e3); };
  const double begin = kBetweenClients * static_cast<double>(clients.size()) + settle_us;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const Load& c = clients[i];
    const DevicePointer own = scratch_.at() + i * kPerClient;
    const std::size_t sms = c.sms.empty() ? facts_.sms : c.sms.size();
    Work w;
    w.release = at(kBetweenClients * static_cast<double>(i) + 140);
    w.begin = at(begin), w.end = at(begin + window_us), w.leave = at(begin + window_us + 10);
    w.data = c.data, w.bytes = c.bytes;
    w.warps = static_cast<std::uint32_t>(c.per_sm * sms * c.threads / 32);
    w.stride = c.stride, w.idle_cycles = c.idle_cycles;
    w.wanted = own + kWanted, w.per_sm = static_cast<std::int32_t>(c.per_sm);
    w.claimed = own + kClaimed, w.units = own + kUnits, w.logs = own + kLogs;
    wait_until(host_zero + kBetweenClients * static_cast<double>(i));
    launch(c.kernel, grids[i], c.threads, 4096, stream(i), w);
  }
  if (meanwhile) {
    wait_until(host_zero + kBetweenClients * static_cast<double>(clients.size()) + settle_us / 2);
    meanwhile();
  }
  synchronize_all();
  std::vector<LoadRate> rates;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const Load& c = clients[i];
    const DevicePointer own = scratch_.at() + i * kPerClient;
    LoadRate o;
    o.per_us = static_cast<double>(read<std::uint64_t>(own + kUnits, 1)[0]) * c.amount / window_us;
    const auto places = read<std::uint32_t>(own + kClaimed, kMostSmsOfClients + 1)[kMostSmsOfClients];
    double seen = 0;
    for (const WarpLog& l : read<WarpLog>(own + kLogs, std::size_t{places} * c.threads / 32))
      if (l.last > l.first + 50'000) {
        o.mhz += 1e3 * static_cast<double>(l.last_cycle - l.first_cycle) /
                 static_cast<double>(l.last - l.first);
        ++seen;
      }
    if (seen > 0) o.mhz /= seen;
    rates.push_back(o);
  }
  return rates;
}

Samples Bench::rates(const Load& client, double window_us, double settle_us, int repeats) {
  Samples per_us;
  for (int i = 0; i < repeats; ++i) per_us.push_back(run_together({client}, window_us, settle_us)[0].per_us);
  return per_us;
}

DevicePointer Bench::buffer() {
  if (buffer_ == 0) {
    buffer_ = driver_.allocate(buffer_bytes_);
    fill(buffer_, 0, buffer_bytes_);
  }
  return buffer_;
}
void Bench::make_chain(DevicePointer at, std::uint32_t count, std::uint32_t stride) {
  launch("fill_chain", 1056, 256, 0, stream(0), at, count, stride);
  driver_.synchronize(stream(0));
}

void Bench::raise_clock() {
  body(stream(0), 8 * facts_.sms, 256, 0, 200e3);
  driver_.synchronize(stream(0));
  launch("clock_rate", 1, 1, 0, stream(0), scratch_.at(), scratch_.at() + 8);
  driver_.synchronize(stream(0));
  const auto both = read<std::uint64_t>(scratch_.at(), 2);
  if (both[0] == 0) throw DriverError("the GPU's timer stands still");
  cycles_per_us_ = 1e3 * static_cast<double>(both[1]) / static_cast<double>(both[0]);
}

}  // namespace corun::hw
