// What a calibration finds: constants of a GPU description with the samples that they rest on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
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

class Constants {
 public:
  static constexpr double kMostSpread = 0.5;

  /// The median of repetitions.
  double add(const char* group, const char* key, const Samples& samples, std::string method) {
    const auto [least, most] = std::minmax_element(samples.begin(), samples.end());
    const double middle = median(samples);
    return put({group, key, {middle}, false, samples.size(), middle == 0 ? 0 : (*most - *least) / middle,
                std::move(method)});
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
  /// Takes back what repetitions do not agree on: half of a value more or less is no measurement.
  void drop_unsure() {
    std::erase_if(all_, [this](const Constant& c) {
      const bool unsure = c.spread > kMostSpread;
      if (unsure)
        missing(c.group.c_str(), c.key.c_str(),
                fmt::format("{:.5g} varies by {:.0f} % from one repetition to the next", c.value.front(),
                            100 * c.spread));
      return unsure;
    });
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
};

}  // namespace corun::hw
