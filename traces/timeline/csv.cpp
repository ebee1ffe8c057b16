// Rows of requests.csv and kernels.csv.
#include "traces/timeline/csv.h"

#include <fmt/format.h>

#include <ostream>
#include <string>
#include <string_view>

namespace corun {

std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string out = "\"";
  for (char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

namespace {

std::string ns(Time t) {
  if (t == kNever) return {};
  const std::int64_t ps = t.count();
  const std::uint64_t size = ps < 0 ? 0 - static_cast<std::uint64_t>(ps) : static_cast<std::uint64_t>(ps);
  return fmt::format("{}{}.{:03}", ps < 0 ? "-" : "", size / 1000, size % 1000);
}

}  // namespace

CsvSink::CsvSink(const Trace& trace, std::ostream& requests, std::ostream& kernels)
    : trace_(trace), requests_(requests), kernels_(kernels) {
  requests_ << "client,request,arrival_ns,started_ns,finished_ns,latency_ns,dropped,work_done_ns\n";
  kernels_
      << "launch,client,request,stream,op,kernel,priority,ctas,blocks,evictions,preemptions,"
         "redone_blocks,ready_ns,submitted_ns,queued_ns,slotted_ns,started_ns,last_block_ns,finished_ns\n";
}

void CsvSink::record(const RequestRecord& r) {
  const Time started = r.dropped ? kNever : r.started;
  const Time finished = r.dropped ? kNever : r.finished;
  requests_ << fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(trace_.clients[r.client.value].name),
                           r.request, ns(r.arrival), ns(started), ns(finished),
                           ns(finished == kNever ? kNever : finished - r.arrival), r.dropped ? 1 : 0,
                           ns(r.work_done));
}

void CsvSink::record(const KernelRecord& r) {
  kernels_ << fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", r.launch.serial,
                          csv_field(trace_.clients[r.client.value].name), r.request, r.stream.value,
                          r.op.value, csv_field(trace_.kernels[r.kernel.value].name), r.priority, r.ctas,
                          r.blocks, r.evictions, r.preemptions, r.redone_blocks, ns(r.ready), ns(r.submitted),
                          ns(r.queued), ns(r.slotted), ns(r.started), ns(r.last_block), ns(r.finished));
}

}  // namespace corun
