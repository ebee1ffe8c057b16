#include "tests/support/collect.h"

#include <fmt/format.h>

#include <stdexcept>
#include <tuple>

namespace corun::sim {

std::vector<KernelRecord> Collector::of(ClientId client) const {
  std::vector<KernelRecord> mine;
  for (const KernelRecord& k : kernels)
    if (k.client == client) mine.push_back(k);
  std::sort(mine.begin(), mine.end(), [](const KernelRecord& a, const KernelRecord& b) {
    return std::tuple(a.request, a.op) < std::tuple(b.request, b.op);
  });
  return mine;
}

const KernelRecord& Collector::only(ClientId client) const {
  const auto of_client = [&](const KernelRecord& k) { return k.client == client; };
  if (std::count_if(kernels.begin(), kernels.end(), of_client) != 1)
    throw std::logic_error("the client has not exactly one launch");
  return *std::find_if(kernels.begin(), kernels.end(), of_client);
}

std::vector<BlockRecord> Collector::blocks_of(LaunchId launch) const {
  std::vector<BlockRecord> mine;
  for (const BlockRecord& b : blocks)
    if (b.launch == launch) mine.push_back(b);
  std::sort(mine.begin(), mine.end(), [](const BlockRecord& a, const BlockRecord& b) {
    return std::tuple(a.start, a.block) < std::tuple(b.start, b.block);
  });
  return mine;
}

std::vector<std::string> lines(std::vector<KernelRecord> kernels) {
  std::sort(kernels.begin(), kernels.end(),
            [](const KernelRecord& a, const KernelRecord& b) { return a.launch.serial < b.launch.serial; });
  std::vector<std::string> text;
  for (const KernelRecord& k : kernels)
    text.push_back(fmt::format(
        "launch {} slot {} client {} stream {} op {} kernel {} request {} priority {} ctas {}: ready {} "
        "submitted {} queued {} slotted {} started {} last {} finished {} blocks {} evictions {} "
        "preemptions {} redone {}",
        k.launch.serial, k.launch.slot, k.client.value, k.stream.value, k.op.value, k.kernel.value, k.request,
        k.priority, k.ctas, k.ready.count(), k.submitted.count(), k.queued.count(), k.slotted.count(),
        k.started.count(), k.last_block.count(), k.finished.count(), k.blocks, k.evictions, k.preemptions,
        k.redone_blocks));
  return text;
}

std::vector<std::string> lines(std::vector<RequestRecord> requests) {
  std::sort(requests.begin(), requests.end(), [](const RequestRecord& a, const RequestRecord& b) {
    return std::tuple(a.client, a.request) < std::tuple(b.client, b.request);
  });
  std::vector<std::string> text;
  for (const RequestRecord& r : requests)
    text.push_back(fmt::format("client {} request {}: arrival {} started {} finished {} dropped {} work {}",
                               r.client.value, r.request, r.arrival.count(), r.started.count(),
                               r.finished.count(), r.dropped, r.work_done.count()));
  return text;
}

std::vector<std::uint32_t> sms_of(const std::vector<BlockRecord>& blocks) {
  std::vector<std::uint32_t> sms;
  for (const BlockRecord& b : blocks) sms.push_back(b.sm.value);
  return sms;
}

std::size_t most_at_once(const std::vector<KernelRecord>& kernels) {
  std::vector<std::pair<Time, int>> edges;  // an end sorts before a start of the same instant
  for (const KernelRecord& k : kernels) {
    edges.push_back({k.started, +1});
    edges.push_back({k.finished, -1});
  }
  std::sort(edges.begin(), edges.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : edges) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

}  // namespace corun::sim
