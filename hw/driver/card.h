// What the driver's management library (NVML) knows of a card: its driver, its identity, and who uses it.
// It only asks: nothing here changes a setting.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace corun::hw {

struct Card {
  std::string driver, uuid;              // "580.159.04", "GPU-..."
  std::vector<std::uint32_t> processes;  // with a context on it, this one too
  std::uint32_t busy_percent = 0;        // of the last second or so
};

/// `index`: as CUDA counts devices.  Nothing where there is no NVML.
std::optional<Card> ask_card(int index = 0);

}  // namespace corun::hw
