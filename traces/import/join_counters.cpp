#include "traces/import/join_counters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "traces/import/kernel_name.h"
#include "traces/import/median.h"

namespace corun {
namespace {

using How = CountersJoin::How;
using Dims = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

constexpr double kApart = 1.1;
/// By which times of one kernel scatter.
constexpr double kJitterNs = 300;
/// A name or number of registers that differs is as bad as a duration that differs by e.
constexpr double kDiffers = 1;
/// A launch whose time in the profile is off from the one expected by more than this factor, and by more than
/// this many ns, is another than the one recorded.
constexpr double kClearly = 1.5;
constexpr double kClearlyNs = 2000;
/// One within the first factor of what is expected may be the one recorded; one that is off by the second, and
/// by more than this many ns, may not.
constexpr double kAgrees = 1.25;
constexpr double kFarOff = 2.5;
constexpr double kFarOffNs = 5000;
constexpr std::uint32_t kNobody = ~std::uint32_t{0};

Dims dims(Dim3 d) { return {d.x, d.y, d.z}; }
std::uint64_t volume(Dims d) { return Dim3{std::get<0>(d), std::get<1>(d), std::get<2>(d)}.count(); }

/// A function launched with a grid and a block.
struct Key {
  std::string function;
  Dims grid, block;
  auto operator<=>(const Key&) const = default;
};

/// Launches of one process on one device.
class Join {
 public:
  Join(std::span<const RecordedLaunch> recorded, std::vector<const ProfiledLaunch*> profiled)
      : recorded_(recorded), profiled_(std::move(profiled)) {}

  CountersJoin run() {
    join_.matches.resize(recorded_.size());
    number_keys();
    if (!match_whole_sequence()) {
      match_in_order();
      find_ratio();
      match_nearest();
    }
    check_durations();
    find_ratio();
    std::set<const ProfiledLaunch*> used;
    for (const CountersJoin::Match& m : join_.matches)
      if (m.launch != nullptr) used.insert(m.launch);
    join_.unused = profiled_.size() - used.size();
    return std::move(join_);
  }

 private:
  void number_keys() {
    std::map<Key, std::uint32_t> numbers;
    std::unordered_map<std::string, std::string> functions;
    const auto function = [&](const std::string& name) -> const std::string& {
      const auto [at, added] = functions.try_emplace(name);
      if (added) at->second = function_name(name);
      return at->second;
    };
    std::unordered_map<std::string, std::uint32_t> names;
    const auto number = [&](std::string name) {
      std::erase(name, ' ');
      return names.try_emplace(std::move(name), names.size()).first->second;
    };
    for (const RecordedLaunch& r : recorded_) names_.push_back(number(r.name));
    for (const ProfiledLaunch* p : profiled_) profile_names_.push_back(number(p->kernel));
    for (const RecordedLaunch& r : recorded_) {
      Key key{function(r.name), dims(r.grid), dims(r.block)};
      keys_.push_back(numbers.try_emplace(std::move(key), numbers.size()).first->second);
    }
    std::map<Key, std::uint32_t> of_profile;
    for (const ProfiledLaunch* p : profiled_) {
      const Key key{function(p->kernel), dims(p->grid), dims(p->block)};
      const auto [known, added] = of_profile.try_emplace(key, kNobody);
      if (added) known->second = recorded_key(numbers, key, p->dimensions_known);
      profile_keys_.push_back(known->second);
    }
    of_key_.resize(numbers.size());
    in_profile_.resize(numbers.size());
    for (std::uint32_t i = 0; i < keys_.size(); ++i) of_key_[keys_[i]].push_back(i);
    for (std::uint32_t i = 0; i < profile_keys_.size(); ++i)
      if (profile_keys_[i] != kNobody) in_profile_[profile_keys_[i]].push_back(i);
  }

