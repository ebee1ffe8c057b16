// How a comparison of networks that share a GPU with what was measured is shown.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/validate/networks_score.h"

namespace corun::sim {

std::string format_networks(const MeasuredNetworks& networks, const NetworksScore& score);
nlohmann::ordered_json networks_json(const MeasuredNetworks& networks, const NetworksScore& score);
/// A line for each network alone, client and run: name, measured, simulated, ratio.
void write_networks_csv(const MeasuredNetworks& networks, const NetworksScore& score, std::ostream& out);

}  // namespace corun::sim
