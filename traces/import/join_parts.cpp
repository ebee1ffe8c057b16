#include "traces/import/join_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "traces/import/kernel_name.h"
#include "traces/import/median.h"
#include "traces/json/spelling.h"

namespace corun {
namespace {

constexpr std::size_t kNamesTold = 3;

struct Timed {
  std::uint32_t kernel;
  Time time;
};
using Function = std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t>;  // name, grid, block's x and size

std::map<Function, std::vector<Timed>> launches_of(const Trace& trace, const Program& program) {
  std::map<Function, std::vector<Timed>> found;
  for (const Op& op : program.ops) {
    const auto* launch = std::get_if<Launch>(&op.what);
    if (launch == nullptr) continue;
    const Kernel& k = trace.kernels[launch->kernel.value];
    const Time time = launch->solo_time.value_or(k.solo_time.value_or(Time{}));
    if (time <= Time{}) continue;
    const Function function{without_number(k.name), k.grid.count(), k.block.x, k.block.count()};
    found[function].push_back({launch->kernel.value, time});
  }
  return found;
}

const Program* counterpart(const Trace& part, const Program& program, std::size_t index) {
  for (const Program& p : part.programs)
    if (p.name == program.name) return &p;
  return index < part.programs.size() ? &part.programs[index] : nullptr;
}

}  // namespace

std::uint32_t recorded_sms(const Trace& trace) { return trace.kernels.empty() ? 0 : trace.kernels.front().solo_time_sms; }

std::string join_part(Trace& whole, std::uint32_t whole_sms, const Trace& part, std::uint32_t part_sms) {
  std::map<std::uint32_t, std::vector<double>> longer;  // by kernel
  std::map<std::string, std::size_t> other;             // launches without a counterpart, by function
  std::size_t launches = 0, same = 0;
  for (std::size_t i = 0; i < whole.programs.size(); ++i) {
    const Program* there = counterpart(part, whole.programs[i], i);
    const auto here = launches_of(whole, whole.programs[i]);
    const auto confined = there != nullptr ? launches_of(part, *there) : decltype(here){};
    for (const auto& [function, timed] : here) {
      const auto found = confined.find(function);
      const std::size_t matched = found == confined.end() ? 0 : std::min(timed.size(), found->second.size());
      for (std::size_t n = 0; n < matched; ++n)
        longer[timed[n].kernel].push_back(static_cast<double>(found->second[n].time.count()) /
                                          static_cast<double>(timed[n].time.count()));
      launches += timed.size(), same += matched;
      if (matched < timed.size()) other[std::get<0>(function)] += timed.size() - matched;
    }
  }
  for (const auto& [kernel, ratios] : longer) {
    Kernel& k = whole.kernels[kernel];
    if (!k.solo_time) continue;
    k.solo_time_by_sms[whole_sms] = *k.solo_time;
    const double there = static_cast<double>(k.solo_time->count()) * lower_median(ratios);
    k.solo_time_by_sms[part_sms] = Time{static_cast<std::int64_t>(there)};
  }
  std::string text = fmt::format("On {} of {} SMs {} of {} launches are of the same kernels: these have their times there.",
                                 part_sms, whole_sms, same, launches);
  std::size_t told = 0;
  for (const auto& [name, count] : other) {
    if (told == kNamesTold) break;
    text += fmt::format("{}{} ({})", told++ == 0 ? " Others there: " : ", ", printable(name), count);
  }
  if (other.size() > told) text += fmt::format(", and {} more", other.size() - told);
  return text;
}

}  // namespace corun
