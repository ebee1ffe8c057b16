#include "fake_gpu.h"

#include <algorithm>
#include <cmath>

namespace corun::fake {
namespace {

template <class T>
T& memory(std::uint64_t at) {
  return *reinterpret_cast<T*>(at);
}
constexpr double kMs = 1e6;

}  // namespace

Gpu::Gpu(const FakeCard& card) : card_(card), channels_(static_cast<std::size_t>(card.channels)) {
  memory_.read = card.dram_read, memory_.write = card.dram_write;
  memory_.l2_read = card.l2_read, memory_.l2_write = card.l2_write;
  memory_.dram_ns = card.dram_latency, memory_.l2_ns = card.l2_latency;
  memory_.l2_bytes = static_cast<std::uint64_t>(card.l2_mib * (1 << 20));
  memory_.cycles_per_us = card.clock_mhz, memory_.full_warps = 8 * card.sms;
}

std::uint64_t Gpu::stream() {
  ++made_;
  streams_[made_].channel = made_ % channels_.size();
  return made_;
}

void Gpu::add(std::uint64_t stream, Work work) {
  Stream& s = streams_.at(stream);
  std::deque<Queued>& channel = channels_[s.channel];
  const Ns called = now_;
  while (static_cast<double>(channel.size()) >= card_.channel_depth) pass(1000);
  ++s.left;
  channel.push_back({stream, called + work.delay, std::move(work)});
}

void Gpu::pass(Ns ns) {
  now_ += ns;
  settle();
}

/// What is due, in the order of time.
void Gpu::settle() {
  for (;;) {
    for (std::size_t i = 0; i < polled_.size();) {
      if (const std::optional<Ns> ended = polled_[i].poll(now_)) {
        at(*ended, [this, stream = polled_[i].stream, when = *ended] { end(stream, true, when); });
        polled_.erase(polled_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (!begin_next()) return;
  }
}

/// The next event, or the next work that can begin; false where neither is due.
bool Gpu::begin_next() {
  Ns first = now_ + 1;
  std::deque<Queued>* chosen = nullptr;
  for (std::deque<Queued>& channel : channels_) {
    if (channel.empty()) continue;
    const Queued& head = channel.front();
    const Stream& s = streams_.at(head.stream);
    if (s.busy || (head.work.is_kernel && static_cast<double>(kernels_) >= card_.task_slots)) continue;
    const Ns gap = head.work.is_kernel && s.after_kernel ? static_cast<Ns>(card_.stream_gap) : 0;
    if (const Ns begins = std::max({head.ready, s.free + gap, reached_}); begins < first) first = begins, chosen = &channel;
  }
  if (!events_.empty() && events_.begin()->first <= std::min(first, now_)) {
    const std::function<void()> what = events_.begin()->second;
    reached_ = std::max(reached_, events_.begin()->first);
    events_.erase(events_.begin());
    what();
    return true;
  }
  if (chosen == nullptr) return false;
  Queued next = std::move(chosen->front());
  chosen->pop_front();
  streams_.at(next.stream).busy = true;
  kernels_ += next.work.is_kernel, reached_ = first;
  const auto ends = next.work.begin(first);
  if (ends)
    at(*ends, [this, stream = next.stream, kernel = next.work.is_kernel, when = *ends] { end(stream, kernel, when); });
  else
    polled_.push_back({next.stream, std::move(next.work.poll)});
  return true;
}

void Gpu::end(std::uint64_t stream, bool is_kernel, Ns when) {
  Stream& s = streams_.at(stream);
  s.busy = false, s.free = when;
  if (is_kernel) s.after_kernel = true, --kernels_;
  --s.left;
}

std::uint32_t Gpu::resident(std::uint32_t threads, std::uint32_t shared) const {
  const double by_shared = card_.shared_kib * 1024 / std::max(1.0, shared + card_.reserved_shared);
  return static_cast<std::uint32_t>(std::min({card_.blocks, std::floor(card_.threads / threads), std::floor(by_shared)}));
}

Ns Gpu::blocks_ns(std::uint32_t blocks, double per_sm, double block_ns) const {
  const double turns = std::ceil(blocks / (per_sm * card_.sms));
  return static_cast<Ns>(card_.launch_cost + std::max(turns * block_ns, blocks * card_.dispatch));
}

std::optional<std::string> Gpu::parameters_of(const std::string& entry, const FakeCard& card) {
  static const std::map<std::string, std::string> known{
      {"body", "884"}, {"nothing", ""}, {"gate", "88"}, {"echo", "8848"}, {"hello", "8"}, {"clock_rate", "88"}, {"watch", "8488"},
      {"read_timer", "8"}, {"fill_chain", "844"}, {"wait_for_flag", "888"}, {"plain_worker", "8"}, {"persistent_worker", "848"}};
  if (entry.starts_with("cluster_of_")) return card.major >= 9 ? std::optional<std::string>("88") : std::nullopt;
  for (const char* client : {"read", "write", "copy", "gather", "scatter", "chase", "fma", "fp64", "mma"})
    if (entry == std::string("client_") + client) return "w";
  const auto at = known.find(entry);
  return at != known.end() ? std::optional(at->second) : std::nullopt;
}

Gpu::Work Gpu::kernel(const Launch& l) {
  const auto& w = l.words;
  const std::uint32_t per_sm = resident(l.threads, l.shared);
  const auto takes = [](Ns ns) { return [ns](Ns begun) { return std::optional(begun + ns); }; };
  Work k;
  k.is_kernel = true, k.delay = static_cast<Ns>(card_.launch_latency);
  if (l.entry.starts_with("client_")) return client(l);
  if (l.entry == "wait_for_flag") return wait_for_flag(l);
  if (l.entry == "body") {
    const Ns us = body_ns(w[1]);
    k.begin = [this, l, us, all = blocks_ns(l.blocks, per_sm, static_cast<double>(us)), to = w[0]](Ns begun) {
      for (std::uint32_t b = 0; to != 0 && b < l.blocks; ++b) {
        auto& stamp = memory<corun::hw::Stamp>(to + b * sizeof(corun::hw::Stamp));
        stamp.start = static_cast<std::uint64_t>(begun), stamp.end = static_cast<std::uint64_t>(begun + us);
        const auto sms = static_cast<std::uint32_t>(card_.sms);
        stamp.sm = sms - 1 - b % sms;  // the last SM gets the first block
      }
      return std::optional(begun + all);
    };
  } else if (l.entry == "nothing") {
    const double slower = l.threads == 128 && dispatches_++ / 2 % 2 == 1 ? 1 + card_.unsteady : 1;
    k.begin = takes(static_cast<Ns>(slower * static_cast<double>(blocks_ns(l.blocks, per_sm, card_.empty_block))));
  } else if (l.entry == "plain_worker") {
    k.begin = takes(blocks_ns(l.blocks, per_sm, static_cast<double>(body_ns(w[0])) + card_.plain_block));
  } else if (l.entry == "persistent_worker") {
    const double workers = std::min<double>(l.blocks, per_sm * card_.sms), tasks = static_cast<double>(w[1]);
    k.begin = takes(static_cast<Ns>(card_.launch_cost + std::ceil(tasks / workers) * (static_cast<double>(body_ns(w[2])) + card_.persistent_task)));
  } else if (l.entry == "gate") {
    k.begin = [](Ns) { return std::nullopt; };
    k.poll = [open = w[0], limit = static_cast<Ns>(w[1]), begun = Ns{-1}](Ns now) mutable -> std::optional<Ns> {
      if (begun < 0) begun = now;
      if (memory<volatile std::uint32_t>(open) == 0 && now - begun < limit) return std::nullopt;
      return now;
    };
  } else if (l.entry == "echo") {
    k.begin = [](Ns) { return std::nullopt; };
    k.poll = [this, ping = w[0], pong = w[1], rounds = w[2], answered = std::uint64_t{0}](Ns now) mutable -> std::optional<Ns> {
      if (memory<volatile std::uint32_t>(ping) <= answered) return std::nullopt;
      ++answered;
      const Ns back = now + static_cast<Ns>(2 * card_.half_trip);
      at(back, [pong, back] { memory<volatile std::uint64_t>(pong) = static_cast<std::uint64_t>(back); });
      if (answered == rounds) return back;
      return std::nullopt;
    };
  } else if (l.entry == "hello") {
    k.begin = [this, to = w[0]](Ns begun) {
      at(begun + static_cast<Ns>(card_.half_trip), [to, begun] { memory<volatile std::uint64_t>(to) = static_cast<std::uint64_t>(begun); });
      return std::optional(begun + static_cast<Ns>(card_.launch_cost));
    };
  } else if (l.entry == "clock_rate") {
    k.begin = [this, w](Ns begun) {
      at(begun + 5'000'000, [this, w] {
        memory<std::uint64_t>(w[0]) = 5'000'000;
        memory<std::uint64_t>(w[1]) = static_cast<std::uint64_t>(5000 * card_.clock_mhz);
      });
      return std::optional(begun + 5'000'001);
    };
  } else if (l.entry == "watch") {
    k.begin = [this, w](Ns begun) {
      const Ns ends = begun + static_cast<Ns>(w[3]);
      // A context that computes too is given turns of 2 ms.
      const bool shared = card_.computes_at >= 0 && static_cast<double>(ends) >= card_.computes_at * kMs;
      at(ends, [w, shared, begun] {
        memory<std::uint32_t>(w[2]) = shared ? 3 : 0;
        for (std::uint64_t i = 0; shared && i < 3; ++i)
          for (std::uint64_t end : {0, 1})
            memory<std::uint64_t>(w[0] + 16 * i + 8 * end) = static_cast<std::uint64_t>(begun) + (2 * i + 1 + end) * 2'000'000;
      });
      return std::optional(ends);
    };
  } else if (l.entry == "read_timer") {
    k.begin = [this, to = w[0]](Ns begun) {
      memory_.begin();
      memory<std::uint64_t>(to) = static_cast<std::uint64_t>(begun);
      return std::optional(begun + static_cast<Ns>(card_.launch_cost));
    };
  } else if (l.entry == "fill_chain") {
    k.begin = takes(1'000'000);  // where a chain leads, nobody here asks
  } else {                       // clusters: GPCs have 16 SMs
    k.begin = [this, l, to = w[0], size = static_cast<std::uint32_t>(l.entry.back() - '0')](Ns begun) {
      const auto sms = static_cast<std::uint32_t>(card_.sms), gpcs = (sms + 15) / 16;
      for (std::uint32_t b = 0; b < l.blocks; ++b) {
        const std::uint32_t cluster = b / size, wanted = cluster % gpcs, in_wanted = std::min(16u, sms - 16 * wanted);
        const std::uint32_t gpc = in_wanted < size ? 0 : wanted, in = std::min(16u, sms - 16 * gpc);
        memory<std::uint32_t>(to + 4 * std::uint64_t{b}) = 16 * gpc + (cluster / gpcs * 3 + b % size) % in;
      }
      return std::optional(begun + 100'000);
    };
  }
  return k;
}

Gpu::Work Gpu::wait_for_flag(const Launch& l) {
  const std::uint64_t first = l.words[0], passed_on = l.words[1];
  const auto is_set = [first] { return memory<volatile std::uint32_t>(first) != 0; };
  Work k;
  k.is_kernel = true, k.delay = static_cast<Ns>(card_.launch_latency);
  k.begin = [this, l, is_set](Ns begun) {
    return is_set() ? std::optional(begun + blocks_ns(l.blocks, resident(l.threads, l.shared), 0)) : std::nullopt;
  };
  const double later = std::ceil(l.blocks / (resident(l.threads, l.shared) * card_.sms)) - 1;  // turns of blocks without a place
  k.poll = [this, is_set, passed_on, later, host = is_host(first), blocks = l.blocks](Ns now) -> std::optional<Ns> {
    if (!is_set()) return std::nullopt;
    if (passed_on != 0) memory<std::uint32_t>(passed_on) = 1;
    const double ns = passed_on != 0 ? card_.stop_relayed : host ? card_.stop_host + card_.stop_host_block * (blocks - 1) : 1000;
    return now + static_cast<Ns>(ns + later * card_.empty_block);
  };
  return k;
}

Gpu::Work Gpu::client(const Launch& l) {
  Work k;
  k.is_kernel = true, k.delay = static_cast<Ns>(card_.launch_latency);
  k.begin = [this, l](Ns) {
    memory_.add(l.entry, l.client);
    const auto leaves = static_cast<Ns>(l.client.leave);
    at(leaves, [this, i = memory_.clients().size() - 1] { count(memory_.clients()[i]); });
    return std::optional(leaves);
  };
  return k;
}

/// What one client has done, and the clock under which.
void Gpu::count(const corun::hw::WaitingMemory::Client& c) {
  const corun::hw::Work& w = c.work;
  double wanted = 0;
  for (std::uint32_t sm = 0; sm < static_cast<std::uint32_t>(card_.sms); ++sm) wanted += memory<std::uint8_t>(w.wanted + sm);
  const double us = c.us(), per_us = 1e-6 * us / (4 * corun::hw::kChunkBytes * c.chunks());  // units of a rate
  double units = 0;
  if (c.entry == "client_gather")
    units = 1e-6 * us * (wanted == 1 ? card_.sm_sectors : card_.sectors) / (32.0 * 32 * 32);
  else if (c.entry == "client_scatter")
    units = us * 1e3 / card_.dram_latency * w.warps / 16;
  else if (c.entry == "client_fp64")
    units = us * card_.fp64_units / 32 * 0.91 * card_.clock_mhz * card_.sms / 1024;
  else if (wanted == 1 && (c.entry == "client_read" || c.entry == "client_write"))
    units = per_us * (c.entry == "client_read" ? card_.sm_read : card_.sm_write);
  else if (c.entry != "client_fma" && c.entry != "client_mma")
    units = static_cast<double>(memory_.units(c));
  memory<std::uint64_t>(w.units) = static_cast<std::uint64_t>(units);
  memory<std::uint32_t>(w.claimed + 4 * corun::hw::kMostSmsOfClients) = 1;
  const double mhz = c.entry == "client_mma" ? card_.tensor_mhz : card_.clock_mhz;
  corun::hw::WarpLog& log = memory<corun::hw::WarpLog>(w.logs);
  log.first = w.begin, log.last = w.end;
  log.first_cycle = 0, log.last_cycle = static_cast<std::int64_t>(mhz * us);
}

}  // namespace corun::fake