  /// The same, or the only one that it may be.
  static std::uint32_t recorded_key(const std::map<Key, std::uint32_t>& numbers, const Key& wanted,
                                    bool dimensions_known) {
    if (dimensions_known)
      if (const auto same = numbers.find(wanted); same != numbers.end()) return same->second;
    const auto fits = [&](const Key& key) {
      if (!may_be_one_function(key.function, wanted.function)) return false;
      if (dimensions_known) return key.grid == wanted.grid && key.block == wanted.block;
      return volume(key.grid) == volume(wanted.grid) && volume(key.block) == volume(wanted.block);
    };
    std::uint32_t found = kNobody;
    bool same_function = false;
    for (const auto& [key, number] : numbers) {
      const bool same = key.function == wanted.function;
      if (!fits(key) || (same_function && !same)) continue;
      if (found != kNobody && same == same_function) return kNobody;
      found = number;
      same_function = same;
    }
    return found;
  }

  void match(std::uint32_t recorded, std::uint32_t profiled, How how) {
    join_.matches[recorded] = {how, profiled_[profiled]};
  }

  static double nanoseconds(const RecordedLaunch& r) { return std::max(1e-3, to_ns(r.duration)); }

  /// In name and registers.
  double unlikeness(std::size_t recorded, std::size_t profiled) const {
    const RecordedLaunch& r = recorded_[recorded];
    const ProfiledLaunch& p = *profiled_[profiled];
    double sum = names_[recorded] != profile_names_[profiled] ? kDiffers : 0;
    if (r.registers_per_thread && p.registers_per_thread && r.registers_per_thread != p.registers_per_thread)
      sum += kDiffers;
    return sum;
  }

  /// How unlike they are.
  double distance(std::size_t recorded, std::size_t profiled) const {
    const RecordedLaunch& r = recorded_[recorded];
    const ProfiledLaunch& p = *profiled_[profiled];
    double sum = unlikeness(recorded, profiled);
    if (p.counters.duration_ns.value_or(0) > 0)
      sum += std::abs(std::log(*p.counters.duration_ns / nanoseconds(r) / join_.duration_ratio.value_or(1)));
    return sum;
  }

  /// Of several places where it is, the one with the most alike durations: a profile of several requests.
  bool match_whole_sequence() {
    if (keys_.empty() || profile_keys_.size() < keys_.size()) return false;
    double least = 0;
    std::size_t found = profile_keys_.size();
    for (std::size_t at = 0; at + keys_.size() <= profile_keys_.size(); ++at) {
      if (!std::equal(keys_.begin(), keys_.end(), profile_keys_.begin() + static_cast<std::ptrdiff_t>(at)))
        continue;
      double sum = 0;
      for (std::size_t i = 0; i < keys_.size(); ++i) sum += distance(i, at + i);
      if (found < profile_keys_.size() && sum >= least) continue;
      least = sum;
      found = at;
    }
    if (found == profile_keys_.size()) return false;
    for (std::uint32_t i = 0; i < keys_.size(); ++i)
      match(i, static_cast<std::uint32_t>(found) + i, How::order);
    return true;
  }

  void match_in_order() {
    for (std::size_t key = 0; key < of_key_.size(); ++key)
      if (of_key_[key].size() == in_profile_[key].size())
        for (std::size_t n = 0; n < of_key_[key].size(); ++n)
          match(of_key_[key][n], in_profile_[key][n], How::shape);
  }

  void find_ratio() {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < recorded_.size(); ++i)
      if (const ProfiledLaunch* p = join_.matches[i].launch;
          p != nullptr && p->counters.duration_ns.value_or(0) > 0)
        ratios.push_back(*p->counters.duration_ns / nanoseconds(recorded_[i]));
    if (ratios.empty()) return;
    join_.duration_ratio = lower_median(std::move(ratios));
  }

