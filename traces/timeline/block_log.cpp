// One JSON file a stream, written kernel by kernel.
#include "traces/timeline/block_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "traces/model/error.h"

namespace corun {
namespace {

constexpr std::uint32_t kThreadsPerSm = 2048;
constexpr int kTimeWidth = 20;

std::string seconds(Time t) {
  constexpr std::int64_t kPerSecond = 1'000'000'000'000;
  return fmt::format("{}.{:012}", t.count() / kPerSecond, t.count() % kPerSecond);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Time first_arrival(const Arrivals& arrivals) {
  if (const auto* periodic = std::get_if<Periodic>(&arrivals)) return periodic->offset;
  if (const auto* once = std::get_if<Once>(&arrivals)) return once->at;
  if (const auto* times = std::get_if<ExplicitTimes>(&arrivals); times != nullptr && !times->times.empty())
    return *std::ranges::min_element(times->times);
  return {};
}

/// Clients of one process share a number; one that names none is a process of its own.
std::uint32_t process_number(const Trace& trace, ClientId client) {
  const std::string& process = trace.clients[client.value].process;
  std::uint32_t first = client.value;
  for (std::uint32_t i = client.value; i-- > 0;)
    if (!process.empty() && trace.clients[i].process == process) first = i;
  return first + 1;
}

/// By operation: whether the host waits for it before it hands its stream anything more, by a sync, a free or
/// the end of the request.
std::vector<bool> waited_for(const Client& client, const Program& program) {
  const auto* loop = std::get_if<ClosedLoop>(&client.arrivals);
  std::vector<bool> waits(program.streams.size(), loop == nullptr || loop->in_flight == 1);
  std::vector<bool> result(program.ops.size());
  for (std::size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    if (std::holds_alternative<Sync>(op.what) || std::holds_alternative<Free>(op.what)) {
      waits.assign(waits.size(), true);
    } else if (!is_host_call(op)) {
      result[i] = waits[op.stream.value];
      waits[op.stream.value] = false;
    }
  }
  return result;
}

struct Interval {
  Time begin = kNever, end{};
  bool empty() const { return begin == kNever; }
  void add(Time from, Time to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
};

/// What happened to a stream as a whole, written last but standing first in its file.
struct Summary {
  Interval copy_in, execute, copy_out;

  /// Always as long, so that it can be written over.
  std::string text() const {
    const Time before = execute.empty() ? Time{} : execute.begin, after = execute.end;
    const auto pair = [](Time from, Time to) {
      return fmt::format("[{:>{}}, {:>{}}]", seconds(from), kTimeWidth, seconds(to), kTimeWidth);
    };
    const auto in = copy_in.empty() ? Interval{before, before} : copy_in;
    const auto out = copy_out.empty() ? Interval{after, after} : copy_out;
    return fmt::format(
        "{{\"copy_in_times\": {}, \"execute_times\": {}, \"copy_out_times\": {}, \"cpu_times\": {}}}",
        pair(in.begin, in.end), pair(before, after), pair(out.begin, out.end), pair(in.begin, out.end));
  }
};

struct StreamLog {
  std::filesystem::path path;
  std::ofstream out;  // closed until the first kernel
  std::streampos summary_at;
  Summary summary;
};

void check(const StreamLog& log) {
  if (!log.out)
    throw InputError(log.path.string(), "", "cannot be written",
                     "name a prefix in a folder that exists and has room");
}

}  // namespace

class BlockLogSink::Log {
 public:
  std::vector<StreamLog> streams;                                      // by client, then stream
  std::vector<std::size_t> first_of_client;                            // index of its first stream
  std::vector<std::vector<bool>> waited_for;                           // by client, then operation
  std::unordered_map<std::uint32_t, std::vector<BlockRecord>> blocks;  // by serial of launches still running

  StreamLog& at(ClientId client, StreamId stream) {
    return streams[first_of_client[client.value] + stream.value];
  }
};

BlockLogSink::BlockLogSink(const Trace& trace, const Gpu& gpu, std::string prefix)
    : trace_(trace), gpu_(gpu), prefix_(std::move(prefix)), log_(std::make_unique<Log>()) {
  for (const Client& client : trace_.clients) {
    log_->first_of_client.push_back(log_->streams.size());
    const Program& program = trace_.programs[client.program.value];
    log_->streams.resize(log_->streams.size() + program.streams.size());
    log_->waited_for.push_back(waited_for(client, program));
  }
}

BlockLogSink::~BlockLogSink() = default;

void BlockLogSink::record(std::span<const BlockRecord> blocks) {
  for (const BlockRecord& b : blocks) log_->blocks[b.launch.serial].push_back(b);
}

void BlockLogSink::record(const CopyRecord& r) {
  const Op& op = trace_.programs[trace_.clients[r.client.value].program.value].ops[r.op.value];
  const auto* copy = std::get_if<Copy>(&op.what);
  if (copy == nullptr) return;
  Summary& summary = log_->at(r.client, r.stream).summary;
  if (copy->direction == CopyDirection::host_to_device && summary.execute.empty())
    summary.copy_in.add(r.started, r.finished);
  if (copy->direction == CopyDirection::device_to_host && !summary.execute.empty())
    summary.copy_out.add(r.started, r.finished);
}

void BlockLogSink::record(const KernelRecord& r) {
  const auto found = log_->blocks.find(r.launch.serial);
  if (found == log_->blocks.end()) return;
  std::vector<BlockRecord> blocks = std::move(found->second);
  log_->blocks.erase(found);
  std::ranges::sort(blocks, {}, [](const BlockRecord& b) { return std::tuple(b.block, b.start); });

  const Client& client = trace_.clients[r.client.value];
  const Program& program = trace_.programs[client.program.value];
  const Kernel& kernel = trace_.kernels[r.kernel.value];
  StreamLog& log = log_->at(r.client, r.stream);
  const auto number = static_cast<std::size_t>(&log - log_->streams.data()) + 1;

  if (!log.out.is_open()) {
    log.path = fmt::format("{}{}.json", prefix_, number);
    log.out.open(log.path, std::ios::binary);
    const std::string& stream_name = program.streams[r.stream.value].name;
    const std::string label =
        program.streams.size() == 1
            ? client.name
            : fmt::format("{}, stream {}", client.name,
                          stream_name.empty() ? std::to_string(r.stream.value) : stream_name);
    log.out << fmt::format(
        "{{\n\"scenario_name\": {},\n\"benchmark_name\": {},\n\"label\": {},\n\"max_resident_threads\": {},\n"
        "\"data_size\": {},\n\"release_time\": {},\n\"PID\": {},\n\"TID\": {},\n\"times\": [{{}},\n",
        quoted(trace_.name), quoted(program.name), quoted(label), std::uint64_t{gpu_.sms} * kThreadsPerSm,
        client.memory_bytes, seconds(first_arrival(client.arrivals)), process_number(trace_, r.client),
        number);
    log.summary_at = log.out.tellp();
    log.out << log.summary.text();
  }

  Time last_end{};
  fmt::memory_buffer times, sms;
  for (const BlockRecord& b : blocks) {
    const char* separator = &b == blocks.data() ? "" : ", ";
    const Time start = std::max(b.start, b.dispatched), end = std::max(b.end, start + Time{1});
    fmt::format_to(std::back_inserter(times), "{}{}, {}", separator, seconds(start), seconds(end));
    fmt::format_to(std::back_inserter(sms), "{}{}", separator, b.sm.value);
    last_end = std::max(last_end, end);
  }
  const Time call = handed_over(client, program, r.op) == HandedOver::by_itself ? gpu_.launch_call : Time{};
  const Time returned = std::max(r.submitted, r.ready + call);
  const bool waited = r.finished != kNever && log_->waited_for[r.client.value][r.op.value];
  const Time learnt = waited ? r.finished + gpu_.completion_notice : Time{};
  log.out << fmt::format(
      ",\n{{\"kernel_name\": {}, \"block_count\": {}, \"thread_count\": {}, \"shared_memory\": {}, "
      "\"cuda_launch_times\": [{}, {}, {}], \"ee_queue_time\": {}, \"block_times\": [{}], "
      "\"block_smids\": [{}], \"cpu_core\": 0}}",
      quoted(kernel.name), blocks.size(), kernel.threads_per_block(), kernel.shared_memory_bytes(),
      seconds(r.ready), seconds(returned), waited ? seconds(learnt) : "0.0", seconds(r.queued),
      fmt::to_string(times), fmt::to_string(sms));
  check(log);
  log.summary.execute.add(r.ready, waited ? learnt : last_end);
  log.summary.copy_out = {};
}

std::vector<std::filesystem::path> BlockLogSink::finish() {
  std::vector<std::filesystem::path> paths;
  for (StreamLog& log : log_->streams) {
    if (!log.out.is_open()) continue;
    log.out << "\n]}\n";
    log.out.seekp(log.summary_at);
    log.out << log.summary.text();
    log.out.close();
    check(log);
    // Numbers are consecutive, but which streams run a block is known only now.
    const std::filesystem::path path = fmt::format("{}{}.json", prefix_, paths.size() + 1);
    if (path != log.path) std::filesystem::rename(log.path, path);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace corun
