// Is what Nsight Systems exports read whatever columns a version has, and is what is wrong told?
#include "traces/import/nsys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/in_folder.h"
#include "traces/model/error.h"

namespace corun {
namespace {

constexpr std::int64_t kFirst = (std::int64_t{281} << 48) | (std::int64_t{111} << 24);
constexpr std::int64_t kSecond = (std::int64_t{281} << 48) | (std::int64_t{222} << 24);

/// As schema 3.25 has them, as far as they are read.
const std::string kTables = R"(
  CREATE TABLE StringIds (id INTEGER, value TEXT);
  CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, greenContextId INT,
    streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT, registersPerThread INT, gridX INT,
    gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT,
    graphNodeId INT, clusterX INT, clusterY INT, clusterZ INT);
  CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
  CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, contextId INT, streamId INT,
    correlationId INT, globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);
  CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, deviceId INT, contextId INT, streamId INT,
    correlationId INT, globalPid INT, syncType INT);
  CREATE TABLE NVTX_EVENTS (start INT, end INT, globalTid INT, text TEXT, textId INT);
  CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT, cuDevice INT);
  CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
  INSERT INTO StringIds VALUES (1,'void gemm<float>(float*)'),(2,'gemm'),(3,'cudaLaunchKernel_v7000'),
    (4,'cudaMemcpyAsync_v3020'),(5,'cudaStreamSynchronize_v3020'),(6,'step'),(7,'cudaEventQuery_v3020');
  INSERT INTO TARGET_INFO_GPU VALUES (0,'NVIDIA H200',132,0);
)";

std::string kernel(std::int64_t start, std::int64_t end, std::int64_t correlation, std::int64_t process, int device = 0) {
  return fmt::format(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({},{},{},1,0,7,{},{},1,2,96,264,1,1,128,1,1,1024,2048,NULL,2,1,1);",
      start, end, device, correlation, process);
}
std::string call(std::int64_t start, std::int64_t end, std::int64_t correlation, int name, std::int64_t process) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({},{},{},{},{});", start, end, process + 5,
                     correlation, name);
}