  void match_nearest() {
    for (std::size_t key = 0; key < of_key_.size(); ++key) {
      const auto& candidates = in_profile_[key];
      if (candidates.empty() || join_.matches[of_key_[key].front()].launch != nullptr) continue;
      const bool timed = std::all_of(candidates.begin(), candidates.end(), [&](std::uint32_t p) {
        return profiled_[p]->counters.duration_ns.value_or(0) > 0;
      });
      for (std::size_t n = 0; n < of_key_[key].size(); ++n) {
        const std::uint32_t r = of_key_[key][n];
        if (!timed || candidates.size() == 1) {  // a part of what repeats
          match(r, candidates[n % candidates.size()], How::shape);
          continue;
        }
        match(r, nearest(r, candidates), How::nearest);
      }
    }
  }

  std::uint32_t nearest(std::uint32_t r, const std::vector<std::uint32_t>& candidates) const {
    return *std::min_element(candidates.begin(), candidates.end(), [&](std::uint32_t a, std::uint32_t b) {
      return distance(r, a) < distance(r, b);
    });
  }

  double profiled_ns(std::uint32_t p) const { return profiled_[p]->counters.duration_ns.value_or(0); }

  /// Durations of launches of one key, sorted: groups of like ones.
  struct Group {
    double middle = 0;  // ns
    std::size_t launches = 0;
  };
  static std::vector<Group> groups(std::vector<double> times) {
    std::ranges::sort(times);
    std::vector<Group> found;
    for (std::size_t begin = 0, i = 1; i <= times.size(); ++i) {
      if (i < times.size() && (times[i] <= kAgrees * times[i - 1] || times[i] <= times[i - 1] + kJitterNs))
        continue;
      found.push_back({times[(begin + i - 1) / 2], i - begin});
      begin = i;
    }
    return found;
  }

  /// Launches of one key and name, with as many registers, and what in the profile may be them.
  struct Alike {
    std::vector<std::uint32_t> recorded, profiled;
  };
  std::vector<Alike> alike_launches(std::size_t key) const {
    std::map<std::pair<std::uint32_t, std::optional<std::uint32_t>>, Alike> found;
    for (const std::uint32_t r : of_key_[key])
      found[{names_[r], recorded_[r].registers_per_thread}].recorded.push_back(r);
    std::vector<Alike> all;
    for (auto& [who, alike] : found) {
      double least = std::numeric_limits<double>::max();
      for (const std::uint32_t p : in_profile_[key]) {
        const double unlike = unlikeness(alike.recorded.front(), p);
        if (unlike < least) alike.profiled.clear();
        if (unlike <= least) alike.profiled.push_back(p);
        least = std::min(least, unlike);
      }
      all.push_back(std::move(alike));
    }
    return all;
  }

  struct Times {
    std::vector<Group> recorded, profiled;
  };
  /// Of launches that ran by themselves in the recording, and of those that the profile has the times of.
  Times times_of(const Alike& alike) const {
    std::vector<double> recorded, profiled;
    for (const std::uint32_t r : alike.recorded)
      if (!recorded_[r].beside) recorded.push_back(nanoseconds(recorded_[r]));
    for (const std::uint32_t p : alike.profiled)
      if (profiled_ns(p) > 0) profiled.push_back(profiled_ns(p));
    return {groups(std::move(recorded)), groups(std::move(profiled))};
  }

  /// Times in the profile over recorded ones, of the kernels that always take as long; 1: there are none.
  double ratio_of_steady() const {
    std::vector<double> ratios;
    for (std::size_t key = 0; key < of_key_.size(); ++key)
      for (const Alike& alike : alike_launches(key))
        if (const Times t = times_of(alike); t.recorded.size() == 1 && t.profiled.size() == 1)
          ratios.insert(ratios.end(), t.recorded.front().launches,
                        t.profiled.front().middle / t.recorded.front().middle);
    return ratios.empty() ? 1 : lower_median(std::move(ratios));
  }

  /// By which factor the profile's time differs from the one expected, as a logarithm.
  double off(std::uint32_t r, double seen_ns, double ratio) const {
    return std::abs(std::log(seen_ns / ratio / nanoseconds(recorded_[r])));
  }

