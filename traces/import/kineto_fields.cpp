#include "traces/import/kineto_fields.h"

#include <unordered_map>

namespace corun::kineto {

Field event_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> fields = {
      {"name", Field::name}, {"cat", Field::cat}, {"ph", Field::ph},    {"ts", Field::ts},
      {"dur", Field::dur},   {"tid", Field::tid}, {"pid", Field::pid},
      {"args", Field::args}};
  const auto it = fields.find(key);
  return it == fields.end() ? Field::none : it->second;
}

Field argument_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> fields = {
      {"device", Field::device},
      {"context", Field::context},
      {"stream", Field::stream},
      {"correlation", Field::correlation},
      {"registers per thread", Field::registers},
      {"shared memory", Field::shared_memory},
      {"grid", Field::grid},
      {"block", Field::block},
      {"bytes", Field::bytes},
      {"blocks per SM", Field::blocks_per_sm},
      {"name", Field::label},
      {"correlation_id", Field::correlation},
      {"kernel_details", Field::kernel_details},
      {"memcpy_details", Field::memcpy_details},
      {"memset_details", Field::memset_details},
      {"cuda_sync_kind", Field::sync_kind},
      {"wait_on_stream", Field::wait_on_stream},
      {"wait_on_cuda_event_record_corr_id", Field::record_correlation}};
  const auto it = fields.find(key);
  return it == fields.end() ? Field::none : it->second;
}

Field device_field(std::string_view key) {
  static const std::unordered_map<std::string_view, Field> fields = {
      {"id", Field::id},
      {"name", Field::name},
      {"numSms", Field::sms},
      {"computeMajor", Field::compute_major},
      {"computeMinor", Field::compute_minor},
      {"totalGlobalMem", Field::memory}};
  const auto it = fields.find(key);
  return it == fields.end() ? Field::none : it->second;
}

}  // namespace corun::kineto
