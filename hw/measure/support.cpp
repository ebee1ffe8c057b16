#include <algorithm>
#include <bit>
#include <cmath>

#include "hw/measure/jobs.h"

namespace corun::hw {

double quantile(std::vector<double> s, double q) {
  if (s.empty()) return std::nan("");
  std::sort(s.begin(), s.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(s.size())));
  return s[std::min(s.size() - 1, rank == 0 ? 0 : rank - 1)];
}
double median(std::vector<double> s) { return quantile(std::move(s), 0.5); }

Json summary(const std::vector<double>& s, bool raw) {
  Json all{{"n", s.size()},           {"p10", quantile(s, 0.1)},  {"p50", quantile(s, 0.5)},
           {"p90", quantile(s, 0.9)}, {"p99", quantile(s, 0.99)}, {"max", quantile(s, 1)}};
  if (!raw) return all;
  for (Json& samples = all["samples"] = Json::array(); const double v : s)
    samples.push_back(std::round(v * 1000) / 1000);
  return all;
}

Controls::Controls(Driver& driver, std::uint32_t count)
    : driver_(driver),
      count_(count),
      base_(driver.allocate(count * sizeof(Control))),
      words_(driver.allocate_host(sizeof(Progress) * count)) {}
Controls::~Controls() {
  try {
    driver_.free(base_);
    driver_.free(words_);
  } catch (const DriverError&) {
  }
}
void Controls::clear(Stream s) { driver_.fill(s, base_, 0, count_ * sizeof(Control)); }
Control Controls::read(std::uint32_t i, Stream s) {
  Control c;
  driver_.copy_to_host(s, &c, at(i), sizeof c);
  driver_.synchronize(s);
  return c;
}
void Controls::put(std::uint32_t i, const Control& c, Stream s) {
  driver_.copy_to_device(s, at(i), &c, sizeof c);
  driver_.synchronize(s);
}

}  // namespace corun::hw
