#include "traces/import/kineto_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::kineto {
namespace {

/// Grids in work-items may be larger than those in blocks.
void check_grids(const Records& records, const std::string& file) {
  for (const GpuOp& op : records.ops) {
    if (op.kind != GpuOp::Kind::kernel) continue;  // which has a shape
    const Shape& shape = records.shapes[op.shape];
    if (shape.grid.y > 65535 || shape.grid.z > 65535)
      throw InputError(file, "", fmt::format("the kernel {} has a grid of {}x{}x{} blocks, which no launch can have",
                                             in_quotes(shape.name), shape.grid.x, shape.grid.y, shape.grid.z),
                       "expected at most 65535 in y and z: check the tool that wrote the file");
  }
}

}  // namespace

void LaunchShapes::complete(Records& records, const std::string& file) {
  find_in_calls(records);
  count_blocks(records);
  find_in_names(records);
  check_grids(records, file);
}

/// Kernels without a shape get that of their launch call.
void LaunchShapes::find_in_calls(Records& records) {
  std::erase_if(records.shapeless, [&](std::uint32_t i) {
    GpuOp& op = records.ops[i];
    const auto call = op.correlation ? of_call_.find(*op.correlation) : of_call_.end();
    if (call == of_call_.end()) return false;
    Shape shape = records.shapes[op.shape];
    shape.grid = call->second.grid, shape.block = call->second.block;
    shape.shared_memory_bytes = std::max(shape.shared_memory_bytes, call->second.shared_memory_bytes);
    op.shape = of(std::move(shape), records);
    ++records.shapes_of_calls;
    return true;
  });
}

/// Else that which most kernels of their name have.
void LaunchShapes::find_in_names(Records& records) const {
  if (records.shapeless.empty()) return;
  std::map<std::string, std::map<std::uint32_t, std::size_t>> of_name;
  std::vector<bool> without(records.ops.size());
  for (const std::uint32_t i : records.shapeless) without[i] = true;
  for (std::size_t i = 0; i < records.ops.size(); ++i)
    if (records.ops[i].kind == GpuOp::Kind::kernel && !without[i])
      ++of_name[records.shapes[records.ops[i].shape].name][records.ops[i].shape];
  std::erase_if(records.shapeless, [&](std::uint32_t i) {
    GpuOp& op = records.ops[i];
    const auto same = of_name.find(records.shapes[op.shape].name);
    if (same == of_name.end()) return false;
    op.shape = std::max_element(same->second.begin(), same->second.end(), [](const auto& x, const auto& y) {
                 return x.second < y.second;
               })->first;
    ++records.shapes_of_names;
    return true;
  });
}

/// hipExtModuleLaunchKernel takes the grid in work-items, and what it launched is recorded so.
void LaunchShapes::count_blocks(Records& records) {
  if (in_work_items_.empty()) return;
  std::vector<bool> without(records.ops.size());
  for (const std::uint32_t i : records.shapeless) without[i] = true;
  for (std::size_t i = 0; i < records.ops.size(); ++i) {
    GpuOp& op = records.ops[i];
    if (without[i] || op.kind != GpuOp::Kind::kernel || !op.correlation || !in_work_items_.contains(*op.correlation)) continue;
    Shape shape = records.shapes[op.shape];
    const auto blocks = [](std::uint32_t items, std::uint32_t threads) { return (items + threads - 1) / threads; };
    shape.grid = {blocks(shape.grid.x, shape.block.x), blocks(shape.grid.y, shape.block.y),
                  blocks(shape.grid.z, shape.block.z)};
    op.shape = of(std::move(shape), records);
    ++records.work_items;
  }
}

}  // namespace corun::kineto
