#include "traces/import/join_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "traces/import/kernel_name.h"
#include "traces/import/median.h"
#include "traces/import/same_launches.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

constexpr std::size_t kNamesTold = 3;

struct Launched {
  std::size_t op;
  KernelId kernel;
  Time time;
};

std::vector<Launched> launches_of(const Trace& trace, const Program& program) {
  std::vector<Launched> all;
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (const auto* launch = std::get_if<Launch>(&program.ops[i].what))
      all.push_back({i, launch->kernel, launch->solo_time.value_or(trace.kernels[launch->kernel.value].solo_time.value_or(Time{}))});
  return all;
}

/// What a request does otherwise on the part: with which kernels, and how long it takes.
struct OtherWork {
  std::set<std::uint32_t> here, there;
  Time time_here, time_there;
};

/// A number for each function, grid and block, the same in both recordings.
class Functions {
 public:
  std::vector<std::uint32_t> numbers(const Trace& trace, const std::vector<Launched>& launches) {
    std::vector<std::uint32_t> all;
    for (const Launched& l : launches) {
      const Kernel& k = trace.kernels[l.kernel.value];
      const Key key{without_number(k.name), k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z};
      all.push_back(known_.try_emplace(key, static_cast<std::uint32_t>(known_.size())).first->second);
    }
    return all;
  }

 private:
  using Key = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, std::uint32_t> known_;
};

/// A process's name without its number: "python" of "python-4711".
std::string stem(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash + 1 == name.size()) return name;
  return name.find_first_not_of("0123456789", dash + 1) == std::string::npos ? name.substr(0, dash) : name;
}

/// Of processes of one name the n-th is the n-th; a program is the only one's.
const Program* counterpart(const Trace& part, const std::vector<Program>& programs, std::size_t index) {
  if (programs.size() == 1 && part.programs.size() == 1) return &part.programs.front();
  std::size_t before = 0;
  for (std::size_t i = 0; i < index; ++i) before += stem(programs[i].name) == stem(programs[index].name);
  for (const Program& p : part.programs)
    if (stem(p.name) == stem(programs[index].name) && before-- == 0) return &p;
  return nullptr;
}

/// Kernels of a part that go into the whole, under names that are not taken.
class NewKernels {
 public:
  NewKernels(Trace& whole, const Trace& part) : whole_(whole), part_(part) {
    for (const Kernel& k : whole.kernels) names_.insert(k.name);
  }
  KernelId of(KernelId in_part) {
    const auto [at, is_new] = taken_.try_emplace(in_part.value, KernelId{static_cast<std::uint32_t>(whole_.kernels.size())});
    if (!is_new) return at->second;
    Kernel kernel = part_.kernels[in_part.value];
    const std::string name = without_number(kernel.name);
    kernel.name = name;
    for (int n = 2; !names_.insert(kernel.name).second; ++n) kernel.name = fmt::format("{} #{}", name, n);
    whole_.kernels.push_back(std::move(kernel));
    return at->second;
  }

 private:
  Trace& whole_;
  const Trace& part_;
  std::map<std::uint32_t, KernelId> taken_;
  std::set<std::string> names_;
};

/// "gemm (3), softmax (1), and 2 more"
std::string list_counted(const std::map<std::string, std::size_t>& counted) {
  std::string text;
  std::size_t told = 0;
  for (const auto& [name, count] : counted) {
    if (told == kNamesTold) break;
    text += fmt::format("{}{} ({})", told++ == 0 ? "" : ", ", printable(name), count);
  }
  if (counted.size() > told) text += fmt::format(", and {} more", counted.size() - told);
  return text;
}

std::string first_launch(const Trace& trace) {
  if (trace.kernels.empty()) return "no kernel";
  const Kernel& k = trace.kernels.front();
  return fmt::format("{} <<<({}, {}, {}), ({}, {}, {})>>>", in_quotes(k.name), k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z);
}

}  // namespace

std::uint32_t recorded_sms(const Trace& trace) { return trace.kernels.empty() ? 0 : trace.kernels.front().solo_time_sms; }

