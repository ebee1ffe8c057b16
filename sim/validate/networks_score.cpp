#include "sim/validate/networks_score.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "traces/model/statistics.h"

namespace corun::sim {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double percentile_of(const std::vector<double>& ascending, std::size_t percent) {
  return ascending.empty() ? kUndefined : order_statistic(ascending, percent);
}

double stp_of(const std::vector<ClientRow>& clients, ClientNumbers ClientRow::*which) {
  double sum = 0;
  for (const ClientRow& c : clients) sum += (c.*which).progress;
  return sum;
}

/// Rows with the widest spread of their repeats do not count: at most a tenth of all.
void leave_out(NetworksScore& score) {
  std::vector<ClientRow*> wide;
  for (MixRow& row : score.rows)
    for (ClientRow& c : row.clients) {
      ++score.client_rows;
      if (c.spread > kWide) wide.push_back(&c);
    }
  std::stable_sort(wide.begin(), wide.end(),
                   [](const ClientRow* a, const ClientRow* b) { return a->spread > b->spread; });
  score.wide = wide.size();
  score.left_out =
      std::min(wide.size(), static_cast<std::size_t>(kMostLeftOut * static_cast<double>(score.client_rows)));
  for (std::size_t i = 0; i < score.left_out; ++i) wide[i]->counted = false;
}

void add(ErrorSet& set, const MixRow& row) {
  bool all_count = true;
  for (const ClientRow& c : row.clients) {
    all_count = all_count && c.counted;
    if (!c.counted) continue;
    const ClientNumbers &m = c.measured, &s = c.simulated;
    if (!c.real_time) {
      set.throughput.add(m.per_s, s.per_s);
      continue;
    }
    set.mean_latency.add(m.mean_us, s.mean_us);
    set.p50.add(m.p50_us, s.p50_us);
    if (m.requests >= kRequestsForP99) set.p99.add(m.p99_us, s.p99_us);
  }
  if (all_count) set.stp.add(row.measured_stp, row.simulated_stp);
}

/// What a mode costs; less is better.  Infinite: not to be chosen.
using Cost = std::function<double(const MixRow&, const std::vector<const MixRow*>& of_mix, bool simulated)>;

double slowdown(const MixRow& row, const std::vector<const MixRow*>&, bool simulated) {
  double sum = 0;
  for (const ClientRow& c : row.clients) sum += (simulated ? c.simulated : c.measured).slowdown;
  return sum / static_cast<double>(row.clients.size());
}

double p99(const MixRow& row, const std::vector<const MixRow*>& of_mix, bool simulated) {
  const auto stp = [&](const MixRow& r) { return simulated ? r.simulated_stp : r.measured_stp; };
  double best = 0;
  for (const MixRow* r : of_mix) best = std::max(best, stp(*r));
  if (!(stp(row) >= kKept * best)) return std::numeric_limits<double>::infinity();
  double sum = 0;
  std::size_t clients = 0;
  for (const ClientRow& c : row.clients)
    if (c.real_time) {
      const ClientNumbers& n = simulated ? c.simulated : c.measured;
      sum += n.p99_us * n.slowdown / n.mean_us, ++clients;  // over the same time alone
    }
  return sum / static_cast<double>(clients);
}

ModeChoice choose(const std::vector<std::vector<const MixRow*>>& mixes, const Cost& cost) {
  ModeChoice choice;
  std::map<std::string, std::size_t> wins;
  const auto least = [&](const std::vector<const MixRow*>& of_mix, bool simulated) {
    const MixRow* best = nullptr;
    for (const MixRow* row : of_mix)
      if (const double c = cost(*row, of_mix, simulated);
          std::isfinite(c) && (best == nullptr || c < cost(*best, of_mix, simulated)))
        best = row;
    return best;
  };
  for (const auto& of_mix : mixes)
    if (const MixRow* best = least(of_mix, false)) ++wins[best->mode];
  const auto more = [&](const std::string& a, const std::string& b) { return wins[a] > wins[b]; };
  for (const auto& [mode, n] : wins)
    if (choice.usual_mode.empty() || more(mode, choice.usual_mode)) choice.usual_mode = mode;
  for (const auto& of_mix : mixes) {
    const MixRow *best = least(of_mix, false), *chosen = least(of_mix, true), *usual = nullptr;
    if (best == nullptr || chosen == nullptr || of_mix.size() < 2) continue;
    for (const MixRow* row : of_mix)  // where the usual mode was not measured: the next
      if (usual == nullptr || more(row->mode, usual->mode)) usual = row;
    const double least_cost = cost(*best, of_mix, false);
    const auto add = [&](Choices& to, const MixRow& row) {
      to.mixes.push_back({row.mix, row.mode, best->mode, cost(row, of_mix, false) / least_cost - 1});
    };
    add(choice.simulated, *chosen), add(choice.usual, *usual);
  }
  return choice;
}

void score_part(NetworksScore::Part& part, const std::vector<MixRow>& rows, bool set_aside) {
  std::vector<std::string> names;
  std::vector<std::vector<const MixRow*>> mixes;
  for (const MixRow& row : rows) {
    if (row.set_aside != set_aside) continue;
    add(part.all, row), add(part.by_mode[row.mode], row), add(part.by_mix[row.mix], row);
    const auto known = std::find(names.begin(), names.end(), row.mix);
    const auto at = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) names.push_back(row.mix), mixes.emplace_back();
    mixes[at].push_back(&row);
  }
  part.by_slowdown = choose(mixes, slowdown);
  part.by_p99 = choose(mixes, p99);
}

}  // namespace

