// How far what is simulated of networks that share a GPU is from what was measured, and whether the best way
// to share it would have been chosen.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/validate/networks.h"

namespace corun::sim {

/// Of a client in a run, over its repeats.  NaN: undefined.
struct ClientNumbers {
  std::size_t requests = 0;                    // served
  double mean_us = 0, p50_us = 0, p99_us = 0;  // of a real-time client: from the due time
  double per_s = 0;                            // of a best-effort client
  double slowdown = 0;  // over its network alone: mean latency; of a best-effort client time a request
  double progress = 0;  // real-time: served over arrived; best-effort: throughput over that alone
};

struct ClientRow {
  std::string client, network;
  bool real_time = false;
  ClientNumbers measured, simulated;
  double spread = 0;    // of the repeats: largest less smallest mean latency or throughput, over their mean
  bool counted = true;  // false: too wide a spread
};

struct MixRow {
  std::string mix, mode, policy;
  bool set_aside = false;
  std::vector<ClientRow> clients;
  double measured_stp = 0, simulated_stp = 0;  // sum of the progress
};

/// |simulated / measured - 1|.  What was measured and cannot be simulated (no request ends) counts as 1.
struct RatioErrors {
  std::vector<double> values;
  void add(double measured, double simulated);
  double mean() const, median() const, worst() const;  // NaN: of none
};
struct ErrorSet {
  RatioErrors mean_latency, p50, p99, throughput, stp;
};

/// Choosing a mode for each mix by what is simulated.  Right: what was measured of it is within kSame of the
/// best that was measured.  Regret: how much worse than the best.
struct Choices {
  struct Of {
    std::string mix, chosen, best;
    double regret = 0;
  };
  std::vector<Of> mixes;
  std::size_t right() const;
  double regret() const, worst_regret() const;
};
struct ModeChoice {
  Choices simulated, usual;  // usual: always the mode that is most often the best
  std::string usual_mode;
};

inline constexpr double kSame = 0.05, kKept = 0.95;
inline constexpr double kWide = 0.08, kMostLeftOut = 0.1;  // spread; share of the rows
inline constexpr std::size_t kRequestsForP99 = 1000;

struct NetworksScore {
  std::vector<MixRow> rows;
  struct Part {  // mixes with no network that was set aside, or those with one
    ErrorSet all;
    std::map<std::string, ErrorSet> by_mode, by_mix;
    ModeChoice by_slowdown;  // least mean slowdown of the clients
    ModeChoice by_p99;       // least mean p99 over alone, of modes that keep kKept of the best STP
  };
  Part others, set_aside;
  std::size_t client_rows = 0, left_out = 0, wide = 0;
};

ClientNumbers numbers_of(const std::vector<Got>& repeats, bool real_time, double alone_ms);
double spread_of(const std::vector<Got>& repeats, bool real_time);
NetworksScore score_networks(const MeasuredNetworks& networks);

}  // namespace corun::sim
