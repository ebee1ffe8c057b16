#include "sim/validate/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/model/statistics.h"

namespace corun::sim {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double error(double simulated, double measured) { return std::abs(simulated / measured - 1); }

int sign(double x) { return (x > 0) - (x < 0); }

/// Fills what is about orders of modes.
void compare_modes(Comparison& c) {
  struct Stps {
    std::vector<double> measured, simulated;
  };
  std::map<std::string, Stps> pairs;
  for (const ComparedRow& row : c.rows) {
    pairs[row.pair].measured.push_back(row.measured.stp());
    pairs[row.pair].simulated.push_back(row.simulated.stp());
  }
  std::vector<double> taus, strict;
  std::size_t picked = 0;
  for (const auto& [name, stp] : pairs) {
    if (stp.measured.size() < 2) continue;
    ++c.pairs;
    picked += picks_best(stp.measured, stp.simulated);
    if (const double tau = kendall_tau(stp.measured, stp.simulated, kAlike); !std::isnan(tau))
      taus.push_back(tau);
    if (const double tau = kendall_tau(stp.measured, stp.simulated, 0); !std::isnan(tau))
      strict.push_back(tau);
  }
  c.kendall_tau = mean(taus);
  c.kendall_tau_strict = mean(strict);
  c.best_mode_picked = c.pairs == 0 ? kUndefined : static_cast<double>(picked) / static_cast<double>(c.pairs);
}

void compare_solo(const Reference& reference, const Replay& replay, Comparison& c) {
  const auto add = [](SoloErrors& to, double e, const std::string& kernel) {
    to.mean += e;  // the sum, as yet
    ++to.times;
    if (e >= to.worst) {
      to.worst = e;
      to.worst_kernel = kernel;
    }
  };
  for (std::size_t i = 0; i < reference.kernels.size(); ++i)
    for (const auto& [sms, measured] : reference.kernels[i].solo_ms_by_sms) {
      const double e = error(replay.solo_ms_by_sms[i].at(sms), measured);
      add(c.solo[sms], e, reference.kernels[i].kernel.name);
      add(c.solo_all, e, reference.kernels[i].kernel.name);
    }
  for (auto& [sms, errors] : c.solo) errors.mean /= static_cast<double>(errors.times);
  c.solo_all.mean /= static_cast<double>(c.solo_all.times);
}

}  // namespace

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return kUndefined;
  std::sort(values.begin(), values.end());
  const double rank = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - static_cast<double>(below)) * (values[above] - values[below]);
}

double kendall_tau(std::span<const double> x, std::span<const double> y, double alike) {
  const auto order = [alike](double a, double b) {
    return std::abs(a - b) <= alike * std::max(a, b) ? 0 : sign(a - b);
  };
  int agree = 0, apart_x = 0, apart_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const int dx = order(x[i], x[j]), dy = order(y[i], y[j]);
      agree += dx * dy;
      apart_x += dx != 0;
      apart_y += dy != 0;
    }
  if (apart_x == 0 || apart_y == 0) return kUndefined;
  return agree / std::sqrt(static_cast<double>(apart_x) * apart_y);
}

bool picks_best(std::span<const double> measured_stp, std::span<const double> simulated_stp) {
  const auto pick = std::max_element(simulated_stp.begin(), simulated_stp.end()) - simulated_stp.begin();
  const double best = *std::max_element(measured_stp.begin(), measured_stp.end());
  return measured_stp[static_cast<std::size_t>(pick)] >= (1 - kAsGood) * best;
}

Errors errors_of(std::span<const ComparedRow> rows) {
  std::vector<double> slowdown, stp;
  for (const ComparedRow& row : rows) {
    slowdown.push_back(error(row.simulated.a, row.measured.a));
    slowdown.push_back(error(row.simulated.b, row.measured.b));
    stp.push_back(error(row.simulated.stp(), row.measured.stp()));
  }
  return {rows.size(),
          mean(slowdown),
          percentile(slowdown, 0.5),
          percentile(slowdown, 0.95),
          percentile(slowdown, 1),
          mean(stp)};
}

Comparison compare(const Reference& reference, const Replay& replay) {
  Comparison c;
  std::map<Mode, std::vector<ComparedRow>> by_mode;
  for (std::size_t i = 0; i < replay.rows.size(); ++i) {
    const ReferenceRow& row = reference.rows[i];
    const Replay::Row& simulated = replay.rows[i];
    c.rows.push_back(
        {reference.pair(row),
         row.mode,
         {row.t_a / reference.kernels[row.a].solo_ms, row.t_b / reference.kernels[row.b].solo_ms},
         {simulated.t_a / replay.solo_ms[row.a], simulated.t_b / replay.solo_ms[row.b]},
         row.spread,
         simulated.why});
    by_mode[row.mode].push_back(c.rows.back());
  }
  for (const auto& [mode, rows] : by_mode) c.modes[mode] = errors_of(rows);
  c.all = errors_of(c.rows);
  compare_modes(c);
  compare_solo(reference, replay, c);
  return c;
}

}  // namespace corun::sim
