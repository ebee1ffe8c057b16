// Can others read what a run writes?  Each sink is fed by hand and its output read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <sstream>

#include "tests/support/in_folder.h"
#include "traces/model/error.h"
#include "traces/timeline/block_log.h"
#include "traces/timeline/csv.h"
#include "traces/timeline/occupancy_svg.h"
#include "traces/timeline/perfetto.h"

namespace corun {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

Time us(std::int64_t n) { return std::chrono::microseconds(n); }

Gpu small_gpu() {
  Gpu gpu;
  gpu.name = "small";
  gpu.product = "Small GPU";
  gpu.sms = 4;
  gpu.sm.max_warps = 64;
  gpu.sm.max_threads = 2048;
  return gpu;
}

/// Two clients of one program with two streams, each with a copy and a kernel on one and a kernel on the
/// other.
Trace two_clients() {
  Trace trace;
  trace.name = "two \"clients\"";
  trace.gpu = "small";
  trace.kernels.resize(2);
  trace.kernels[0].name = "gemm<float, 128>";
  trace.kernels[0].grid = {2, 1, 1};
  trace.kernels[0].block = {256, 1, 1};
  trace.kernels[0].registers_per_thread = 64;
  trace.kernels[0].solo_time = us(5);
  trace.kernels[1].name = "relu";
  trace.kernels[1].block = {128, 1, 1};
  trace.kernels[1].static_shared_memory_bytes = 1024;
  Program program;
  program.name = "net";
  program.streams = {{"main"}, {""}};
  program.ops.resize(3);
  program.ops[0].what = Copy{CopyDirection::host_to_device, 4096};
  program.ops[1].what = Launch{KernelId{0}, {}, {}};
  program.ops[2].what = Launch{KernelId{1}, {}, {}};
  program.ops[2].stream = StreamId{1};
  trace.programs.push_back(program);
  for (const char* name : {"rt, \"fast\"", "be"}) {
    Client client;
    client.name = name;
    client.process = name;
    client.arrivals = Periodic{us(100), us(3)};
    client.deadline = us(20);
    trace.clients.push_back(client);
  }
  trace.clients[0].service_class = ServiceClass::real_time;
  return trace;
}

KernelRecord kernel(std::uint32_t serial, std::uint32_t client, std::uint32_t stream, Time queued,
                    Time started, Time finished) {
  KernelRecord r;
  r.launch = {serial % 4, serial};
  r.client = ClientId{client};
  r.stream = StreamId{stream};
  r.op = OpId{stream + 1};
  r.kernel = KernelId{stream};
  r.ready = queued - us(2);
  r.submitted = queued - us(1);
  r.queued = queued;
  r.slotted = std::min(queued + Time{500'000}, started);
  r.started = started;
  r.last_block = started;
  r.finished = finished;
  r.blocks = 1;
  return r;
}

BlockRecord block(const KernelRecord& k, std::uint32_t index, std::uint32_t sm, std::uint32_t lane,
                  Time start, Time end) {
  return {k.launch, k.client, k.kernel, index, SmId{sm}, lane, start, end};
}

/// A short run: one request of each client, blocks of both on SM 1, a context turn, gauges, a request that
/// was dropped and one that did not finish.
void play(Timeline& timeline) {
  timeline.record(TurnRecord{0, us(0), us(40)});
  timeline.record(GaugeRecord{Gauge::resident_blocks, us(0), 0});
  timeline.record(GaugeRecord{Gauge::resident_blocks, us(10), 2});
  timeline.record(GaugeRecord{Gauge::resident_blocks, us(12), 2});
  timeline.record(GaugeRecord{Gauge::dram_bandwidth_pct, us(10), 62.5});
  timeline.record(GaugeRecord{Gauge::resident_blocks, us(30), 0});

  CopyRecord copy;
  copy.launch = {3, 3};
  copy.bytes = 4096;
  copy.started = us(4);
  copy.finished = us(6);
  timeline.record(copy);

  const KernelRecord gemm = kernel(0, 0, 0, us(8), us(10), us(15));
  timeline.record(block(gemm, 1, 1, 1, us(10), us(14)));
  timeline.record(block(gemm, 0, 1, 0, us(10), us(15)));
  timeline.record(gemm);
  const KernelRecord relu = kernel(1, 0, 1, us(8), us(15), us(18));
  timeline.record(block(relu, 0, 0, 0, us(15), us(18)));
  timeline.record(relu);
  RequestRecord done;
  done.arrival = us(3);
  done.started = us(4);
  done.finished = us(18);
  done.work_done = us(8);
  timeline.record(done);

  KernelRecord persistent = kernel(2, 1, 0, us(12), us(14), us(30));
  persistent.ctas = 8;
  timeline.record(block(persistent, 0, 1, 2, us(14), us(30)));
  timeline.record(persistent);
  RequestRecord slow = done;
  slow.client = ClientId{1};
  slow.started = us(9);
  slow.finished = us(30);
  timeline.record(slow);

  RequestRecord dropped;
  dropped.client = ClientId{1};
  dropped.request = 1;
  dropped.arrival = us(25);
  dropped.dropped = true;
  timeline.record(dropped);

  KernelRecord running = kernel(4, 1, 0, us(32), us(33), kNever);
  running.request = 2;
  timeline.record(block(running, 0, 2, 0, us(33), us(39)));
  timeline.record(running);
  RequestRecord unfinished;
  unfinished.client = ClientId{1};
  unfinished.request = 2;
  unfinished.arrival = us(30);
  unfinished.started = us(31);
  unfinished.finished = kNever;
  timeline.record(unfinished);
  timeline.flush();
}

// ---- Perfetto ----

struct Event {
  std::uint64_t at_ns = 0, track = 0;
  int type = 0;
  std::string name, category;
  double value = 0;
  std::map<std::string, std::string> annotations;
  std::vector<std::uint64_t> flows;
};
struct Track {
  std::string name, process, unit;
  std::uint64_t parent = 0;
};
struct Slice {
  std::string name;
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::size_t depth = 0;
  bool operator==(const Slice&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Slice& s) {
  return out << s.name << " [" << s.begin_ns << ", " << s.end_ns << "] at depth " << s.depth;
}

/// A trace as trace_processor would take it in: strings looked up in file order, then events in order of
/// time.
class PerfettoFile {
 public:
  explicit PerfettoFile(const std::string& bytes) {
    protozero::pbf_reader file(bytes);
    while (file.next(1)) packet(file.get_message());
    std::ranges::stable_sort(events, {}, &Event::at_ns);
    nest();
  }

  /// Its full name: "process / track / track".
  std::string path(std::uint64_t track) const {
    const Track& t = tracks.at(track);
    return t.parent == 0 ? t.process : path(t.parent) + " / " + t.name;
  }
  const Event& begin_of(const std::string& name) const {
    for (const Event& e : events)
      if (e.type == 1 && e.name == name) return e;
    throw std::out_of_range(name);
  }
  std::vector<std::pair<std::uint64_t, double>> counter(const std::string& track) const {
    std::vector<std::pair<std::uint64_t, double>> values;
    for (const Event& e : events)
      if (e.type == 4 && path(e.track) == track) values.emplace_back(e.at_ns, e.value);
    return values;
  }

  std::vector<Event> events;
  std::map<std::uint64_t, Track> tracks;
  std::map<std::string, std::vector<Slice>> slices;  // by path of the track, in order of their beginnings
  std::vector<std::string> errors;

 private:
  using Strings = std::map<std::uint64_t, std::string>;

  void packet(protozero::pbf_reader in) {
    Event event;
    bool is_event = false;
    while (in.next()) {
      switch (in.tag()) {
        case 8:
          event.at_ns = in.get_uint64();
          break;
        case 10:
          EXPECT_EQ(in.get_uint32(), 1);
          break;
        case 11:
          read(in.get_message(), event);
          is_event = true;
          break;
        case 12:
          intern(in.get_message());
          break;
        case 13:
          EXPECT_EQ(in.get_uint32(), 1);
          break;
        case 60:
          describe(in.get_message());
          break;
        default:
          ADD_FAILURE() << "field " << in.tag() << " of a packet";
          in.skip();
      }
    }
    if (is_event) events.push_back(event);
  }

  void intern(protozero::pbf_reader in) {
    while (in.next()) {
      Strings& strings = strings_[in.tag()];
      protozero::pbf_reader entry = in.get_message();
      std::uint64_t iid = 0;
      while (entry.next()) {
        if (entry.tag() == 1) {
          iid = entry.get_uint64();
        } else {
          EXPECT_TRUE(strings.emplace(iid, entry.get_string()).second);
        }
      }
    }
  }

  void describe(protozero::pbf_reader in) {
    Track track;
    std::uint64_t uuid = 0;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          uuid = in.get_uint64();
          break;
        case 2:
          track.name = in.get_string();
          break;
        case 3: {
          protozero::pbf_reader process = in.get_message();
          while (process.next()) {
            if (process.tag() == 6) {
              track.process = process.get_string();
            } else {
              process.skip();
            }
          }
          break;
        }
        case 5:
          track.parent = in.get_uint64();
          break;
        case 8: {
          protozero::pbf_reader counter = in.get_message();
          while (counter.next(6)) track.unit = counter.get_string();
          break;
        }
        default:
          in.skip();
      }
    }
    EXPECT_TRUE(tracks.emplace(uuid, track).second) << "described twice: " << track.name;
    EXPECT_TRUE(track.parent == 0 || tracks.contains(track.parent)) << track.name;
  }

  void read(protozero::pbf_reader in, Event& event) {
    while (in.next()) {
      switch (in.tag()) {
        case 3:
          event.category = strings_[1].at(in.get_uint64());
          break;
        case 4:
          annotate(in.get_message(), event);
          break;
        case 9:
          event.type = in.get_enum();
          break;
        case 10:
          event.name = strings_[2].at(in.get_uint64());
          break;
        case 11:
          event.track = in.get_uint64();
          EXPECT_TRUE(tracks.contains(event.track)) << "an event before its track's description";
          break;
        case 44:
          event.value = in.get_double();
          break;
        case 47:
          event.flows.push_back(in.get_fixed64());
          break;
        default:
          ADD_FAILURE() << "field " << in.tag() << " of an event";
          in.skip();
      }
    }
  }

  void annotate(protozero::pbf_reader in, Event& event) {
    std::string name;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          name = strings_[3].at(in.get_uint64());
          break;
        case 4:
          event.annotations[name] = std::to_string(in.get_int64());
          break;
        case 6:
          event.annotations[name] = in.get_string();
          break;
        default:
          ADD_FAILURE() << "field " << in.tag() << " of an annotation";
          in.skip();
      }
    }
  }