  /// Whether what the launch has been given may be it.
  bool fits(std::uint32_t r, double ratio) const {
    const ProfiledLaunch* seen = join_.matches[r].launch;
    const double ns = seen == nullptr ? 0 : seen->counters.duration_ns.value_or(0);
    return recorded_[r].beside || ns <= 0 || off(r, ns, ratio) <= std::log(kClearly) ||
           std::abs(ns / ratio - nanoseconds(recorded_[r])) <= kClearlyNs;
  }

  /// The ratio under which the most launches have one in the profile that took as long; of several, that
  /// under which the most have been given it; of these the usual one.
  double ratio_of(const Alike& alike, const Times& t, double usual) const {
    double best = usual, far = 0;
    std::pair<std::size_t, std::size_t> most{};
    for (const Group& r : t.recorded)
      for (const Group& p : t.profiled) {
        const double ratio = p.middle / r.middle, unusual = std::abs(std::log(ratio / usual));
        std::size_t agree = 0;
        for (const Group& other : t.recorded)
          if (std::ranges::any_of(t.profiled, [&](const Group& seen) {
                return std::abs(std::log(seen.middle / other.middle / ratio)) < std::log(kAgrees);
              }))
            agree += other.launches;
        const auto fit =
            std::ranges::count_if(alike.recorded, [&](std::uint32_t launch) { return fits(launch, ratio); });
        const std::pair found{agree, static_cast<std::size_t>(fit)};
        if (found < most || (found == most && unusual >= far)) continue;
        best = ratio, most = found, far = unusual;
      }
    return best;
  }

  /// The order of two runs need not be the same.  Clocks and cold caches stretch all launches of a kernel
  /// about alike: one that does not fit to the others goes to one that does, and to none if none can be it.
  void check_durations() {
    const double usual = ratio_of_steady();
    for (std::size_t key = 0; key < of_key_.size(); ++key)
      for (const Alike& alike : alike_launches(key))
        if (const Times t = times_of(alike);
            !t.recorded.empty() && !t.profiled.empty() && t.recorded.size() + t.profiled.size() > 2)
          check_durations(alike, ratio_of(alike, t, usual));
  }

  void check_durations(const Alike& alike, double ratio) {
    std::vector<std::uint32_t> wrong;
    std::set<const ProfiledLaunch*> taken;
    for (const std::uint32_t r : alike.recorded)
      if (fits(r, ratio))
        taken.insert(join_.matches[r].launch);
      else
        wrong.push_back(r);
    for (const std::uint32_t r : wrong) {
      const std::uint32_t found = most_likely(alike.profiled, taken, [&](std::uint32_t p) {
        return profiled_ns(p) > 0 ? off(r, profiled_ns(p), ratio) : std::numeric_limits<double>::max();
      });
      const double left = off(r, profiled_ns(found), ratio);
      const double before = off(r, *join_.matches[r].launch->counters.duration_ns, ratio);
      const double apart = std::abs(profiled_ns(found) / ratio - nanoseconds(recorded_[r]));
      if (std::min(left, before) > std::log(kFarOff) && apart > kFarOffNs) {
        join_.matches[r] = {};
        ++join_.left_out;
      } else if (left + std::log(kAgrees) < before) {
        match(r, found, How::nearest);
        taken.insert(profiled_[found]);
        ++join_.moved;
      }
    }
  }

  /// Of those that agree the first that nobody has, else the nearest.
  template <class Off>
  std::uint32_t most_likely(const std::vector<std::uint32_t>& candidates,
                            const std::set<const ProfiledLaunch*>& taken, const Off& off) const {
    for (const std::uint32_t p : candidates)
      if (off(p) <= std::log(kAgrees) && !taken.contains(profiled_[p])) return p;
    return *std::ranges::min_element(candidates, {}, off);
  }

