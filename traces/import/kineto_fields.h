// The keys of a recording's records that are read.
#pragma once

#include <cstdint>
#include <string_view>

namespace corun::kineto {

enum class Field : std::uint8_t {
  none,
  name,
  cat,
  ph,
  ts,
  dur,
  tid,
  pid,
  label,
  args,
  device,
  context,
  stream,
  correlation,
  registers,
  shared_memory,
  grid,
  block,
  bytes,
  blocks_per_sm,
  sync_kind,
  wait_on_stream,
  record_correlation,
  id,
  sms,
  compute_major,
  compute_minor,
  memory,
  request_time,
  kernel_details,
  memcpy_details,
  memset_details
};

/// Of an event, of its `args`, of a device.
Field event_field(std::string_view key);
Field argument_field(std::string_view key);
Field device_field(std::string_view key);

}  // namespace corun::kineto