  void nest() {
    std::map<std::uint64_t, std::vector<std::pair<std::string, std::size_t>>> open;  // path and index of each
    for (const Event& e : events) {
      const std::string track = path(e.track);
      auto& stack = open[e.track];
      if (e.type == 1) {
        auto& on_track = slices[track];
        stack.emplace_back(track, on_track.size());
        on_track.push_back({e.name, e.at_ns, 0, stack.size() - 1});
      } else if (e.type == 2) {
        if (stack.empty()) {
          errors.push_back("an end without a beginning on " + track);
          continue;
        }
        slices[track][stack.back().second].end_ns = e.at_ns;
        stack.pop_back();
      }
    }
    for (const auto& [track, stack] : open)
      if (!stack.empty()) errors.push_back("not ended on " + path(track));
  }

  std::map<std::uint32_t, Strings> strings_;
};

std::string perfetto_bytes(PerfettoOptions options, void (*run)(Timeline&) = play) {
  const Trace trace = two_clients();
  const Gpu gpu = small_gpu();
  std::ostringstream out;
  PerfettoSink sink(trace, gpu, options, out);
  Timeline timeline;
  timeline.attach(sink);
  run(timeline);
  sink.finish();
  return out.str();
}

TEST(Perfetto, KernelsHoldTheirWaitsWithoutOverlap) {
  const PerfettoFile file(perfetto_bytes({}));
  EXPECT_THAT(file.errors, testing::IsEmpty());
  EXPECT_THAT(
      file.slices.at("rt, \"fast\" (real time) / stream 0: main"),
      ElementsAre(Slice{"gemm<float, 128>", 8000, 15000, 0}, Slice{"waiting for a task slot", 8000, 8500, 1},
                  Slice{"waiting for an SM", 8500, 10000, 1}, Slice{"running", 10000, 15000, 1}));
  EXPECT_THAT(file.slices.at("rt, \"fast\" (real time) / requests"),
              ElementsAre(Slice{"net", 4000, 18000, 0}));
  EXPECT_THAT(file.slices.at("rt, \"fast\" (real time) / copies, engine 0"),
              ElementsAre(Slice{"copy", 4000, 6000, 0}));
  EXPECT_THAT(file.slices.at("GPU Small GPU / context turns"), ElementsAre(Slice{"context 0", 0, 40000, 0}));
}

