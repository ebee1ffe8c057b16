// What the numbers of the tools mean.
#include <array>

#include "traces/import/kineto_records.h"

namespace corun::kineto {

CopyDirection direction_of(bool from_host, bool to_host) {
  return from_host ? CopyDirection::host_to_device
         : to_host ? CopyDirection::device_to_host
                   : CopyDirection::device_to_device;
}

std::optional<CuptiCopy> cupti_copy(std::int64_t kind) {
  enum { kToDevice = 1, kToHost, kToArray, kFromArray, kHostToHost = 9, kBetweenDevices, kMigratesToDevice, kMigratesToHost, kMigratesWithin };  // CUpti_ActivityMemcpyKind, ENUM_CUDA_MEMCPY_OPER
  if (kind == kHostToHost) return std::nullopt;
  return CuptiCopy{direction_of(kind == kToDevice || kind == kToArray || kind == kMigratesToDevice,
                                kind == kToHost || kind == kFromArray || kind == kMigratesToHost),
                   kind == kBetweenDevices, kind >= kMigratesToDevice && kind <= kMigratesWithin};
}

std::uint32_t ShapeIndex::of(Shape shape, std::vector<Shape>& shapes) {
  const auto size = [](Dim3 d) { return std::array{d.x, d.y, d.z}; };
  const auto [known, is_new] = known_.try_emplace(
      Key{shape.name, size(shape.grid), size(shape.block), size(shape.cluster.value_or(Dim3{})), shape.registers_per_thread,
          shape.static_shared_memory_bytes, shape.shared_memory_bytes},
      static_cast<std::uint32_t>(shapes.size()));
  if (is_new) shapes.push_back(std::move(shape));
  return known->second;
}

}  // namespace corun::kineto