void RatioErrors::add(double measured, double simulated) {
  if (!std::isfinite(measured) || measured <= 0) return;
  values.push_back(std::isfinite(simulated) ? std::fabs(simulated / measured - 1) : 1);
}
double RatioErrors::mean() const { return corun::mean(values); }
double RatioErrors::median() const {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return percentile_of(sorted, 50);
}
double RatioErrors::worst() const {
  return values.empty() ? kUndefined : *std::max_element(values.begin(), values.end());
}

std::size_t Choices::right() const {
  return static_cast<std::size_t>(
      std::count_if(mixes.begin(), mixes.end(), [](const Of& m) { return m.regret <= kSame; }));
}
double Choices::regret() const {
  std::vector<double> all;  // a mode that was not to be chosen has no finite one
  for (const Of& m : mixes)
    if (std::isfinite(m.regret)) all.push_back(m.regret);
  return mean(all);
}
double Choices::worst_regret() const {
  double worst = kUndefined;
  for (const Of& m : mixes)
    if (!(m.regret <= worst)) worst = m.regret;
  return worst;
}

ClientNumbers numbers_of(const std::vector<Got>& repeats, bool real_time, double alone_ms) {
  ClientNumbers n{0, kUndefined, kUndefined, kUndefined, kUndefined, kUndefined, kUndefined};
  if (!real_time) {
    std::vector<double> rates;
    for (const Got& r : repeats)
      if (std::isfinite(r.per_s)) rates.push_back(r.per_s);
    n.per_s = mean(rates);
    n.progress = n.per_s * alone_ms / 1e3;
    n.slowdown = 1 / n.progress;
    return n;
  }
  std::vector<double> latencies;
  std::uint64_t dropped = 0;
  for (const Got& r : repeats) {
    latencies.insert(latencies.end(), r.latencies_us.begin(), r.latencies_us.end());
    dropped += r.dropped;
  }
  std::sort(latencies.begin(), latencies.end());
  n.requests = latencies.size();
  n.mean_us = mean(latencies);
  n.p50_us = percentile_of(latencies, 50);
  n.p99_us = percentile_of(latencies, 99);
  n.slowdown = n.mean_us / 1e3 / alone_ms;
  n.progress = static_cast<double>(n.requests) / static_cast<double>(n.requests + dropped);
  return n;
}

double spread_of(const std::vector<Got>& repeats, bool real_time) {
  std::vector<double> each;
  for (const Got& r : repeats) each.push_back(real_time ? mean(r.latencies_us) : r.per_s);
  const auto [least, most] = std::minmax_element(each.begin(), each.end());
  return each.empty() ? kUndefined : (*most - *least) / mean(each);
}

NetworksScore score_networks(const MeasuredNetworks& all) {
  NetworksScore score;
  for (const MeasuredRun& run : all.runs) {
    const NetworkMix& mix = all.mixes[run.mix];
    MixRow row{mix.name, run.mode, run.policy, mix.set_aside, {}, 0, 0};
    for (std::size_t c = 0; c < mix.trace.clients.size(); ++c) {
      const Network& network = all.networks[mix.networks[c]];
      const bool real_time = mix.trace.clients[c].service_class == ServiceClass::real_time;
      row.clients.push_back({mix.trace.clients[c].name, network.name, real_time,
                             numbers_of(run.measured[c], real_time, network.measured_ms),
                             numbers_of({run.simulated[c]}, real_time, network.simulated_ms),
                             spread_of(run.measured[c], real_time), true});
    }
    row.measured_stp = stp_of(row.clients, &ClientRow::measured);
    row.simulated_stp = stp_of(row.clients, &ClientRow::simulated);
    score.rows.push_back(std::move(row));
  }
  leave_out(score);
  score_part(score.others, score.rows, false);
  score_part(score.set_aside, score.rows, true);
  return score;
}

}  // namespace corun::sim
