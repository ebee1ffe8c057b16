// The NVIDIA cards of this machine, as the kernel's driver lists them: none of them is opened.
//
// Leaves out: parts of a card (MIG), and machines whose driver lists nothing there (WSL).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace corun::live {

struct Card {
  std::string bus;    // its place: 0000:81:00.0
  std::string uuid;   // GPU-...
  std::string model;
};

/// In the order of their places, as CUDA numbers cards of one kind.  Those that have no device file here, as of a host whose container has
/// other cards, are left out.
std::vector<Card> cards(const std::filesystem::path& folder = "/proc/driver/nvidia/gpus", const std::filesystem::path& devices = "/dev");
/// The first that a program sees by this value of CUDA_VISIBLE_DEVICES (null: it is not set); none: it sees none.
std::optional<Card> first_visible(const std::vector<Card>& all, const char* visible);

/// Two ways to write a place: domains have four digits or eight, letters are large or small.
bool same_place(const std::string& a, const std::string& b);

}  // namespace corun::live