class NsysImport : public InFolder {
 protected:
  std::filesystem::path database(const std::string& sql) const {
    const auto file = folder_ / fmt::format("r{}.sqlite", ++count_);
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << (message ? message : "");
    sqlite3_close(db);
    return file;
  }
  Trace import(const std::string& sql, const ImportOptions& options = {}, const std::string& process = {}) const {
    return import_nsys(database(kTables + sql), options, process);
  }
  void expect_refused(const std::string& sql, const ImportOptions& options, const std::string& word) const {
    try {
      import_nsys(database(sql), options);
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
  const std::filesystem::path& folder() const { return folder_; }
  mutable int count_ = 0;
};

TEST_F(NsysImport, ALaunchHasItsShapeItsClusterAndBothKindsOfSharedMemory) {
  const Trace trace = import(call(1000, 3000, 1, 3, kFirst) + kernel(9000, 59000, 1, kFirst));
  ASSERT_EQ(trace.kernels.size(), 1u);
  const Kernel& k = trace.kernels[0];
  EXPECT_EQ(k.name, "void gemm<float>(float*)");
  EXPECT_EQ(k.grid.x, 264u);
  EXPECT_EQ(k.cluster.x, 2u);
  EXPECT_EQ(k.registers_per_thread, 96u);
  EXPECT_EQ(k.static_shared_memory_bytes, 1024u);
  EXPECT_EQ(k.dynamic_shared_memory_bytes, 2048u);
  EXPECT_EQ(k.solo_time, from_ns(50000));
  EXPECT_EQ(trace.gpu, "h200") << "by the name of the device";
}

TEST_F(NsysImport, LaunchesOfAnotherClusterOrAnotherDivisionOfSharedMemoryAreOfAnotherKernel) {
  std::string sql = call(1000, 3000, 1, 3, kFirst);
  for (int i = 0; i < 4; ++i) sql += kernel(9000 + 1000 * i, 9500 + 1000 * i, i, kFirst);
  EXPECT_EQ(import(sql).kernels.size(), 1u);
  const std::string change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET ";
  EXPECT_EQ(import(sql + change + "clusterX = 1 WHERE correlationId = 2;").kernels.size(), 2u);
  EXPECT_EQ(import(sql + change + "staticSharedMemory = 2048, dynamicSharedMemory = 1024 WHERE correlationId = 2;").kernels.size(),
            2u);
}

TEST_F(NsysImport, ProcessesBecomeClientsOrOneIsChosen) {
  const std::string sql = call(1000, 3000, 1, 3, kFirst) + kernel(9000, 59000, 1, kFirst) +
                          call(2000, 3000, 1, 3, kSecond) + kernel(60000, 70000, 1, kSecond) +
                          fmt::format("INSERT INTO PROCESSES VALUES ({},111,'/usr/bin/python3'),({},222,'server');", kFirst, kSecond);
  const Trace both = import(sql);
  ASSERT_EQ(both.clients.size(), 2u);
  EXPECT_EQ(both.clients[0].name, "python3-111");
  EXPECT_EQ(both.clients[1].name, "server-222");
  EXPECT_EQ(both.programs[both.clients[1].program.value].ops.size(), 1u);
  EXPECT_EQ(std::get<Launch>(both.programs[1].ops[0].what).kernel.value, 1u);
  EXPECT_EQ(import(sql, {}, "server-222").clients.size(), 1u);
  EXPECT_THROW(import(sql, {}, "server-333"), InputError);
}

TEST_F(NsysImport, ARangeIsARequestAndTheMedianOneIsTaken) {
  std::string sql;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t at = 1'000'000 * i;
    sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES ({},{},{},NULL,6);", at, at + 100'000 * (i + 1), kFirst + 5);
    for (std::int64_t n = 0; n <= i; ++n)
      sql += call(at + 1000 + 5000 * n, at + 2000 + 5000 * n, 10 * i + n + 1, 3, kFirst) +
             kernel(at + 9000 + 9000 * n, at + 17000 + 9000 * n, 10 * i + n + 1, kFirst);
  }
  ImportOptions options;
  options.range = "step";
  EXPECT_EQ(import(sql, options).programs[0].ops.size(), 2u);
  options.step = 2;
  EXPECT_EQ(import(sql, options).programs[0].ops.size(), 3u);
  options.step = 3;
  EXPECT_THROW(import(sql, options), InputError);
  options.step.reset(), options.range = "stop";
  expect_refused(kTables + sql, options, "did you mean 'step'");
  EXPECT_EQ(import(sql).programs[0].ops.size(), 6u) << "without a range it is all one request";
}

TEST_F(NsysImport, ACopyFromPageableMemoryThatReturnedInItsSecondHalfBlocksTheHost) {
  const auto with = [&](std::int64_t returned) {
    const Trace trace = import(call(1000, returned, 1, 4, kFirst) +
                               fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5000,25000,0,1,7,1,{},4096,2,2,0);", kFirst) +
                               call(30000, 31000, 2, 3, kFirst) + kernel(39000, 59000, 2, kFirst));
    return std::count_if(trace.programs[0].ops.begin(), trace.programs[0].ops.end(),
                         [](const Op& op) { return std::holds_alternative<Sync>(op.what); });
  };
  EXPECT_EQ(with(25000), 1);
  EXPECT_EQ(with(24999), 1) << "the last of it was staged";
  EXPECT_EQ(with(15001), 1);
  EXPECT_EQ(with(15000), 0);
}

std::string copy(std::int64_t start, std::int64_t end, std::int64_t correlation, std::int64_t bytes, int kind, int context, int stream) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({},{},0,{},{},{},{},{},{},{},2);", start, end, context, stream, correlation, kFirst, bytes, kind,
                     kind == 1 ? 0 : 7);
}