TEST(Perfetto, MovesOfMemoryLieWithTheCopiesOfTheirClientAndEngine) {
  const auto moved = [](TraceLevel level) {
    return PerfettoFile(perfetto_bytes({level}, [](Timeline& timeline) {
      CopyRecord copy;
      copy.engine = 1;
      copy.started = us(1), copy.finished = us(2);
      timeline.record(copy);
      timeline.record(MoveRecord{ClientId{0}, BufferId{7}, true, 4096, 1, us(2), us(5)});
      timeline.record(MoveRecord{ClientId{1}, BufferId{8}, true, 512, 1, us(5), us(6)});
      timeline.record(MoveRecord{ClientId{0}, BufferId{7}, false, 4096, 0, us(6), us(9)});
    }));
  };
  const PerfettoFile file = moved(TraceLevel::kernel);
  EXPECT_THAT(file.errors, testing::IsEmpty());
  EXPECT_THAT(file.slices.at("rt, \"fast\" (real time) / copies, engine 1"),
              ElementsAre(Slice{"copy", 1000, 2000, 0}, Slice{"checkpoint", 2000, 5000, 0}));
  EXPECT_THAT(file.slices.at("be (best effort) / copies, engine 1"),
              ElementsAre(Slice{"checkpoint", 5000, 6000, 0}));
  EXPECT_THAT(file.slices.at("rt, \"fast\" (real time) / copies, engine 0"),
              ElementsAre(Slice{"restore", 6000, 9000, 0}));
  const Event& back = file.begin_of("restore");
  EXPECT_EQ(back.category, "memory");
  EXPECT_EQ(back.annotations, (std::map<std::string, std::string>{{"bytes", "4096"}, {"buffer", "7"}}));
  EXPECT_THAT(moved(TraceLevel::request).slices, testing::IsEmpty());
}

