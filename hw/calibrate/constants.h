// What a calibration finds: constants of a GPU description with the samples that they rest on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hw/calibrate/bench.h"

namespace corun::hw {

struct Constant {
  std::string group, key;  // as in the description: "latencies", "stream_gap_ns"
  std::vector<double> value;
  bool is_list = false;
  std::size_t samples = 1;
  double spread = 0;  // largest less smallest sample, over the value
  std::string method;
};

/// A sample as it was taken, for who wants to look at what a constant rests on.
struct Record {
  std::string job;
  std::vector<std::pair<std::string, double>> fields;
};

class Constants {
 public:
  static constexpr double kMostSpread = 0.5;

  /// The median of repetitions.
  double add(const char* group, const char* key, const Samples& samples, std::string method) {
    const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
    const double middle = median(samples);
    const double apart = *most - *least;
    const double spread = apart == 0    ? 0
                          : middle == 0 ? std::numeric_limits<double>::infinity()
                                        : apart / std::abs(middle);
    taken_.emplace_back(std::string(group) + "/" + key, samples);
    return put({group, key, {middle}, false, samples.size(), spread, std::move(method)});
  }
  /// What the driver tells, or what follows from other constants.
  double set(const char* group, const char* key, double value, std::string method) {
    return put({group, key, {value}, false, 1, 0, std::move(method)});
  }
  void list(const char* group, const char* key, std::vector<double> values, std::string method) {
    put({group, key, std::move(values), true, 1, 0, std::move(method)});
  }
  void missing(const char* group, const char* key, std::string why) {
    failed_.push_back({std::string(group) + "/" + key, std::move(why)});
  }
  void record(std::string job, std::vector<std::pair<std::string, double>> fields) {
    records_.push_back({std::move(job), std::move(fields)});
  }
  const std::vector<Record>& records() const { return records_; }
  /// What was added, by its place, also where it was taken back since.
  const std::vector<std::pair<std::string, Samples>>& taken() const { return taken_; }
  /// Takes back what `why_not` has a reason against.
  void drop(const std::function<std::string(const Constant&)>& why_not) {
    std::erase_if(all_, [&](const Constant& c) {
      const std::string why = why_not(c);
      if (!why.empty()) missing(c.group.c_str(), c.key.c_str(), why);
      return !why.empty();
    });
  }
  /// Half of a value more or less from one repetition to the next is no measurement.
  static std::string unsure(const Constant& c) {
    if (c.spread <= kMostSpread) return "";
    if (std::isinf(c.spread)) return "it is 0 in the median, but not in each repetition";
    return fmt::format("{:.5g} varies by {:.0f} % from one repetition to the next", c.value.front(),
                       100 * c.spread);
  }
  void drop_unsure() { drop(unsure); }
  /// Takes back all of them where one of them is unsure.
  void drop_together(const char* group, std::span<const char* const> keys) {
    const auto one_of_them = [&](const Constant& c) {
      return c.group == group && std::ranges::find(keys, c.key) != keys.end();
    };
    const auto bad =
        std::ranges::find_if(all_, [&](const Constant& c) { return one_of_them(c) && !unsure(c).empty(); });
    if (bad == all_.end()) return;
    const std::string why = fmt::format("fitted with {}: {}", bad->key, unsure(*bad));
    drop([&](const Constant& c) { return one_of_them(c) ? why : ""; });
  }
  /// 0 where it was not found.
  double value(const char* group, const char* key) const {
    for (const Constant& c : all_)
      if (c.group == group && c.key == key) return c.value.front();
    return 0;
  }
  const std::vector<Constant>& all() const { return all_; }
  const std::vector<std::pair<std::string, std::string>>& failed() const { return failed_; }

 private:
  double put(Constant c) {
    all_.push_back(std::move(c));
    return all_.back().value.front();
  }
  std::vector<Constant> all_;
  std::vector<std::pair<std::string, std::string>> failed_;  // place, why
  std::vector<Record> records_;
  std::vector<std::pair<std::string, Samples>> taken_;
};

}  // namespace corun::hw
