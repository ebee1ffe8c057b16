// Memory that waits as the contention model says, of a card whose rates are stated: what the clients of hw/calibrate that
// run together get of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hw/calibrate/device_records.h"
#include "hw/calibrate/loaded_latency.h"
#include "hw/calibrate/memory_loads.h"
#include "traces/model/memory_waits.h"

namespace corun::hw {

class WaitingMemory {
 public:
  QueueingFactors waits{0.13, 0.45, 0.92, 0.012, 0.15};
  double read = 4.6e12, write = 3.9e12, l2_read = 9.8e12, l2_write = 4.9e12, dram_ns = 350, l2_ns = 146;
  std::uint64_t l2_bytes = std::uint64_t{1} << 20;
  double cycles_per_us = 1000, full_warps = 1056;
  double ratio() const { return dram_ns / l2_ns; }

  struct Client {
    std::string entry;
    Work work;
    bool chases() const { return entry == "client_chase"; }
    double chunks() const { return entry == "client_copy" ? 2 : 1; }
    double us() const { return 1e-3 * static_cast<double>(work.end - work.begin); }
  };
  /// Clients that run together begin.
  void begin() { clients_.clear(); }
  void add(std::string entry, const Work& work) { clients_.push_back({std::move(entry), work}); }
  const std::vector<Client>& clients() const { return clients_; }

  /// What a client that streams or chases has done in its window.
  std::uint64_t units(const Client& c) const {
    const Waits met = waits_now();
    const double all = c.chases() ? c.us() * c.work.warps / 16 / (1e-3 * (hits(c) ? l2_ns * met.l2 : dram_ns * met.dram))
                                  : c.us() * met.bytes_per_us / (4 * kChunkBytes * c.chunks());
    return static_cast<std::uint64_t>(all);
  }

 private:
  struct Waits {
    double dram = 1, l2 = 1, bytes_per_us = 0;
  };
  /// A chain with long strides has few lines.
  bool hits(const Client& c) const { return c.work.stride != 128 || c.work.bytes < l2_bytes; }

  /// What the load that is there asks for, and what that makes of the memory.
  Waits waits_now() const {
    Waits met;
    for (const Client& c : clients_) {
      if (c.chases()) continue;
      const bool in_l2 = c.work.bytes < l2_bytes;
      const double reads = c.entry == "client_write" ? 0 : c.entry == "client_copy" ? 0.5 : 1;
      const double most = 1e-6 / (reads / (in_l2 ? l2_read : read) + (1 - reads) / (in_l2 ? l2_write : write));
      const double us = c.work.idle_cycles / cycles_per_us, warps = c.work.warps;
      const double asked = us > 0 ? warps * kChunkBytes * c.chunks() / (us + 0.9) : most;
      const bool full = us == 0;
      const double use = std::min(full ? 0.9995 : 0.97, asked / most);
      met.bytes_per_us = use * most;
      if (in_l2) {
        met.l2 = l2_wait(use, waits.l2, ratio(), 0);
        continue;
      }
      const double writing = 1e6 * met.bytes_per_us * (1 - reads) / write / use;
      const double l2_use = 1e6 * met.bytes_per_us * (reads / l2_read + (1 - reads) / l2_write);
      const double backlog = full ? 0.6 * warps / full_warps : dram_backlog(use, waits.backlog);
      met.dram = dram_wait(use, waits.read + waits.write * writing, waits.full_use, backlog);
      met.l2 = l2_wait(l2_use, waits.l2, ratio(), backlog);
    }
    return met;
  }

  std::vector<Client> clients_;
};

}  // namespace corun::hw
