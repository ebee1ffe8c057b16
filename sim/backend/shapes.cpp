#include "sim/backend/shapes.h"

#include "sim/model/kernel_model.h"
#include "sim/stages/compute_engine.h"
#include "traces/model/expects.h"

namespace corun::sim {

SmResources demand_of_worker(const Kernel& kernel, const Gpu& gpu) {
  if (gpu.persistent_shared_bytes == 0) return demand_of(kernel, gpu.sm);
  Kernel worker;
  worker.block = kernel.block;
  worker.registers_per_thread = kernel.registers_per_thread;
  worker.static_shared_memory_bytes = kernel.static_shared_memory_bytes + gpu.persistent_shared_bytes;
  worker.dynamic_shared_memory_bytes = kernel.dynamic_shared_memory_bytes;
  return demand_of(worker, gpu.sm);
}

namespace {

/// All that a shape depends on, as bytes; before what has no fixed length stands how much there is of it.
std::string key_of(const Kernel& k, Time solo_time) {
  // Each field has its place here: with one more this does not compile until it is said what that decides.
  const auto& [name, origin, grid, block, cluster, registers, static_shared, dynamic_shared, idempotent, ptx, solo, solo_sms,
               solo_by_sms, places_free_by_sms, persistent_by_ctas, may_be_stopped, block_times, counters, code] = k;
  const auto& [dram_read, dram_write, l2, l1, instructions, tensor, issue, warps, fp64, pipes, duration] = counters;
  std::string key;
  const auto add = [&key](const auto&... values) {
    (key.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  };
  add(grid.x, grid.y, grid.z, block.x, block.y, block.z, cluster.x, cluster.y, cluster.z, registers);
  add(k.shared_memory_bytes(), solo_time, solo.value_or(Time{}), solo_sms);
  add(solo_by_sms.size(), persistent_by_ctas.size(), block_times.size(), pipes.size(), places_free_by_sms.size());
  for (const auto* times : {&solo_by_sms, &places_free_by_sms, &persistent_by_ctas})
    for (const auto& [n, time] : *times) add(n, time);
  const Kernel::Stoppable stoppable = may_be_stopped.value_or(Kernel::Stoppable{});
  add(may_be_stopped.has_value(), stoppable.time, stoppable.workers_stay);
  for (const Time time : block_times) add(time);
  for (const auto& [pipe, busy] : pipes) {
    add(pipe.size(), busy);
    key += pipe;
  }
  for (const auto& counter : {dram_read, dram_write, l2, l1, instructions, tensor, issue, warps, fp64, duration})
    add(counter.value_or(-1));
  add(name.size());
  return key += name;  // which tells its class, and by how many columns it multiplies
}

/// Blocks take longer where the memory gives less than they take alone.
void move_to(Shape& shape, const MemoryLimits& memory) {
  if (!shape.load.contends()) return;
  const double before = shape.load.alone_ps;
  settle_alone(shape.load, memory);
  const double longer = static_cast<double>(shape.block_alone.count()) * shape.load.alone_ps / before;
  shape.block_alone = Time{static_cast<std::int64_t>(longer)};
}

}  // namespace

std::shared_ptr<const KernelModel> Shapes::model_of(const std::string& key, const Kernel& kernel,
                                                    Time solo_time) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = models_.find(key); found != models_.end()) return found->second;
  }
  auto model = std::make_shared<const KernelModel>(kernel, solo_time, gpu_);
  const std::scoped_lock lock(mutex_);
  return models_.emplace(key, std::move(model)).first->second;
}

Shape Shapes::of(const Kernel& kernel, Time solo_time, std::uint32_t sms) {
  CORUN_EXPECTS(sms != 0 && sms <= gpu_.sms);
  CORUN_EXPECTS(solo_time >= Time{});  // 0: not known
  const std::pair key(key_of(kernel, solo_time), sms);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = shapes_.find(key); found != shapes_.end()) return found->second;
  }
  Shape shape = make(kernel, *model_of(key.first, kernel, solo_time), sms);
  if (memory_) move_to(shape, *memory_);
  const std::scoped_lock lock(mutex_);
  return shapes_.emplace(key, shape).first->second;
}

Shape Shapes::make(const Kernel& kernel, const KernelModel& model, std::uint32_t sms) const {
  Shape shape{model.block_alone(sms), demand_of(kernel, gpu_.sm), model.load(sms), model.persistent_task(),
              model.stoppable_task()};
  if (!shape.load.contends() || !kernel.block_times.empty()) return shape;
  // Blocks that start together do so a little early, and the last wave goes faster as it thins out, so that
  // the others take a little longer than the average: find the block time by simulating the kernel alone.
  const bool one_wave = kernel.blocks() <= shape.load.extent.places;
  const Time target = model.solo_time(sms) - kernel.places_free(sms);
  SmMask allowed;
  for (std::uint32_t rank = 0; rank < sms; ++rank) allowed.set(rank);
  Work work;
  work.load = shape.load;
  work.record.blocks = kernel.blocks();
  Timeline nobody;
  ComputeEngine engine(gpu_, nobody, {.contention = contention_});
  for (int i = 0; i < 4; ++i) {
    work.block_alone = shape.block_alone;
    const Time length = length_alone(engine, work, allowed, shape.demand);
    const double ratio = static_cast<double>(target.count()) / static_cast<double>(length.count());
    if (one_wave ? length == target : ratio > 1 - 1e-5 && ratio < 1 + 1e-5) break;
    const auto scaled =
        Time{static_cast<std::int64_t>(static_cast<double>(shape.block_alone.count()) * ratio)};
    shape.block_alone = std::max(Time{1}, one_wave ? shape.block_alone + (target - length) : scaled);
  }
  return shape;
}

}  // namespace corun::sim