TEST_F(NsysImport, APageableCopyKeepsItsRate) {
  const auto rate = [&](std::int64_t bytes, const char* more) {
    const Trace trace = import(call(0, 41'000'000, 1, 4, kFirst) + copy(240'000, 41'140'000, 1, bytes, 1, 1, 7) +
                               call(41'010'000, 41'020'000, 2, 3, kFirst) + kernel(41'150'000, 42'150'000, 2, kFirst) + more);
    EXPECT_TRUE(std::holds_alternative<Sync>(trace.programs[0].ops[1].what)) << "it holds the host";
    return std::get<Copy>(trace.programs[0].ops[0].what).host_bytes_per_second;
  };
  EXPECT_EQ(rate(200'000'000, ""), 4'889'975'550u) << "200 MB in 40.9 ms";
  EXPECT_EQ(rate(65'537, ""), 1'602'371u);
  EXPECT_EQ(rate(65'536, ""), 0u) << "goes along with its command";
}

TEST_F(NsysImport, MigrationsOfManagedMemoryHaveADirectionAndNoContext) {
  std::string sql = call(0, 10'000, 1, 3, kFirst) + kernel(15'000, 50'000'000, 1, kFirst) + call(12'000, 50'010'000, 2, 5, kFirst);
  for (std::int64_t i = 0; i < 100; ++i) sql += copy(1'000'000 + i * 400'000, 1'170'000 + i * 400'000, 0, 2'097'152, 11, 0, 0);
  for (std::int64_t i = 0; i < 50; ++i) sql += copy(52'000'000 + i * 400'000, 52'170'000 + i * 400'000, 0, 2'097'152, 12, 0, 0);
  const Trace trace = import(sql);
  const Program& program = trace.programs[0];
  ASSERT_EQ(program.streams.size(), 3u);
  EXPECT_EQ(program.streams[0].name, "7");
  EXPECT_EQ(program.streams[1].name, "managed memory");
  EXPECT_EQ(program.streams[2].name, "managed memory to the host");
  std::uint64_t in = 0, out = 0;
  for (const Op& op : program.ops)
    if (const auto* moved = std::get_if<Copy>(&op.what)) {
      EXPECT_EQ(op.stream.value, moved->direction == CopyDirection::host_to_device ? 1u : 2u);
      EXPECT_NE(moved->direction, CopyDirection::device_to_device);
      (moved->direction == CopyDirection::host_to_device ? in : out) += moved->bytes;
    }
  EXPECT_EQ(in, 100u * 2'097'152);
  EXPECT_EQ(out, 50u * 2'097'152);
  // The kernel met those to the device: one copy beside it, issued with it, before the wait.
  ASSERT_EQ(program.ops.size(), 3u + 50u);
  EXPECT_TRUE(std::holds_alternative<Launch>(program.ops[0].what));
  EXPECT_TRUE(std::holds_alternative<Copy>(program.ops[1].what));
  EXPECT_TRUE(std::holds_alternative<Sync>(program.ops[2].what));
  EXPECT_EQ(trace.kernels[0].solo_time, from_ns(49'985'000));
  for (const std::string& note : trace.notes) {
    EXPECT_EQ(note.find("contexts are replayed as one"), std::string::npos);
    EXPECT_EQ(note.find("beside another stream's"), std::string::npos);
  }
  EXPECT_TRUE(std::ranges::any_of(trace.notes, [](const std::string& n) {
    return n.find("150 migrations of managed memory (209.7 MB to the device, 104.9 MB to the host)") != std::string::npos;
  }));
}

TEST_F(NsysImport, MigrationsOfTwoKernelsStayApart) {
  const Trace trace = import(call(0, 10'000, 1, 3, kFirst) + kernel(15'000, 1'000'000, 1, kFirst) + call(20'000, 30'000, 2, 3, kFirst) +
                             kernel(1'001'000, 2'000'000, 2, kFirst) + copy(100'000, 200'000, 0, 1000, 11, 0, 0) + copy(300'000, 400'000, 0, 500, 12, 0, 0) +
                             copy(500'000, 600'000, 0, 1000, 11, 0, 0) + copy(1'100'000, 1'200'000, 0, 3000, 11, 0, 0));
  std::vector<std::uint64_t> bytes;
  for (const Op& op : trace.programs[0].ops)
    if (const auto* moved = std::get_if<Copy>(&op.what)) bytes.push_back(moved->bytes);
  EXPECT_EQ(bytes, (std::vector<std::uint64_t>{2000, 500, 3000}));
}

/// Copies of a program in their order: direction, bytes, stream.
std::vector<std::tuple<CopyDirection, std::uint64_t, std::string>> copies_of(const Trace& trace, std::size_t program = 0) {
  std::vector<std::tuple<CopyDirection, std::uint64_t, std::string>> all;
  for (const Op& op : trace.programs[program].ops)
    if (const auto* moved = std::get_if<Copy>(&op.what)) all.emplace_back(moved->direction, moved->bytes, trace.programs[program].streams[op.stream.value].name);
  return all;
}
constexpr auto kIn = CopyDirection::host_to_device, kOut = CopyDirection::device_to_host, kWithin = CopyDirection::device_to_device;

TEST_F(NsysImport, MigrationsBothWaysGoBesideEachOther) {
  // Two kernels at once, and pages that go in and out all the time, 2 MB in 170 us.
  std::string sql = call(0, 10'000, 1, 3, kFirst) + kernel(15'000, 30'000'000, 1, kFirst) + call(12'000, 20'000, 2, 3, kFirst) + kernel(25'000, 20'000'000, 2, kFirst) +
                    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 13 WHERE correlationId = 2;" + call(22'000, 30'010'000, 3, 5, kFirst);
  for (std::int64_t i = 0; i < 40; ++i) sql += copy(1'000'000 + i * 500'000, 1'170'000 + i * 500'000, 0, 2'097'152, i % 2 != 0 ? 11 : 12, 0, 0);
  using Moved = std::tuple<CopyDirection, std::uint64_t, std::string>;
  const Trace trace = import(sql);
  EXPECT_EQ(copies_of(trace), (std::vector<Moved>{{kOut, 20u * 2'097'152, "managed memory to the host"}, {kIn, 20u * 2'097'152, "managed memory"}}));
}

TEST_F(NsysImport, AKernelWaitsForThePrefetchThatWasCalledBeforeIt) {
  // 21 MB of cudaMemPrefetchAsync, 10 times 170 us, behind which the kernel lies in the same stream; then 4 MB that nobody waited for.
  std::string sql = call(12'000, 20'000, 2, 3, kFirst) + kernel(1'730'000, 2'730'000, 2, kFirst) + call(22'000, 2'740'000, 3, 5, kFirst);
  for (std::int64_t i = 0; i < 10; ++i) sql += copy(20'000 + i * 170'000, 189'000 + i * 170'000, 0, 2'097'152, 11, 0, 0);
  for (std::int64_t i = 0; i < 2; ++i) sql += copy(3'000'000 + i * 170'000, 3'169'000 + i * 170'000, 0, 2'097'152, 11, 0, 0);
  const Trace trace = import(sql);
  EXPECT_EQ(copies_of(trace).front(), std::tuple(kIn, std::uint64_t{20'971'520}, std::string("7")));
  EXPECT_TRUE(std::holds_alternative<Copy>(trace.programs[0].ops[0].what));
  EXPECT_TRUE(std::holds_alternative<Launch>(trace.programs[0].ops[1].what)) << "on its stream, before it";
  EXPECT_EQ(copies_of(trace).size(), 3u);
  EXPECT_EQ(std::get<2>(copies_of(trace).back()), "managed memory");
}

TEST_F(NsysImport, MigrationsAreOfTheirProcess) {
  std::string sql;
  for (const std::int64_t process : {kFirst, kSecond}) {
    const std::int64_t from = process == kFirst ? 0 : 5000;
    sql += call(from, from + 10'000, 1, 3, process) + kernel(from + 15'000, 20'000'000, 1, process);
    for (std::int64_t i = 0; i < (process == kFirst ? 10 : 5); ++i) {
      const std::string one = copy(1'000'000 + from + i * 400'000, 1'170'000 + from + i * 400'000, 0, 1000, 11, 0, 0);
      sql += process == kFirst ? one : std::string(one).replace(one.find(std::to_string(kFirst)), std::to_string(kFirst).size(), std::to_string(kSecond));
    }
  }
  const Trace trace = import(sql);
  ASSERT_EQ(trace.programs.size(), 2u);
  EXPECT_EQ(std::get<1>(copies_of(trace, 0).at(0)), 10'000u);
  EXPECT_EQ(std::get<1>(copies_of(trace, 1).at(0)), 5'000u);
  const Trace of_nobody = import(sql + "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET globalPid = NULL;");
  EXPECT_TRUE(copies_of(of_nobody, 0).empty() && copies_of(of_nobody, 1).empty());
  EXPECT_TRUE(std::ranges::any_of(of_nobody.notes, [](const std::string& n) { return n.find("15 copies do not say of which process: left out") != std::string::npos; }));
}

TEST_F(NsysImport, MigrationsBetweenDevicesStayOnTheDevice) {
  std::string sql = call(0, 10'000, 1, 3, kFirst) + kernel(15'000, 10'000'000, 1, kFirst);
  for (std::int64_t i = 0; i < 4; ++i) sql += copy(1'000'000 + i * 400'000, 1'170'000 + i * 400'000, 0, 4096, 13, 0, 0);
  EXPECT_EQ(copies_of(import(sql)).at(0), std::tuple(kWithin, std::uint64_t{4 * 4096}, std::string("managed memory within")));
}

TEST_F(NsysImport, TheHostSetsThePaceOfACopyOfManagedOrUnknownMemoryThatHoldsIt) {
  // 50 MB in 9.969 ms, which pinned memory takes in 1; `memory`: ENUM_CUDA_MEM_KIND of its source.
  const auto rate = [&](const char* memory, std::int64_t returned) {
    const Trace trace = import(call(0, returned, 1, 4, kFirst) + call(10'001'000, 10'009'000, 2, 3, kFirst) + kernel(10'011'000, 11'000'000, 2, kFirst) +
                               fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (30000,9999000,0,1,7,1,{},50000000,1,{},2);", kFirst, memory));
    return std::get<Copy>(trace.programs[0].ops[0].what).host_bytes_per_second;
  };
  const std::uint64_t recorded = 5'015'548'199;  // 50e6 / 9.969e-3
  EXPECT_EQ(rate("0", 10'000'000), recorded);
  EXPECT_EQ(rate("4", 10'000'000), recorded) << "managed";
  EXPECT_EQ(rate("6", 10'000'000), recorded) << "of managed variables";
  EXPECT_EQ(rate("NULL", 10'000'000), recorded) << "not recorded, and its call is as long";
  EXPECT_EQ(rate("NULL", 9'000), 0u) << "not recorded, and its call returns at once";
  EXPECT_EQ(rate("1", 10'000'000), 0u) << "pinned";
}

TEST_F(NsysImport, StepsThatRunIntoTheNextKeepTheirPeriodInEachProcess) {
  std::string sql;
  for (const std::int64_t process : {kFirst, kSecond})
    for (std::int64_t n = 0; n < 6; ++n) {
      const std::int64_t t = 10'000'000 * n + (process == kFirst ? 0 : 3'000'000);
      sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES ({},{},{},NULL,6);", t, t + 9'990'000, process + 5);
      sql += call(t + 9'600'000, t + 9'610'000, n + 1, 3, process) + kernel(t + 9'615'000, t + 12'600'000, n + 1, process);
    }
  ImportOptions options;
  options.range = "step";
  const Trace trace = import(sql, options);
  ASSERT_EQ(trace.clients.size(), 2u);
  for (const Client& client : trace.clients) {
    EXPECT_EQ(std::get<ClosedLoop>(client.arrivals).in_flight, 2u) << client.name;
    const Time gap = trace.programs[client.program.value].ops[0].host_gap;
    EXPECT_EQ(gap + from_ns(2800), from_ns(1e7)) << "the host's whole period, launch call and all";
  }
}

TEST_F(NsysImport, OtherDatabasesAreToldByWhatTheyAre) {
  expect_refused("CREATE TABLE rocpd_kernel_dispatch_00 (id INT);", {}, "is a database of rocprofv3 (rocpd)");
  expect_refused("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INT); CREATE TABLE StringTable (value TEXT);", {}, "is a database of nvprof");
  expect_refused("CREATE TABLE runs (id INT);", {}, "no table of Nsight Systems");
  const std::string diagnostic = "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, timestampType INT, source INT, severity INT, text TEXT, globalPid INT);"
                                 "INSERT INTO DIAGNOSTIC_EVENT VALUES (0,1,1,2,'CUDA profiling might have not been started correctly.',0);";
  expect_refused(kTables + diagnostic, {}, "there are no GPU kernels in it (no rows in CUPTI_ACTIVITY_KIND_KERNEL); the file says why: 'CUDA profiling might");
}

TEST_F(NsysImport, WhyThereAreNoKernelsIsSaidAsTheFileDoes) {
  std::string sql = kTables;
  for (int i = 0; i < 5; ++i) sql += call(1000 * i, 1000 * i + 500, i + 1, 3, kFirst);
  expect_refused(sql, {}, "5 launch calls, but no GPU kernels in it (no rows in CUPTI_ACTIVITY_KIND_KERNEL): the tool saw the host only");
  sql += "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, timestampType INT, source INT, severity INT, text TEXT, globalPid INT);"
         "INSERT INTO DIAGNOSTIC_EVENT VALUES (0,1,1,1,'Profiling has started.',0),(0,1,1,3,'CUPTI: insufficient privileges',0),(0,1,1,3,'CUPTI: insufficient privileges',0);";
  expect_refused(sql, {}, "the file says why: 'CUPTI: insufficient privileges'");
  expect_refused(kTables, {}, "record with nsys profile --trace=cuda,nvtx");
}

TEST_F(NsysImport, AQueryOfAnEventIsNoWait) {
  const Trace trace = import(call(1000, 3000, 1, 3, kFirst) + kernel(9000, 59000, 1, kFirst) +
                             call(10000, 40000, 2, 7, kFirst) + call(60000, 62000, 3, 3, kFirst) +
                             kernel(69000, 79000, 3, kFirst));
  for (const Op& op : trace.programs[0].ops) EXPECT_FALSE(std::holds_alternative<Sync>(op.what));
}

TEST_F(NsysImport, ADeviceIsChosen) {
  const std::string sql = kernel(9000, 59000, 1, kFirst) + kernel(60000, 70000, 2, kFirst, 1) + kernel(70000, 90000, 3, kFirst, 1);
  EXPECT_EQ(import(sql).programs[0].ops.size(), 2u) << "the one with most kernels";
  ImportOptions options;
  options.device = 0;
  EXPECT_EQ(import(sql, options).programs[0].ops.size(), 1u);
  options.device = 5;
  expect_refused(kTables + sql, options, "device 5");
}

TEST_F(NsysImport, OldVersionsLackColumnsAndTables) {
  const Trace trace = import_nsys(
      database("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, gridX INT, gridY INT, gridZ INT, blockX INT, "
               "blockY INT, blockZ INT); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10,20,1,1,1,32,1,1);"),
      {});
  EXPECT_EQ(trace.kernels.size(), 1u);
  EXPECT_TRUE(trace.gpu.empty());
}

// Found by fuzzing: each became a trace that the trace format's own reader refuses.
TEST_F(NsysImport, WhatNoTraceCanHoldIsRefused) {
  const std::string whole = kernel(10, 20, 1, kFirst);
  const auto with = [&](const std::string& old, const std::string& wrong) {
    std::string sql = whole;
    return kTables + sql.replace(sql.find(old), old.size(), wrong);
  };
  EXPECT_EQ(import_nsys(database(with(",128,1,1,", ",16,1,64,")), {}).kernels.size(), 1u);
  expect_refused(with(",128,1,1,", ",15,1,65,"), {}, "no launch can have");
  expect_refused(with(",128,1,1,", ",128,9,1,"), {}, "1152 in all");
  expect_refused(with(",2,1,1)", ",1,4,1)"), {}, "clusters of 1x4x1 do not fill");
  expect_refused(with("(10,20,", "(-9223372036854775807,9223372036854775807,"), {}, "no time of a recording");
  const auto copy = [&](std::int64_t bytes) {
    return kTables + whole + fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (5,9,0,1,7,2,{},{},2,2,0);", kFirst, bytes);
  };
  EXPECT_EQ(import_nsys(database(copy((std::int64_t{1} << 53) - 1)), {}).programs[0].ops.size(), 2u);
  expect_refused(copy(std::int64_t{1} << 53), {}, "impossible number of bytes");
}

TEST_F(NsysImport, ACallThatHadNotEndedTakesNoTime) {
  const std::string unended = fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000,NULL,{},1,3);", kFirst + 5);
  EXPECT_EQ(import(unended + kernel(9000, 59000, 1, kFirst)).programs[0].ops.size(), 1u);
}

TEST_F(NsysImport, WhatCannotBeImportedIsRefusedWithTheReason) {
  expect_refused("CREATE TABLE x (a INT);", {}, "no GPU kernels");
  expect_refused("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT);", {}, "--cuda-graph-trace=node");
  expect_refused("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT);", {}, "no column gridX");
  std::string wrong = kernel(10, 20, 1, kFirst);
  wrong.replace(wrong.find("264"), 3, "0");
  expect_refused(kTables + wrong, {}, "no launch can have");
  expect_refused(kTables + kernel(20, 10, 1, kFirst), {}, "ends before it starts");
  const auto file = folder() / "cut.sqlite";
  const auto whole = database(kTables + kernel(10, 20, 1, kFirst));
  std::filesystem::copy_file(whole, file);
  std::filesystem::resize_file(file, 4096 + 100);
  EXPECT_THROW(import_nsys(file, {}), InputError);
  EXPECT_TRUE(looks_like_nsys(file));
  EXPECT_FALSE(looks_like_nsys(folder()));
}

}  // namespace
}  // namespace corun
