#include <fmt/format.h>

#include "traces/json/trace_file.h"

namespace corun::reading {

HostStalls read_host_stalls(const TraceFile& file, const json& from, const std::string& place) {
  HostStalls record;
  record.observed = time(from["observed_ns"]);
  const json& stalls = from["stalls"];
  Time over{}, all{};
  for (std::size_t i = 0; i < stalls.size(); ++i) {
    const HostStalls::Stall stall{time(stalls[i][0]), time(stalls[i][1])};
    const auto at = [&] { return fmt::format("{}/stalls/{}", place, i); };
    if (stall.at < over)
      fail(file, at(), fmt::format("it begins at {} ns, before the one before it ends, at {}", to_ns(stall.at), to_ns(over)),
           "sort the stalls, and make one of those that overlap");
    over = stall.at + stall.lasting;
    all += stall.lasting;
    if (over > record.observed)
      fail(file, at(), fmt::format("it ends at {} ns, and the host was watched for {}", to_ns(over), to_ns(record.observed)),
           "cut it there, or give a longer observed_ns");
    record.stalls.push_back(stall);
  }
  if (all == record.observed)
    fail(file, place + "/stalls", "the host stands still all the time that it was watched, so no run would end", "give a longer observed_ns");
  return record;
}

}  // namespace corun::reading
