#include "policies/session/cores.h"

#include <algorithm>

#include "traces/model/expects.h"

namespace corun {

Cores::Cores(const Trace& trace) : slice_(trace.run.cpu_slice) {
  for (const Client& client : trace.clients) {
    threads_.push_back({client.cpus});
    if (!client.cpus) continue;
    CORUN_EXPECTS(client.cpus->any() && slice_ > Time{});
    for (std::uint32_t core = 0; core < kMaxCpus; ++core)
      if (client.cpus->test(core)) cores_.resize(std::max<std::size_t>(cores_.size(), core + 1));
  }
}

void Cores::work(ClientId client, Time now, Time amount) {
  advance(now);
  Thread& thread = threads_[client.value];
  thread.left += amount;
  if (!thread.sleeps) return;
  thread.sleeps = false;
  for (std::uint32_t core = 0; core < cores_.size(); ++core)
    if (!cores_[core].thread && thread.cpus->test(core) && first_in_line(core) == line_.cend()) return give(core, client.value);
  line_.push_back(client.value);
}

void Cores::sleep(ClientId client) {
  Thread& thread = threads_[client.value];
  CORUN_EXPECTS(thread.core);
  cores_[*thread.core].thread.reset();
  thread.core.reset();
  thread.sleeps = true;
}

void Cores::advance(Time now) {
  for (Core& core : cores_) {
    if (!core.thread) continue;
    Thread& thread = threads_[*core.thread];
    thread.left -= std::min(thread.left, now - now_);
    if (core.slice_ends < now) core.slice_ends += slice_ * ((now - core.slice_ends + slice_ - Time{1}) / slice_);  // nobody waited
  }
  now_ = now;
}

std::deque<std::uint32_t>::const_iterator Cores::first_in_line(std::uint32_t core) const {
  return std::ranges::find_if(line_, [&](std::uint32_t thread) { return threads_[thread].cpus->test(core); });
}

void Cores::give(std::uint32_t core, std::uint32_t thread) {
  cores_[core] = {thread, now_ + slice_};
  threads_[thread].core = core;
}

bool Cores::turn() {
  bool gave = false;
  const auto next_of = [&](std::uint32_t core) -> std::optional<std::uint32_t> {
    const auto first = first_in_line(core);
    if (first == line_.cend()) return std::nullopt;
    const std::uint32_t thread = *first;
    line_.erase(first);
    gave = true;
    return thread;
  };
  for (std::uint32_t core = 0; core < cores_.size() && !line_.empty(); ++core)
    if (!cores_[core].thread)
      if (const auto thread = next_of(core)) give(core, *thread);
  for (std::uint32_t core = 0; core < cores_.size(); ++core) {
    if (!cores_[core].thread || cores_[core].slice_ends > now_) continue;
    const std::uint32_t before = *cores_[core].thread;
    const auto thread = next_of(core);
    if (!thread) continue;
    threads_[before].core.reset();
    line_.push_back(before);
    give(core, *thread);
  }
  return gave;
}

Time Cores::next() const {
  Time at = kNever;
  for (std::uint32_t core = 0; core < cores_.size(); ++core) {
    if (!cores_[core].thread) continue;
    if (const Time left = threads_[*cores_[core].thread].left; left > Time{}) at = std::min(at, now_ + left);
    if (first_in_line(core) != line_.cend()) at = std::min(at, cores_[core].slice_ends);
  }
  return at;
}

}  // namespace corun
