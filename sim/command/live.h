// `sim serve`, `sim run` and `sim top`: policies on programs as they are.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace corun::sim {

struct LiveArguments {
  std::string policy = "fcfs", at, metrics, record;
  struct {
    std::string kind, place;  // its description; where on the bus it is
  } gpu;
  bool no_mps = false, json = false, own_memory = false, persistent = false;
  std::string name, service_class = "best_effort";
  int priority = 0;
  std::vector<std::string> program, programs;
  double ahead_us = 8, quota = 0, reservation = 0;
  std::uint32_t in_flight = 64;
  std::uint64_t memory = 0, slo_us = 0;
};

struct LiveCommands {
  CLI::App* serve = nullptr;
  CLI::App* run = nullptr;
  CLI::App* top = nullptr;
};
LiveCommands add_live(CLI::App& app, LiveArguments& arguments);

int serve(const LiveArguments& arguments);
/// Becomes the program; returns only where it cannot be started.
int run_steered(const LiveArguments& arguments);
int top(const LiveArguments& arguments);

}  // namespace corun::sim