PartRecording part_recording(const std::string& text, const std::string& place) {
  PartRecording part{text, 0};
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || text[digits] != '=') return part;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, part.sms);
  if (error != std::errc{} || part.sms == 0 || part.sms > 65535)
    throw InputError("", place, fmt::format("{} is no number of SMs from 1 to 65535", text.substr(0, digits)), "write as 33=quarter.json.gz");
  part.file = text.substr(digits + 1);
  if (part.file.empty()) throw InputError("", place, "no file is given", "write as 33=quarter.json.gz");
  return part;
}

JoinedPart join_part(Trace& whole, std::uint32_t whole_sms, Trace part, std::uint32_t part_sms) {
  std::map<std::uint32_t, std::vector<double>> longer;  // by kernel
  std::map<std::string, std::size_t> other;             // launches without a counterpart, by function
  std::set<std::string> names;
  JoinedPart joined;
  std::vector<OtherWork> other_work;
  std::size_t others_there = 0, kept = 0;
  NewKernels new_kernels(whole, part);
  std::vector<Program> programs;
  std::set<ProgramId> on_parts;  // joined before
  for (const Program& p : whole.programs)
    for (const auto& [sms, id] : p.on_sms) on_parts.insert(id);
  for (std::uint32_t i = 0; i < whole.programs.size(); ++i)
    if (!on_parts.contains(ProgramId{i})) programs.push_back(whole.programs[i]);
  for (std::uint32_t i = 0, at = 0; i < programs.size(); ++at) {
    if (on_parts.contains(ProgramId{at})) continue;
    const Program* there = counterpart(part, programs, i++);
    Functions functions;
    const std::vector<Launched> here = launches_of(whole, whole.programs[at]);
    const std::vector<Launched> confined = there == nullptr ? std::vector<Launched>{} : launches_of(part, *there);
    const auto pairs = same_launches(functions.numbers(whole, here), functions.numbers(part, confined));
    joined.launches += here.size(), joined.same += pairs.size(), others_there += confined.size() - pairs.size();
    std::vector<std::optional<std::uint32_t>> of_part(confined.size());
    std::vector<bool> matched(here.size());
    for (const auto& [n, m] : pairs) {
      of_part[m] = n, matched[n] = true;
      if (here[n].time > Time{} && confined[m].time > Time{})
        longer[here[n].kernel.value].push_back(static_cast<double>(confined[m].time.count()) / static_cast<double>(here[n].time.count()));
    }
    for (std::size_t n = 0; n < here.size(); ++n) {
      const std::string name = without_number(whole.kernels[here[n].kernel.value].name);
      names.insert(name);
      if (!matched[n]) ++other[name];
    }
    joined.related = joined.related || std::ranges::any_of(confined, [&](const Launched& l) {
                       return names.contains(without_number(part.kernels[l.kernel.value].name));
                     });
    if (confined.empty() || (pairs.size() == here.size() && pairs.size() == confined.size())) continue;
    ++kept;
    OtherWork others{{}, {}, Time{}, Time{}};
    for (std::size_t n = 0; n < here.size(); ++n)
      if (!matched[n]) others.here.insert(here[n].kernel.value), others.time_here += here[n].time;
    Program program = *there;
    program.name = fmt::format("{} on {} SMs", whole.programs[at].name, part_sms);
    for (std::size_t m = 0; m < confined.size(); ++m) {
      auto& launch = std::get<Launch>(program.ops[confined[m].op].what);
      if (of_part[m]) {
        const auto& same = std::get<Launch>(whole.programs[at].ops[here[*of_part[m]].op].what);
        launch.kernel = same.kernel, launch.solo_time = same.solo_time;
      } else {
        launch.kernel = new_kernels.of(launch.kernel);
        others.there.insert(launch.kernel.value), others.time_there += confined[m].time;
      }
    }
    if (!pairs.empty()) other_work.push_back(std::move(others));
    whole.programs[at].on_sms[part_sms] = ProgramId{static_cast<std::uint32_t>(whole.programs.size())};
    on_parts.insert(ProgramId{static_cast<std::uint32_t>(whole.programs.size())});
    whole.programs.push_back(std::move(program));
  }
  const auto times_more = [&](std::uint32_t kernel, std::uint32_t known, std::uint32_t other_sms, double times) {
    Kernel& k = whole.kernels[kernel];
    if (!k.solo_time) return;
    k.solo_time_by_sms[known] = *k.solo_time;
    const double other_time = static_cast<double>(k.solo_time->count()) * times;
    k.solo_time_by_sms[other_sms] = std::max(Time{1}, Time{static_cast<std::int64_t>(other_time)});
  };
  for (const auto& [kernel, ratios] : longer) times_more(kernel, whole_sms, part_sms, lower_median(ratios));
  Time others_here{}, others_longer{};
  for (const OtherWork& work : other_work) {
    others_here += work.time_here, others_longer += work.time_there;
    if (work.time_here <= Time{} || work.time_there <= Time{}) continue;
    const double ratio = static_cast<double>(work.time_there.count()) / static_cast<double>(work.time_here.count());
    for (const std::uint32_t kernel : work.here)
      if (!longer.contains(kernel)) times_more(kernel, whole_sms, part_sms, ratio);
    for (const std::uint32_t kernel : work.there) times_more(kernel, part_sms, whole_sms, 1 / ratio);
  }
  joined.in_words = fmt::format("On {} of {} SMs {} of {} launches are the same, and tell their kernels' times there.", part_sms, whole_sms,
                                joined.same, joined.launches);
  if (!other.empty() || others_there != 0)
    joined.in_words += fmt::format(" {} there {}{}{}{}", others_there, others_there == 1 ? "is another" : "are others",
                                   other.empty() ? "" : ", in the place of ", list_counted(other),
                                   kept == 0 ? "." : ": both requests are kept");
  if (kept != 0 && others_here > Time{} && others_longer > Time{})
    joined.in_words += fmt::format(", and these take {:.2f} times as long", static_cast<double>(others_longer.count()) / static_cast<double>(others_here.count()));
  if (kept != 0) joined.in_words += ".";
  return joined;
}