TEST(Perfetto, BlocksOfOneSmLieInItsPlaces) {
  const PerfettoFile file(perfetto_bytes({TraceLevel::cta}));
  EXPECT_THAT(file.errors, testing::IsEmpty());
  const std::string sm = "GPU Small GPU / SMs / SM 1 / SM 1, place ";
  EXPECT_THAT(file.slices.at(sm + "0"),
              ElementsAre(Slice{"rt, \"fast\": gemm<float, 128>", 10000, 15000, 0}));
  EXPECT_THAT(file.slices.at(sm + "1"),
              ElementsAre(Slice{"rt, \"fast\": gemm<float, 128>", 10000, 14000, 0}));
  EXPECT_THAT(file.slices.at(sm + "2"), ElementsAre(Slice{"be: gemm<float, 128>", 14000, 30000, 0}));
}

TEST(Perfetto, KernelsSayHowTheyWereLaunchedAndWhatTheyWaitedFor) {
  const PerfettoFile file(perfetto_bytes({}));
  const auto gemm = file.begin_of("gemm<float, 128>").annotations;
  EXPECT_EQ(gemm.at("grid"), "[2, 1, 1]");
  EXPECT_EQ(gemm.at("block"), "[256, 1, 1]");
  EXPECT_EQ(gemm.at("registers per thread"), "64");
  EXPECT_EQ(gemm.at("shared memory"), "0");
  EXPECT_EQ(gemm.at("decision"), "plain");
  EXPECT_EQ(gemm.at("policy_wait_ns"), "1000");
  EXPECT_EQ(gemm.at("stream_wait_ns"), "1000");
  EXPECT_EQ(gemm.at("slot_wait_ns"), "500");
  EXPECT_EQ(gemm.at("sm_wait_ns"), "1500");
  EXPECT_EQ(gemm.at("run_ns"), "5000");
  const auto request = file.begin_of("net").annotations;
  EXPECT_EQ(request.at("latency_ns"), "15000");
  EXPECT_EQ(request.at("deadline"), "met");
  std::set<std::string> decisions;
  for (const Event& e : file.events)
    if (e.annotations.contains("decision")) decisions.insert(e.annotations.at("decision"));
  EXPECT_THAT(decisions, ElementsAre("persistent, 8 CTAs", "plain"));
}

