#include "tests/support/build.h"

#include <algorithm>

namespace corun::sim {

Gpu small_gpu(std::uint32_t sms) {
  Gpu gpu;
  gpu.name = "small";
  gpu.sms = sms;
  for (std::uint32_t i = 0; i < sms; ++i) gpu.placement_order.push_back(SmId{i});
  gpu.sm.max_threads = 2048;
  gpu.sm.max_warps = 64;
  gpu.sm.max_blocks = 32;
  gpu.sm.registers = 65536;
  gpu.sm.registers_per_block = 65536;
  gpu.sm.shared_memory_bytes = 65536;
  gpu.sm.shared_memory_per_block_bytes = 65536;
  gpu.sm.shared_memory_allocation_unit = 256;
  gpu.task_slots = 8;
  gpu.priority_levels = 3;
  gpu.host_channels = 8;
  gpu.mps_client_channels = 2;
  gpu.mps_least_sms = gpu.mps_sm_step = 1;
  gpu.copy_engines = 3;
  gpu.dispatch_interval = ns(1);
  gpu.time_slice = ms(1);
  gpu.memory_bytes = std::uint64_t{1} << 30;
  gpu.clock_hz = 1e9;
  gpu.dram_bytes_per_second = 1e12;
  gpu.copy_bytes_per_second = 1e10;
  Contention& c = gpu.contention;  // an H200's
  c.dram_read_bytes_per_second = 4.64e12;
  c.dram_write_bytes_per_second = 3.9e12;
  c.dram_latency = ns(350);
  c.dram_over_l2_latency_ratio = 2.4;
  c.dram_read_queueing_factor = 0.12;
  c.dram_write_queueing_factor = 0.47;
  c.dram_queue_full_use = 0.94;
  c.dram_backlog_factor = 0.01;
  c.l2_read_bytes_per_second = 9.6e12;
  c.l2_write_bytes_per_second = 4.9e12;
  c.l2_queueing_factor = 0.3;
  c.l2_sector_cost_ratio = 1.87;
  c.l2_wait = ns(270);
  c.l2_own_bytes = 60'000'000;
  c.l2_shared_bytes = 30'000'000;
  c.l2_first_loss_bytes = 20'000'000;
  c.l2_dirty_bytes = 20'000'000;
  c.sm_read_bytes_per_second = 240e9;
  c.sm_write_bytes_per_second = 63.6e9;
  c.sm_sector_bytes_per_second = 63.4e9;
  c.issue_by_age_share = 0.5;
  c.tensor_clock_ratio = 1.09;
  c.launch_cost = us(1);
  c.launch_beside_others = ns(300);
  c.launch_memory_accesses = 10;
  c.graph_launch_after_others = ns(940);
  c.graph_launch_memory_accesses = 3;
  return gpu;
}

Gpu slow_host_gpu(std::uint32_t sms) {
  Gpu gpu = small_gpu(sms);
  gpu.launch_call = us(3);
  gpu.launch_latency = us(5);
  gpu.stream_gap = us(1);
  gpu.graph_launch_call = us(4);
  gpu.graph_launch_latency = us(6);
  gpu.graph_gap = gpu.mps_graph_gap = ns(600);
  gpu.completion_notice = ns(700);
  gpu.time_slice = us(100);
  gpu.context_switch = gpu.idle_switch = gpu.idle_switch_to_interrupted = us(10);
  gpu.progress_read = us(8);
  gpu.stop_flag = us(4);
  gpu.persistent_task = ns(500);
  gpu.retreat = ns(300);
  return gpu;
}

Kernel kernel(std::uint32_t blocks, std::uint32_t threads, Time block_time) {
  Kernel k;
  k.name = "kernel";
  k.grid = {blocks, 1, 1};
  k.block = {threads, 1, 1};
  k.block_times = {block_time};
  k.solo_time = block_time;
  k.counters.issue_active_pct = 0;
  return k;
}

Kernel uneven_kernel(std::uint32_t threads, std::vector<Time> block_times) {
  Kernel k = kernel(static_cast<std::uint32_t>(block_times.size()), threads, block_times.front());
  k.solo_time = *std::max_element(block_times.begin(), block_times.end());
  k.block_times = std::move(block_times);
  return k;
}

Kernel whole_sm_kernel(std::uint32_t blocks, Time block_time) {
  Kernel k = kernel(blocks, 1024, block_time);
  k.static_shared_memory_bytes = 65536;
  return k;
}

Op launch(KernelId kernel, std::uint32_t stream) {
  Op op;
  op.what = corun::Launch{kernel, {}, {}};
  op.stream = StreamId{stream};
  return op;
}

Op copy(CopyDirection direction, std::uint64_t bytes, std::uint32_t stream) {
  Op op;
  op.what = Copy{direction, bytes};
  op.stream = StreamId{stream};
  return op;
}

Op sync() {
  Op op;
  op.what = Sync{};
  return op;
}

Op alloc(std::uint32_t buffer, std::uint64_t bytes) {
  Op op;
  op.what = Alloc{buffer, bytes};
  return op;
}

Op free_of(std::uint32_t buffer) {
  Op op;
  op.what = Free{buffer};
  return op;
}

Op uses(Op op, std::vector<std::uint32_t> buffers) {
  op.uses = std::move(buffers);
  return op;
}

Op after(Op op, std::vector<std::uint32_t> ops) {
  for (std::uint32_t o : ops) op.after.push_back(OpId{o});
  return op;
}

Op host_gap(Op op, Time gap) {
  op.host_gap = gap;
  return op;
}

Op in_graph(Op op, std::uint32_t graph) {
  op.graph = graph;
  return op;
}

KernelId TraceBuilder::kernel(Kernel k) {
  const KernelId id{static_cast<std::uint32_t>(trace.kernels.size())};
  k.name += std::to_string(id.value);
  trace.kernels.push_back(std::move(k));
  return id;
}

ProgramId TraceBuilder::program(std::vector<Op> ops, Issue issue) {
  Program program;
  program.name = "program" + std::to_string(trace.programs.size());
  program.issue = issue;
  program.streams.resize(1);
  for (const Op& op : ops)
    program.streams.resize(std::max<std::size_t>(program.streams.size(), op.stream.value + 1));
  for (const Op& op : ops)
    if (const auto* allocated = std::get_if<Alloc>(&op.what))
      while (program.buffers.size() <= allocated->buffer)
        program.buffers.push_back("buffer" + std::to_string(program.buffers.size()));
  program.ops = std::move(ops);
  trace.programs.push_back(std::move(program));
  return ProgramId{static_cast<std::uint32_t>(trace.programs.size() - 1)};
}

Client& TraceBuilder::client(const std::string& name, ProgramId program, Arrivals arrivals) {
  Client c;
  c.name = c.process = name;
  c.program = program;
  c.arrivals = std::move(arrivals);
  c.streams.resize(trace.programs[program.value].streams.size());
  trace.clients.push_back(std::move(c));
  return trace.clients.back();
}

Client& TraceBuilder::one_kernel(const std::string& name, Kernel k, Time at) {
  return client(name, program({launch(kernel(std::move(k)))}), Once{at});
}

}  // namespace corun::sim