std::string join_recording(Trace& whole, const PartRecording& part, const std::string& place,
                           const std::function<Trace(const std::string& gpu, std::uint32_t sms)>& read) {
  const std::string file = part.run_again ? "" : part.file.string();
  if (whole.gpu.empty()) throw InputError(file, place, "the GPU is not known, so neither is its part", "name it with --gpu; sim gpus lists them");
  if (recorded_sms(whole) != 0)
    throw InputError(file, place, fmt::format("is to be joined to a recording that has {} SMs, a part of the GPU, itself", recorded_sms(whole)),
                     "give the recording of the whole GPU first, and this one for its part");
  const std::uint32_t all = read_gpu(whole.gpu).sms;
  if (part.sms >= all && part.sms != 0)
    throw InputError(file, place, fmt::format("{} SMs are no part of the {} that {} has", part.sms, all, whole.gpu),
                     "give the SMs that the program had");
  Trace there = read(whole.gpu, part.sms);
  const std::uint32_t sms = recorded_sms(there);
  if (sms == 0 && part.run_again)
    throw InputError("", place, "the program saw as many SMs as without a percentage",
                     "take a smaller percentage; the MPS server must be this user's");
  if (sms == 0 || sms >= all)
    throw InputError(file, place, "does not say on how many SMs it was recorded, fewer than the whole GPU's",
                     fmt::format("record under an MPS percentage, or write the number before the file: 33={}", file));
  const std::string first_here = first_launch(whole), first_there = first_launch(there);
  JoinedPart joined = join_part(whole, all, std::move(there), sms);
  if (!joined.related && !part.run_again)
    throw InputError(file, place,
                     fmt::format("expected the same program as on the whole GPU, and no function is launched in both: first here {}, first there {}",
                                 first_there, first_here),
                     "record the same program, with the same inputs, on the part of the GPU");
  return joined.in_words;
}

}  // namespace corun