TEST(Perfetto, FlowsLeadFromARequestToEachOfItsKernels) {
  const PerfettoFile file(perfetto_bytes({}));
  std::map<std::string, std::vector<std::uint64_t>> requests;
  std::map<std::string, std::vector<std::uint64_t>> kernels;
  for (const Event& e : file.events) {
    if (e.type != 1 || e.flows.empty()) continue;
    auto& side = e.category == "request" ? requests : kernels;
    const std::string path = file.path(e.track);
    auto& flows = side[path.substr(0, path.find(" / ")) + e.annotations.at("request")];
    flows.insert(flows.end(), e.flows.begin(), e.flows.end());
  }
  EXPECT_EQ(requests, kernels);
  EXPECT_THAT(requests.at("rt, \"fast\" (real time)0"), UnorderedElementsAre(1, 2));
}

TEST(Perfetto, CountersAreWrittenWhereTheyChange) {
  const PerfettoFile file(perfetto_bytes({}));
  EXPECT_THAT(file.counter("GPU Small GPU / resident blocks"),
              ElementsAre(std::pair(0, 0.0), std::pair(10000, 2.0), std::pair(30000, 0.0)));
  EXPECT_THAT(file.counter("GPU Small GPU / DRAM bandwidth"), ElementsAre(std::pair(10000, 62.5)));
}

TEST(Perfetto, WhatIsUnfinishedEndsWithTheTrace) {
  const PerfettoFile file(perfetto_bytes({}));
  EXPECT_THAT(file.slices.at("be (best effort) / requests"), Contains(Slice{"net", 31000, 40000, 0}));
  EXPECT_THAT(file.slices.at("be (best effort) / stream 0: main"),
              IsSupersetOf({Slice{"gemm<float, 128>", 32000, 40000, 0}, Slice{"running", 33000, 40000, 1}}));
}

TEST(Perfetto, ArrivalsAndDroppedRequestsAreInstants) {
  const PerfettoFile file(perfetto_bytes({}));
  std::vector<std::string> instants;
  for (const Event& e : file.events)
    if (e.type == 3 && file.path(e.track) == "be (best effort) / arrivals")
      instants.push_back(e.name + " " + std::to_string(e.at_ns));
  EXPECT_THAT(instants, ElementsAre("arrived 3000", "dropped 25000", "arrived 30000"));
}

TEST(Perfetto, TheLevelSaysWhatIsLeftOut) {
  const auto categories = [](TraceLevel level) {
    const PerfettoFile file(perfetto_bytes({level}));
    std::set<std::string> found;
    for (const Event& e : file.events) {
      if (e.type == 1) found.insert(e.category);
      if (e.type == 4) found.insert("counter");
    }
    return found;
  };
  EXPECT_THAT(categories(TraceLevel::request), ElementsAre("request", "turn"));
  EXPECT_THAT(categories(TraceLevel::kernel), ElementsAre("copy", "counter", "kernel", "request", "turn"));
  EXPECT_THAT(categories(TraceLevel::cta),
              ElementsAre("block", "copy", "counter", "kernel", "request", "turn"));
}

TEST(Perfetto, TheWindowCutsWhatCrossesItsBorders) {
  const PerfettoFile file(perfetto_bytes({TraceLevel::cta, us(12), us(16)}));
  EXPECT_THAT(file.errors, testing::IsEmpty());
  for (const Event& e : file.events) {
    EXPECT_GE(e.at_ns, 12000);
    EXPECT_LE(e.at_ns, 16000);
  }
  EXPECT_THAT(file.slices.at("rt, \"fast\" (real time) / stream 0: main"),
              ElementsAre(Slice{"gemm<float, 128>", 12000, 15000, 0}, Slice{"running", 12000, 15000, 1}));
  EXPECT_FALSE(file.slices.contains("rt, \"fast\" (real time) / copies, engine 0"));
  EXPECT_THAT(file.slices.at("GPU Small GPU / SMs / SM 1 / SM 1, place 2"),
              ElementsAre(Slice{"be: gemm<float, 128>", 14000, 16000, 0}));
  EXPECT_THAT(file.counter("GPU Small GPU / resident blocks"), ElementsAre(std::pair(12000, 2.0)));
}

