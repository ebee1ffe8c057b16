#include "traces/import/nsys_records.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "traces/import/import_notes.h"

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::nsys {
namespace {

using kineto::Call;
using kineto::GpuOp;
using kineto::Nanoseconds;
using kineto::Shape;
using Process = RecordedProcess;

/// A process' number within the number of a process or thread: the thread is in the low 24 bits.
constexpr std::int64_t kThreads = std::int64_t{1} << 24;
constexpr std::uint64_t kMaxBlocks = std::numeric_limits<std::uint32_t>::max();

class Database {
 public:
  explicit Database(const std::filesystem::path& file) : file_(file.string()) {
    if (sqlite3_open_v2(file_.c_str(), &db_, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK) fail();
  }
  ~Database() { sqlite3_close(db_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[noreturn]] void fail() const {
    throw InputError(file_, "", fmt::format("cannot be read as SQLite: {}", sqlite3_errmsg(db_)),
                     "export it again: nsys export --type sqlite report.nsys-rep");
  }
  sqlite3* get() const { return db_; }
  const std::string& file() const { return file_; }

  /// Names of columns; empty: there is no such table.
  std::set<std::string> columns(const std::string& table) const;

 private:
  std::string file_;
  sqlite3* db_ = nullptr;
};

/// Rows of a statement, one at a time.
class Rows {
 public:
  Rows(const Database& db, const std::string& sql) : db_(db) {
    if (sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) db.fail();
  }
  ~Rows() { sqlite3_finalize(statement_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  bool next() {
    const int result = sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) db_.fail();
    return result == SQLITE_ROW;
  }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr ? "" : text;
  }

 private:
  const Database& db_;
  sqlite3_stmt* statement_ = nullptr;
};

std::set<std::string> Database::columns(const std::string& table) const {
  std::set<std::string> names;
  Rows rows(*this, fmt::format("PRAGMA table_info({})", table));
  while (rows.next()) names.insert(rows.text(1));
  return names;
}

/// "SELECT a, b, NULL FROM t": columns that a version lacks are null.
std::string select(const std::string& table, const std::set<std::string>& there,
                   const std::vector<const char*>& wanted, const std::string& rest = {}) {
  std::string sql = "SELECT ";
  for (std::size_t i = 0; i < wanted.size(); ++i)
    sql += fmt::format("{}{}", i == 0 ? "" : ", ", there.contains(wanted[i]) ? wanted[i] : "NULL");
  return sql + " FROM " + table + rest;
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const std::string& range, std::optional<std::int64_t> device)
      : db_(file), range_(range), device_(device) {}

  std::vector<Process> read() {
    read_strings();
    read_kernels();
    if (processes_.empty()) refuse_no_kernels();
    read_copies("CUPTI_ACTIVITY_KIND_MEMCPY", GpuOp::Kind::copy);
    read_copies("CUPTI_ACTIVITY_KIND_MEMSET", GpuOp::Kind::memset);
    read_calls();
    for (auto& [number, process] : processes_) join_migrations(process);
    read_synchronizations();
    if (!range_.empty()) read_ranges();
    read_devices();
    read_names();
    note_what_is_missing();
    std::vector<Process> all;
    for (auto& [number, process] : processes_) all.push_back(std::move(process));
    std::stable_sort(all.begin(), all.end(), [](const Process& a, const Process& b) {
      return a.records.ops.front().start < b.records.ops.front().start;
    });
    return all;
  }

 private:
  /// Number of the process of a global number of a process or thread; old versions have none: one process.
  static std::int64_t number_of(const Rows& rows, int column) { return rows.is_null(column) ? 0 : rows.integer(column) / kThreads; }

  Process* process(std::int64_t number) {
    const auto known = processes_.find(number);
    if (known != processes_.end()) return &known->second;
    // A table without numbers of processes beside one that has them.
    return number == 0 && processes_.size() == 1 ? &processes_.begin()->second : nullptr;
  }

  void read_strings() {
    const auto there = db_.columns("StringIds");
    if (there.empty()) return;
    Rows rows(db_, "SELECT id, value FROM StringIds");
    while (rows.next()) strings_.emplace(rows.integer(0), rows.text(1));
  }
  const std::string& string(std::int64_t id) const {
    static const std::string none = "?";
    const auto known = strings_.find(id);
    return known == strings_.end() ? none : known->second;
  }

  [[noreturn]] void refuse_no_kernels() const {
    if (!db_.columns("CUPTI_ACTIVITY_KIND_GRAPH_TRACE").empty())
      throw InputError(db_.file(), "", "it has CUDA graphs as wholes, and no kernels",
                       "record the nodes of graphs: nsys profile --cuda-graph-trace=node");
    if (device_ && !db_.columns("CUPTI_ACTIVITY_KIND_KERNEL").empty())
      throw InputError(db_.file(), "--device", fmt::format("no kernels of device {}", *device_), "leave the option out");
    refuse_other_database();
    const std::string told = diagnostics();
    const std::int64_t launches = launch_calls();
    if (launches == 0 && told.empty())
      throw InputError(db_.file(), "", "there are no GPU kernels in it (no rows in CUPTI_ACTIVITY_KIND_KERNEL)",
                       "record with nsys profile --trace=cuda,nvtx a program that uses the GPU");
    throw InputError(
        db_.file(), "",
        fmt::format("there are {} in it (no rows in CUPTI_ACTIVITY_KIND_KERNEL){}",
                    launches == 0 ? "no GPU kernels" : fmt::format("{} launch calls, but no GPU kernels", launches),
                    told.empty() ? ": the tool saw the host only" : fmt::format("; the file says why: {}", told)),
        "look for what keeps the tool from the GPU: another profiler, WSL, missing permissions, a driver newer than nsys");
  }

  void refuse_other_database() const {
    Rows rows(db_, "SELECT name FROM sqlite_master");
    bool of_nsys = false;
    while (rows.next()) {
      const std::string name = rows.text(0);
      if (name.starts_with("rocpd_"))
        throw InputError(db_.file(), "", "is a database of rocprofv3 (rocpd)", "record with rocprofv3 --output-format json; then sim import rocprof");
      if (name == "StringTable" || name == "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
        throw InputError(db_.file(), "", "is a database of nvprof", "record with Nsight Systems: nsys profile, then nsys export --type sqlite");
      of_nsys |= name == "StringIds" || name.starts_with("CUPTI_") || name.starts_with("TARGET_INFO") || name == "DIAGNOSTIC_EVENT";
    }
    if (!of_nsys)
      throw InputError(db_.file(), "", "is an SQLite database, but has no table of Nsight Systems, and so no GPU kernels",
                       "give what nsys export --type sqlite wrote");
  }

  /// The tool's own diagnostics, the worst first.
  std::string diagnostics() const {
    constexpr std::size_t kMost = 3;
    const auto there = db_.columns("DIAGNOSTIC_EVENT");
    if (!there.contains("text")) return "";
    std::vector<std::string> texts;
    Rows rows(db_, select("DIAGNOSTIC_EVENT", there, {"text"}, there.contains("severity") ? " WHERE severity >= 2 ORDER BY severity DESC" : ""));
    while (texts.size() < kMost && rows.next())
      if (std::string text = in_quotes(rows.text(0)); std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  std::int64_t launch_calls() const {
    const auto there = db_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    if (!there.contains("nameId")) return 0;
    std::int64_t count = 0;
    Rows rows(db_, "SELECT nameId, COUNT(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY nameId");
    while (rows.next()) {
      const auto kind = kineto::call_kind(string(rows.integer(0)));
      if (kind == Call::Kind::launch || kind == Call::Kind::graph_launch) count += rows.integer(1);
    }
    return count;
  }

  void read_kernels() {
    const auto there = db_.columns("CUPTI_ACTIVITY_KIND_KERNEL");
    if (there.empty()) return;
    for (const char* required : {"start", "end", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"})
      if (!there.contains(required))
        throw InputError(db_.file(), "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("has no column {}", required),
                         "export it again with a newer nsys");
    enum { kStart, kEnd, kDevice, kContext, kStream, kCorrelation, kProcess, kName, kShort, kRegisters, kGridX, kGridY, kGridZ,
           kBlockX, kBlockY, kBlockZ, kStatic, kDynamic, kClusterX, kClusterY, kClusterZ };
    Rows rows(db_, select("CUPTI_ACTIVITY_KIND_KERNEL", there,
                          {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName",
                           "shortName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
                           "staticSharedMemory", "dynamicSharedMemory", "clusterX", "clusterY", "clusterZ"},
                          " ORDER BY start"));
    while (rows.next()) {
      if (device_ && rows.integer(kDevice) != *device_) continue;
      Process& process = processes_[number_of(rows, kProcess)];
      GpuOp op = gpu_op(GpuOp::Kind::kernel, rows, {kStart, kEnd, kDevice, kContext, kStream, kCorrelation});
      Shape shape;
      shape.name = string(rows.is_null(kName) ? rows.integer(kShort) : rows.integer(kName));
      shape.grid = dims(rows, kGridX, "grid", {2147483647, 65535, 65535}, kMaxBlocks);
      shape.block = dims(rows, kBlockX, "block", {1024, 1024, 64}, 1024);
      if (!rows.is_null(kRegisters) && rows.integer(kRegisters) > 0)
        shape.registers_per_thread = count(rows, kRegisters, "registersPerThread", 256);
      shape.static_shared_memory_bytes = count(rows, kStatic, "staticSharedMemory", 1 << 24);
      shape.shared_memory_bytes = *shape.static_shared_memory_bytes + count(rows, kDynamic, "dynamicSharedMemory", 1 << 24);
      if (!rows.is_null(kClusterX) && rows.integer(kClusterX) > 0) {
        const Dim3 cluster = dims(rows, kClusterX, "cluster", {16, 16, 16}, 16);
        if (shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 || shape.grid.z % cluster.z != 0)
          throw InputError(db_.file(), "CUPTI_ACTIVITY_KIND_KERNEL",
                           fmt::format("a grid of {}x{}x{} blocks, which clusters of {}x{}x{} do not fill", shape.grid.x,
                                       shape.grid.y, shape.grid.z, cluster.x, cluster.y, cluster.z),
                           "export it again");
        shape.cluster = cluster;
      }
      op.shape = shapes_[&process].of(std::move(shape), process.records.shapes);
      process.records.ops.push_back(op);
      process.records.any_events = true;
    }
  }

  Nanoseconds time(const Rows& rows, int column) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;  // 146 years: sums of two fit 64 bits
    const std::int64_t ns = rows.integer(column);
    if (ns < -kMost || ns > kMost)
      throw InputError(db_.file(), "", fmt::format("{} ns is no time of a recording", ns), "export it again");
    return Nanoseconds{ns};
  }

  Nanoseconds duration(const Rows& rows, int start, int end) const {
    const Nanoseconds lasted = time(rows, end) - time(rows, start);
    if (lasted < Nanoseconds{})
      throw InputError(db_.file(), "", fmt::format("something ends before it starts, at {} ns", rows.integer(start)),
                       "export it again");
    return lasted;
  }

  GpuOp gpu_op(GpuOp::Kind kind, const Rows& rows, std::array<int, 6> columns) const {
    GpuOp op;
    op.kind = kind;
    op.start = time(rows, columns[0]);
    op.duration = duration(rows, columns[0], columns[1]);
    op.stream = {rows.integer(columns[2]), rows.integer(columns[3]), rows.integer(columns[4])};
    if (rows.integer(columns[5]) > 0) op.correlation = static_cast<std::uint64_t>(rows.integer(columns[5]));
    return op;
  }

  Dim3 dims(const Rows& rows, int first, const char* what, std::array<std::int64_t, 3> most, std::uint64_t in_all) const {
    std::array<std::int64_t, 3> size{};
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(i);
      size[at] = rows.integer(first + i);
      if (size[at] < 1 || size[at] > most[at])
        throw InputError(db_.file(), "CUPTI_ACTIVITY_KIND_KERNEL",
                         fmt::format("a {} of {} in dimension {}, which no launch can have", what, size[at], i),
                         "export it again");
    }
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(size[i]); };
    const Dim3 all{at(0), at(1), at(2)};
    if (all.count() > in_all)
      throw InputError(db_.file(), "CUPTI_ACTIVITY_KIND_KERNEL",
                       fmt::format("a {} of {} in all, more than the {} that a launch can have", what, all.count(), in_all),
                       "export it again");
    return all;
  }

  std::uint32_t count(const Rows& rows, int column, const char* name, std::int64_t most) const {
    const std::int64_t n = rows.integer(column);
    if (n < 0 || n > most)
      throw InputError(db_.file(), "CUPTI_ACTIVITY_KIND_KERNEL", fmt::format("an impossible {}, {}", name, n), "export it again");
    return static_cast<std::uint32_t>(n);
  }

  void read_copies(const char* table, GpuOp::Kind kind) {
    const auto there = db_.columns(table);
    if (there.empty()) return;
    enum { kStart, kEnd, kDevice, kContext, kStream, kCorrelation, kProcess, kBytes, kKind, kSource, kTarget };
    Rows rows(db_, select(table, there,
                          {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes",
                           "copyKind", "srcKind", "dstKind"},
                          " ORDER BY start"));
    while (rows.next()) {
      Process* process = this->process(number_of(rows, kProcess));
      if (process == nullptr && rows.is_null(kProcess)) ++of_no_process_;
      if (process == nullptr || (device_ && rows.integer(kDevice) != *device_)) continue;
      GpuOp op = gpu_op(kind, rows, {kStart, kEnd, kDevice, kContext, kStream, kCorrelation});
      op.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, rows.integer(kBytes)));
      if (op.bytes > kineto::kMostBytes)
        throw InputError(db_.file(), table, fmt::format("an impossible number of bytes, {}", op.bytes), "export it again");
      const std::optional<kineto::CuptiCopy> copy = kineto::cupti_copy(rows.integer(kKind));
      if (op.bytes == 0 || !copy) {
        ++process->records.skipped_copies;
        continue;
      }
      if (kind == GpuOp::Kind::copy) {
        op.direction = copy->direction, op.peer = copy->peer, op.migration = copy->migration;
        enum { kPageable, kPinned, kManaged = 4, kManagedStatic = 6 };  // ENUM_CUDA_MEM_KIND
        const int host_side = op.direction == CopyDirection::host_to_device ? kSource : kTarget;
        const std::int64_t memory = rows.is_null(host_side) ? -1 : rows.integer(host_side);
        const bool of_host = op.direction != CopyDirection::device_to_device && !op.migration;
        op.pageable = of_host && (memory == kPageable || memory == kManaged || memory == kManagedStatic);
        op.memory_unknown = of_host && !op.pageable && memory != kPinned;
      }
      process->records.ops.push_back(op);
    }
  }

  /// Migrations of managed memory have no call.  Those that a running kernel met become one copy of the driver's each way, which
  /// goes beside it and was issued with it: the kernel's time holds its waits for them.  Those that a kernel waited for, called
  /// before them, become one each way before it, on its stream, as of a prefetch.
  void join_migrations(Process& process) const {
    std::vector<GpuOp>& all = process.records.ops;
    if (std::ranges::none_of(all, &GpuOp::migration)) return;
    std::vector<GpuOp> ops = std::exchange(all, {});
    const std::int64_t context = ops.front().stream.context;  // a kernel's
    std::ranges::stable_sort(ops, {}, &GpuOp::start);
    const auto end = [](const GpuOp& op) { return op.start + op.duration; };
    std::unordered_map<std::uint64_t, Nanoseconds> called;
    for (const Call& call : process.records.calls) called.try_emplace(call.correlation, call.start);
    std::vector<const GpuOp*> next(ops.size());  // kernel
    for (std::size_t i = ops.size(); i-- > 1;) next[i - 1] = ops[i].kind == GpuOp::Kind::kernel ? &ops[i] : next[i];
    const auto waits = [&](const GpuOp* kernel, const GpuOp& migration) {
      if (kernel == nullptr || !kernel->correlation || kernel->start < end(migration)) return false;
      const auto call = called.find(*kernel->correlation);
      return call != called.end() && call->second <= migration.start;
    };
    struct Joined {
      const GpuOp* kernel = nullptr;
      std::size_t at = 0;
    };
    std::array<Joined, 3> latest{};  // by direction
    std::array<std::uint64_t, 3> bytes{};
    std::size_t count = 0;
    const GpuOp* running = nullptr;  // the kernel that ends last
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const GpuOp& op = ops[i];
      if (op.kind == GpuOp::Kind::kernel && (running == nullptr || end(op) > end(*running))) running = &op;
      if (!op.migration) {
        all.push_back(op);
        continue;
      }
      const auto direction = static_cast<std::size_t>(op.direction);
      ++count, bytes[direction] += op.bytes;
      const bool beside = running != nullptr && end(*running) > op.start;
      const GpuOp* of = beside ? running : waits(next[i], op) ? next[i] : nullptr;
      Joined& last = latest[direction];
      if (of != nullptr && last.kernel == of) {
        GpuOp& one = all[last.at];
        one.bytes = std::min(one.bytes + op.bytes, kineto::kMostBytes);
        one.duration = std::max(one.duration, end(op) - one.start);
        continue;
      }
      if (of != nullptr) last = {of, all.size()};
      GpuOp& one = all.emplace_back(op);
      one.stream.context = context, one.stream.stream = kineto::kDriverStream - static_cast<std::int64_t>(direction);
      if (of != nullptr && !beside) one.stream = of->stream;
      one.correlation = of != nullptr ? of->correlation : std::nullopt;
    }
    const auto mb = [&](CopyDirection direction) { return static_cast<double>(bytes[static_cast<std::size_t>(direction)]) / 1e6; };
    process.notes.push_back(fmt::format(
        "{} of managed memory ({:.1f} MB to the device, {:.1f} MB to the host): those that a kernel met are one copy each way beside it, and "
        "its time holds its waits for them.",
        counted(count, "migration", "migrations"), mb(CopyDirection::host_to_device), mb(CopyDirection::device_to_host)));
  }

  void read_calls() {
    const auto there = db_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    if (there.empty()) return;
    std::unordered_map<std::int64_t, std::optional<Call::Kind>> kinds;  // by id of the name
    std::map<std::int64_t, std::uint32_t> threads;
    Rows rows(db_, select("CUPTI_ACTIVITY_KIND_RUNTIME", there, {"start", "end", "globalTid", "correlationId", "nameId"},
                          " ORDER BY start"));
    while (rows.next()) {
      Process* process = this->process(number_of(rows, 2));
      if (process == nullptr) continue;
      const auto [kind, is_new] = kinds.try_emplace(rows.integer(4));
      if (is_new) kind->second = kineto::call_kind(string(rows.integer(4)));
      if (!kind->second || rows.integer(3) <= 0) continue;
      const auto [thread, added] = threads.try_emplace(rows.integer(2), process->records.threads);
      if (added) ++process->records.threads;
      process->records.calls.push_back({*kind->second, thread->second, static_cast<std::uint64_t>(rows.integer(3)),
                                        time(rows, 0), rows.is_null(1) ? Nanoseconds{} : duration(rows, 0, 1)});
    }
  }

  /// Host waits are among the calls; here are the waits of streams for events.
  void read_synchronizations() {
    constexpr std::int64_t kStreamWaitsForEvent = 2;  // CUpti_ActivitySynchronizationType
    const auto there = db_.columns("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION");
    if (there.empty()) return;
    Rows rows(db_, select("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", there,
                          {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "syncType"}));
    while (rows.next()) {
      Process* process = this->process(number_of(rows, 6));
      if (process == nullptr || rows.integer(7) != kStreamWaitsForEvent) continue;
      kineto::SyncEvent sync;
      sync.event_wait = true;
      sync.stream = {rows.integer(2), rows.integer(3), rows.integer(4)};
      if (rows.integer(5) > 0) sync.correlation = static_cast<std::uint64_t>(rows.integer(5));
      sync.start = time(rows, 0);
      process->records.syncs.push_back(sync);
    }
  }

  void read_ranges() {
    const auto there = db_.columns("NVTX_EVENTS");
    if (there.empty())
      throw InputError(db_.file(), "--range", "there are no NVTX ranges in it", "record with nsys profile --trace=cuda,nvtx");
    Rows rows(db_, select("NVTX_EVENTS", there, {"start", "end", "globalTid", "text", "textId"}, " WHERE end IS NOT NULL"));
    std::set<std::string> names;
    while (rows.next()) {
      const std::string name = rows.is_null(3) ? string(rows.integer(4)) : rows.text(3);
      if (name != range_) {
        if (names.size() < 10'000) names.insert(name);
        continue;
      }
      if (Process* process = this->process(number_of(rows, 2)))
        process->records.steps.push_back({name, time(rows, 0), duration(rows, 0, 1)});
    }
    if (std::any_of(processes_.begin(), processes_.end(), [](const auto& p) { return !p.second.records.steps.empty(); })) return;
    const std::vector<std::string> all(names.begin(), names.end());
    throw InputError(db_.file(), "--range", fmt::format("there is no range {}{}", in_quotes(range_), did_you_mean(range_, all)),
                     all.empty() ? "it has no ranges" : fmt::format("use one of {}", list_names(all)));
  }

  void read_devices() {
    const auto there = db_.columns("TARGET_INFO_GPU");
    if (there.empty()) return;
    Rows rows(db_, select("TARGET_INFO_GPU", there, {"id", "name", "smCount", "cuDevice", "computeMajor", "computeMinor", "totalMemory"}));
    while (rows.next())
      for (auto& [number, process] : processes_)
        process.records.devices.push_back({rows.is_null(3) ? rows.integer(0) : rows.integer(3), rows.text(1),
                                           static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(2), 0, 65535)),
                                           static_cast<std::uint32_t>(std::clamp<std::int64_t>(10 * rows.integer(4) + rows.integer(5), 0, 1000)),
                                           static_cast<std::uint64_t>(std::max<std::int64_t>(0, rows.integer(6)))});
  }

  void read_names() {
    std::map<std::int64_t, std::string> names;
    const auto there = db_.columns("PROCESSES");
    if (there.contains("globalPid") && there.contains("name")) {
      Rows rows(db_, "SELECT globalPid, name FROM PROCESSES");
      while (rows.next()) {
        const std::string path = rows.text(1);
        names[rows.integer(0) / kThreads] = path.substr(path.find_last_of('/') + 1);
      }
    }
    for (auto& [number, process] : processes_) {
      const auto known = names.find(number);
      const std::string name = known == names.end() || known->second.empty() ? "process" : known->second;
      process.name = fmt::format("{}-{}", name, number % kThreads);
    }
  }

  void note_what_is_missing() {
    if (of_no_process_ != 0)
      for (auto& [number, process] : processes_)
        process.notes.push_back(fmt::format("{} not say of which process: left out.", counted(of_no_process_, "copy does", "copies do")));
    if (db_.columns("CUPTI_ACTIVITY_KIND_GRAPH_TRACE").empty()) return;
    Rows rows(db_, "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
    if (!rows.next() || rows.integer(0) == 0) return;
    for (auto& [number, process] : processes_)
      process.notes.push_back(fmt::format("{} launches of CUDA graphs are recorded as wholes, and their kernels are missing: record with "
                                          "nsys profile --cuda-graph-trace=node.",
                                          rows.integer(0)));
  }

  Database db_;
  std::string range_;
  std::optional<std::int64_t> device_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::map<std::int64_t, Process> processes_;  // by number; stays where it is
  std::map<const Process*, kineto::ShapeIndex> shapes_;
  std::size_t of_no_process_ = 0;  // copies, beside several processes
};

}  // namespace

std::vector<RecordedProcess> read(const std::filesystem::path& file, const std::string& range, std::optional<std::int64_t> device) {
  return Reader(file, range, device).read();
}

bool looks_like_sqlite(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(16, '\0');
  return in.read(head.data(), 16) && head == std::string("SQLite format 3\0", 16);
}

}  // namespace corun::nsys
