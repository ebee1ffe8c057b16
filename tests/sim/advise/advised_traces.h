// Small traces that advice is asked about.
#pragma once

#include <nlohmann/json.hpp>

#include "traces/json/trace_json.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// `wide` fills the GPU with short requests, `narrow` comes every 2 ms and needs an eighth of it.
inline Trace two_clients() {
  Trace trace;
  trace.name = "two";
  trace.gpu = "h200";
  Kernel wide;
  wide.name = "wide";
  wide.grid = {1056, 1, 1};
  wide.block = {256, 1, 1};
  wide.solo_time = from_ns(400'000);
  Kernel narrow = wide;
  narrow.name = "narrow";
  narrow.grid = {64, 1, 1};
  narrow.solo_time = from_ns(200'000);
  trace.kernels = {wide, narrow};
  for (std::uint32_t i = 0; i < 2; ++i) {
    Program program;
    program.name = trace.kernels[i].name;
    program.streams = {{"main"}};
    Op op;
    op.what = Launch{KernelId{i}, {}, {}};
    program.ops = {op};
    trace.programs.push_back(program);
    Client client;
    client.name = i == 0 ? "batch" : "camera";
    client.process = client.name;
    client.program = ProgramId{i};
    client.streams.resize(1);
    trace.clients.push_back(client);
  }
  trace.clients[1].service_class = ServiceClass::real_time;
  trace.clients[1].arrivals = Periodic{from_ns(2e6)};
  trace.run.duration = from_ns(50e6);
  return trace;
}

inline Trace with_random_camera() {
  Trace trace = two_clients();
  trace.clients[1].arrivals = Poisson{500, 0};
  trace.clients[1].stale = Stale::queue;
  return trace;
}

/// A server whose sequences come every 10 ms, beside training that fills the GPU for 4 ms at a time.
inline Trace server_and_training(double first_token_ms, double between_tokens_ms) {
  nlohmann::json trace = nlohmann::json::parse(R"({"corun_trace": 1, "name": "s", "gpu": "h200",
    "kernels": [{"name": "p", "grid": [264,1,1], "block": [256,1,1], "solo_time_ns": 300000},
                {"name": "d", "grid": [132,1,1], "block": [128,1,1], "solo_time_ns": 100000},
                {"name": "t", "grid": [4224,1,1], "block": [256,1,1], "solo_time_ns": 4000000}],
    "programs": [{"name": "prefill", "ops": [{"launch": "p"}, {"sync": true}]}, {"name": "decode", "ops": [{"launch": "d"}, {"sync": true}]},
                 {"name": "train", "ops": [{"launch": "t"}, {"sync": true}]}],
    "clients": [{"name": "llm", "program": "decode", "class": "real_time",
                 "serving": {"steps": [{"program": "prefill", "tokens": 128}, {"program": "decode", "batch": 4, "context": 1000}]}},
                {"name": "train", "program": "train"}], "run": {"duration_ns": 200000000}})");
  nlohmann::json& serving = trace["clients"][0]["serving"];
  for (int i = 0; i < 18; ++i) serving["sequences"].push_back({i * 10000000, 128, 5});
  if (first_token_ms > 0) serving["first_token_slo_ns"] = first_token_ms * 1e6;
  if (between_tokens_ms > 0) serving["between_tokens_slo_ns"] = between_tokens_ms * 1e6;
  return read_trace(trace, "s.json");
}

}  // namespace corun::sim