void play_on_the_borders(Timeline& timeline) {
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Time start = us(10 * i);
    timeline.record(TurnRecord{i, start, start + us(10)});
  }
}

TEST(Perfetto, TheWindowIsHalfOpen) {
  const PerfettoFile file(perfetto_bytes({TraceLevel::request, us(10), us(30)}, play_on_the_borders));
  EXPECT_THAT(file.slices.at("GPU Small GPU / context turns"),
              ElementsAre(Slice{"context 1", 10000, 20000, 0}, Slice{"context 2", 20000, 30000, 0}));
}

void play_fast(Timeline& timeline) {
  const KernelRecord k = kernel(0, 0, 0, us(8), us(8), us(9));
  for (std::uint32_t i = 0; i < 5; ++i)  // 602 ps each
    timeline.record(
        block(k, i, 0, 0, us(8) + Time{602 * std::int64_t{i}}, us(8) + Time{602 * std::int64_t{i + 1}}));
  timeline.record(k);
}

TEST(Perfetto, SlicesShorterThanATickAreKeptAndRoundedDown) {
  const PerfettoFile file(perfetto_bytes({TraceLevel::cta}, play_fast));
  EXPECT_THAT(file.errors, testing::IsEmpty());
  const std::string name = "rt, \"fast\": gemm<float, 128>";
  EXPECT_THAT(file.slices.at("GPU Small GPU / SMs / SM 0 / SM 0, place 0"),
              ElementsAre(Slice{name, 8000, 8000, 0}, Slice{name, 8000, 8001, 0}, Slice{name, 8001, 8001, 0},
                          Slice{name, 8001, 8002, 0}, Slice{name, 8002, 8003, 0}));
}

TEST(Perfetto, TheSameRecordsGiveTheSameBytes) {
  EXPECT_EQ(perfetto_bytes({TraceLevel::cta}), perfetto_bytes({TraceLevel::cta}));
}