  std::span<const RecordedLaunch> recorded_;
  std::vector<const ProfiledLaunch*> profiled_;
  CountersJoin join_;
  std::vector<std::uint32_t> names_, profile_names_;             // of each launch, but for spaces
  std::vector<std::uint32_t> keys_, profile_keys_;               // of each launch
  std::vector<std::vector<std::uint32_t>> of_key_, in_profile_;  // launches of each key
};

bool alike(double a, double b, double whole) { return std::abs(a - b) <= (kApart - 1) * whole; }

bool alike(const ProfiledLaunch* a, const ProfiledLaunch* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  const Counters &x = a->counters, &y = b->counters;
  const auto same = [&](std::optional<double> Counters::*counter, double whole) {
    const auto &p = x.*counter, &q = y.*counter;
    return !p || !q || alike(*p, *q, std::max({whole, *p, *q}));
  };
  // How much of its bytes a small kernel finds in L2 varies from launch to launch.
  const double l2 = std::max(x.l2_bytes.value_or(0), y.l2_bytes.value_or(0));
  return same(&Counters::warp_instructions, 0) && same(&Counters::l2_bytes, 0) &&
         same(&Counters::l1_bytes, 0) && same(&Counters::tensor_instructions, 0) &&
         same(&Counters::dram_read_bytes, l2) && same(&Counters::dram_write_bytes, l2);
}

}  // namespace

std::size_t CountersJoin::count(How how) const {
  return static_cast<std::size_t>(
      std::count_if(matches.begin(), matches.end(), [&](const Match& m) { return m.how == how; }));
}

CountersJoin join_counters(std::span<const RecordedLaunch> recorded,
                           std::span<const ProfiledLaunch> profiled) {
  std::map<std::pair<std::string, std::string>, std::vector<const ProfiledLaunch*>> sources;
  for (const ProfiledLaunch& p : profiled) sources[{p.process, p.device}].push_back(&p);
  CountersJoin best;
  best.matches.resize(recorded.size());
  std::pair<std::size_t, std::size_t> most{};
  for (auto& [source, launches] : sources) {
    CountersJoin join = Join(recorded, std::move(launches)).run();
    const std::pair matched{recorded.size() - join.count(How::none), join.count(How::order)};
    if (matched <= most) continue;
    most = matched;
    best = std::move(join);
  }
  best.sources = sources.size();
  return best;
}

std::vector<std::uint32_t> split_by_behaviour(std::span<const RecordedLaunch> recorded,
                                              std::span<const CountersJoin::Match> matches) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> shapes;
  for (std::uint32_t i = 0; i < recorded.size(); ++i) shapes[recorded[i].shape].push_back(i);
  std::vector<std::uint32_t> kernel_of(recorded.size());
  for (auto& [shape, launches] : shapes) {
    // Times scatter: a gap between them parts two groups, not their distance.
    std::vector<std::uint32_t> by_time = launches;
    std::stable_sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
      return recorded[a].duration < recorded[b].duration;
    });
    std::map<std::uint32_t, std::uint32_t> time_group;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < by_time.size(); ++i) {
      const double time = to_ns(recorded[by_time[i]].duration);
      const double before = i == 0 ? time : to_ns(recorded[by_time[i - 1]].duration);
      if (time > kApart * before && time > before + kJitterNs) ++group;
      time_group[by_time[i]] = group;
    }
    std::vector<std::uint32_t> leaders;  // the first launch of each kernel
    for (const std::uint32_t launch : launches) {
      const auto same = std::find_if(leaders.begin(), leaders.end(), [&](std::uint32_t leader) {
        return time_group[leader] == time_group[launch] &&
               alike(matches[leader].launch, matches[launch].launch);
      });
      kernel_of[launch] = static_cast<std::uint32_t>(same - leaders.begin());
      if (same == leaders.end()) leaders.push_back(launch);
    }
  }
  return kernel_of;
}

}  // namespace corun
