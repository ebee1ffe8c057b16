// The card that the fake driver plays: CORUN_FAKE_CARD, as "name=Tesla T4;major=7;minor=5;sms=40".  What it does not name is an
// H200's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

namespace corun::fake {

struct FakeCard {
  // What the driver tells.
  std::string name = "NVIDIA H200";
  double major = 9, minor = 0, sms = 132, clock_mhz = 1980;
  double memory_gib = 141, l2_mib = 60;
  double threads = 2048, blocks = 32, shared_kib = 228, reserved_shared = 1024;
  // Nanoseconds that things take.
  double launch_call = 3000, launch_latency = 5000, graph_call = 4000, graph_latency = 7000, half_trip = 500;
  double stream_gap = 800, launch_cost = 900, dispatch = 0.6;
  double empty_block = 900, plain_block = 850, persistent_task = 1250;
  double copy = 9000, stop_relayed = 3000, stop_host = 2000, stop_host_block = 50;
  // Rates, bytes per second.
  double copies = 50e9, sm_read = 130e9, sm_write = 110e9, sm_sectors = 60e9, sectors = 5e12;
  double dram_read = 4.6e12, dram_write = 3.9e12, l2_read = 9.8e12, l2_write = 4.9e12;
  double dram_latency = 700, l2_latency = 280;
  double fp64_units = 64, tensor_mhz = 1800;
  double task_slots = 128, channels = 8, channel_depth = 1024;
  // Who else is there.  Times are milliseconds since the card was opened, below 0 never.
  double processes = 0, busy_percent = 0;
  double comes_at = -1;      // another process
  double computes_at = -1;   // another context
  double fails_at = -1;      // launches do
  double interrupt_at = -1;  // Ctrl-C is pressed; at 0: before the card is opened
  double unsteady = 0;       // share by which every other dispatch takes longer

  FakeCard() {
    const char* text = std::getenv("CORUN_FAKE_CARD");
    const std::map<std::string, double*> numbers{
        {"major", &major}, {"minor", &minor}, {"sms", &sms}, {"clock_mhz", &clock_mhz}, {"memory_gib", &memory_gib},
        {"l2_mib", &l2_mib}, {"threads", &threads}, {"blocks", &blocks}, {"shared_kib", &shared_kib},
        {"reserved_shared", &reserved_shared}, {"launch_call", &launch_call}, {"stream_gap", &stream_gap},
        {"dispatch", &dispatch}, {"dram_read", &dram_read}, {"dram_write", &dram_write}, {"l2_read", &l2_read},
        {"l2_write", &l2_write}, {"sectors", &sectors}, {"fp64_units", &fp64_units}, {"task_slots", &task_slots}, {"processes", &processes},
        {"busy_percent", &busy_percent}, {"comes_at", &comes_at}, {"computes_at", &computes_at}, {"fails_at", &fails_at},
        {"interrupt_at", &interrupt_at}, {"unsteady", &unsteady}};
    std::istringstream all(text != nullptr ? text : "");
    for (std::string entry; std::getline(all, entry, ';');) {
      const std::string key = entry.substr(0, entry.find('=')), value = entry.substr(entry.find('=') + 1);
      if (key == "name") {
        name = value;
      } else if (const auto at = numbers.find(key); at != numbers.end()) {
        *at->second = std::stod(value);
      } else {
        std::fprintf(stderr, "CORUN_FAKE_CARD: it has no %s\n", key.c_str());
        std::abort();
      }
    }
  }
};

}  // namespace corun::fake