// ---- CSV ----

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Csv, RowsAreExactAndNamesAreQuoted) {
  const Trace trace = two_clients();
  std::ostringstream requests, kernels;
  CsvSink sink(trace, requests, kernels);
  Timeline timeline;
  timeline.attach(sink);
  EXPECT_FALSE(timeline.wants_blocks());
  play(timeline);
  RequestRecord exact;
  exact.arrival = Time{1};
  exact.started = Time{999};
  exact.finished = Time{1'000'000'000'000'002};
  timeline.record(exact);
  EXPECT_THAT(lines_of(requests.str()),
              ElementsAre("client,request,arrival_ns,started_ns,finished_ns,latency_ns,dropped,work_done_ns",
                          "\"rt, \"\"fast\"\"\",0,3000.000,4000.000,18000.000,15000.000,0,8000.000",
                          "be,0,3000.000,9000.000,30000.000,27000.000,0,8000.000",
                          "be,1,25000.000,,,,1,0.000", "be,2,30000.000,31000.000,,,0,0.000",
                          "\"rt, \"\"fast\"\"\",0,0.001,0.999,1000000000000.002,1000000000000.001,0,0.000"));
  const auto rows = lines_of(kernels.str());
  ASSERT_THAT(rows, SizeIs(5));
  EXPECT_EQ(rows[0],
            "launch,client,request,stream,op,kernel,priority,ctas,blocks,evictions,preemptions,"
            "redone_blocks,ready_ns,submitted_ns,queued_ns,slotted_ns,started_ns,last_block_ns,finished_ns");
  EXPECT_EQ(rows[1],
            "0,\"rt, \"\"fast\"\"\",0,0,1,\"gemm<float, "
            "128>\",0,0,1,0,0,0,6000.000,7000.000,8000.000,8500.000,10000.000,"
            "10000.000,15000.000");
}

// ---- Block log ----

class BlockLog : public InFolder {
 protected:
  std::vector<std::filesystem::path> write() {
    const Trace trace = two_clients();
    const Gpu gpu = small_gpu();
    BlockLogSink sink(trace, gpu, (folder_ / "run").string());
    Timeline timeline;
    timeline.attach(sink);
    play(timeline);
    return sink.finish();
  }
};

nlohmann::json read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

TEST_F(BlockLog, HasAFileForEachStreamThatRanABlock) {
  EXPECT_THAT(write(), ElementsAre(folder_ / "run1.json", folder_ / "run2.json", folder_ / "run3.json"));
  EXPECT_EQ(read_json(folder_ / "run1.json")["label"], "rt, \"fast\", stream main");
  EXPECT_EQ(read_json(folder_ / "run2.json")["label"], "rt, \"fast\", stream 1");
  EXPECT_EQ(read_json(folder_ / "run3.json")["label"], "be, stream main");
  EXPECT_THAT(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
}

TEST_F(BlockLog, NumbersFilesWithoutGaps) {
  const Trace trace = two_clients();
  const Gpu gpu = small_gpu();
  BlockLogSink sink(trace, gpu, (folder_ / "run").string());
  const KernelRecord k = kernel(0, 1, 1, us(8), us(8), us(9));
  const BlockRecord b = block(k, 0, 0, 0, us(8), us(9));
  sink.record(std::span(&b, 1));
  sink.record(k);
  EXPECT_THAT(sink.finish(), ElementsAre(folder_ / "run1.json"));
  EXPECT_EQ(read_json(folder_ / "run1.json")["label"], "be, stream 1");
}

TEST_F(BlockLog, HasTheFieldsOfTheExaminer) {
  const auto log = read_json(write()[0]);
  EXPECT_EQ(log["scenario_name"], "two \"clients\"");
  EXPECT_EQ(log["benchmark_name"], "net");
  EXPECT_EQ(log["max_resident_threads"], 4 * 2048);
  EXPECT_EQ(log["data_size"], 0);
  EXPECT_EQ(log["release_time"], 3e-6);
  EXPECT_EQ(log["PID"], 1);
  EXPECT_TRUE(log["TID"].is_number_integer());
  ASSERT_THAT(log["times"], SizeIs(3));
  EXPECT_EQ(log["times"][0], nlohmann::json::object());
  EXPECT_EQ(log["times"][1], nlohmann::json({{"copy_in_times", {4e-6, 6e-6}},
                                             {"execute_times", {6e-6, 15e-6}},
                                             {"copy_out_times", {15e-6, 15e-6}},
                                             {"cpu_times", {4e-6, 15e-6}}}));
  EXPECT_EQ(log["times"][2], nlohmann::json({{"kernel_name", "gemm<float, 128>"},
                                             {"block_count", 2},
                                             {"thread_count", 256},
                                             {"shared_memory", 0},
                                             {"cuda_launch_times", {6e-6, 7e-6, 15e-6}},
                                             {"ee_queue_time", 8e-6},
                                             {"block_times", {10e-6, 15e-6, 10e-6, 14e-6}},
                                             {"block_smids", {1, 1}},
                                             {"cpu_core", 0}}));
}

TEST_F(BlockLog, KeepsTheFinishedBlocksOfAnUnfinishedKernel) {
  const auto log = read_json(write()[2]);
  ASSERT_THAT(log["times"], SizeIs(4));
  EXPECT_EQ(log["times"][3]["cuda_launch_times"][2], 0);
  EXPECT_THAT(log["times"][3]["block_smids"], ElementsAre(2));
}

TEST_F(BlockLog, IsReadAsThePlottersRead) {
  if (std::system("python3 -c 'import json' >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
  std::string command = "python3 tests/block_log_reader.py";
  for (const auto& path : write()) command += " '" + path.string() + "'";
  const std::filesystem::path answer = folder_ / "answer";
  ASSERT_EQ(std::system((command + " >'" + answer.string() + "'").c_str()), 0);
  std::ostringstream text;
  text << std::ifstream(answer).rdbuf();
  EXPECT_THAT(lines_of(text.str()),
              ElementsAre("rt, \"fast\", stream main: 1 kernels, 2 blocks, 4 SMs, at most 512 threads",
                          "rt, \"fast\", stream 1: 1 kernels, 1 blocks, 4 SMs, at most 128 threads",
                          "be, stream main: 2 kernels, 2 blocks, 4 SMs, at most 256 threads"));
}

TEST_F(BlockLog, SaysWhichFileItCannotWrite) {
  const Trace trace = two_clients();
  const Gpu gpu = small_gpu();
  BlockLogSink sink(trace, gpu, (folder_ / "missing" / "run").string());
  Timeline timeline;
  timeline.attach(sink);
  EXPECT_THROW(play(timeline), InputError);
}

// ---- Timeline ----

class Order : public Sink {
 public:
  using Sink::record;
  void record(const KernelRecord& r) override { seen.push_back("kernel " + std::to_string(r.launch.serial)); }
  void record(std::span<const BlockRecord> blocks) override {
    for (const BlockRecord& b : blocks) seen.push_back("block of " + std::to_string(b.launch.serial));
  }
  bool wants_blocks() const override { return true; }
  std::vector<std::string> seen;
};

TEST(Timeline, HandsOverBlocksBeforeTheirKernel) {
  Order order;
  Timeline timeline;
  timeline.attach(order);
  const KernelRecord k = kernel(7, 0, 0, us(8), us(8), us(9));
  timeline.record(block(k, 0, 0, 0, us(8), us(9)));
  timeline.record(k);
  timeline.record(block(kernel(8, 0, 0, us(8), us(8), us(9)), 0, 0, 0, us(8), us(9)));
  EXPECT_THAT(order.seen, ElementsAre("block of 7", "kernel 7"));
  timeline.flush();
  EXPECT_THAT(order.seen, Contains("block of 8"));
}

TEST(Timeline, BuildsOnlyWhatASinkWants) {
  const Trace trace = two_clients();
  const Gpu gpu = small_gpu();
  std::ostringstream out;
  PerfettoSink requests(trace, gpu, {TraceLevel::request}, out),
      kernels(trace, gpu, {TraceLevel::kernel}, out);
  Timeline timeline;
  timeline.attach(requests);
  EXPECT_FALSE(timeline.wants_gauges());
  timeline.attach(kernels);
  EXPECT_TRUE(timeline.wants_gauges());
  EXPECT_FALSE(timeline.wants_blocks());
}

// ---- Picture ----

std::string picture(OccupancyOptions options, void (*run)(Timeline&)) {
  const Trace trace = two_clients();
  Gpu gpu = small_gpu();
  gpu.sms = 132;
  OccupancySink sink(trace, gpu, std::move(options));
  Timeline timeline;
  timeline.attach(sink);
  run(timeline);
  timeline.flush();
  std::ostringstream out;
  sink.write(out);
  return out.str();
}

TEST(OccupancySvg, ShowsClientsTitleAndUnits) {
  const std::string svg = picture({{}, kNever, "A <title>", "greedy"}, play);
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("A &lt;title&gt;"));
  EXPECT_THAT(svg, HasSubstr("greedy"));
  EXPECT_THAT(svg, HasSubstr("rt, &quot;fast&quot;"));
  EXPECT_THAT(svg, HasSubstr("time (µs)"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(svg, picture({{}, kNever, "A <title>", "greedy"}, play));
}

TEST(OccupancySvg, OfNoBlocksSaysSo) {
  EXPECT_THAT(picture({}, [](Timeline&) {}), HasSubstr("no block ran"));
}

TEST(OccupancySvg, StaysSmallWhateverHappened) {
  const std::string svg = picture({}, [](Timeline& timeline) {
    std::uint64_t state = 1;
    const auto random = [&](std::uint64_t below) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<std::uint32_t>((state >> 33) % below);
    };
    for (std::uint32_t i = 0; i < 100'000; ++i) {
      const KernelRecord k = kernel(0, random(2), random(2), us(8), us(8), us(9));
      const Time start{random(100'000'000)};
      timeline.record(block(k, 0, random(132), 0, start, start + Time{random(1'000'000) + 1}));
    }
  });
  EXPECT_LT(svg.size(), 300'000);
}

}  // namespace
}  // namespace corun
