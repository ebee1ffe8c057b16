// What do the numbers of a result mean?  Each rule of traces/timeline/metrics.h, and how they are printed.
#include "traces/timeline/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "traces/timeline/report.h"

namespace corun {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using Requests = std::vector<RequestRecord>;

Time ms(std::int64_t n) { return milliseconds(n); }

Client client(const std::string& name, Arrivals arrivals = ClosedLoop{}) {
  Client c;
  c.name = name;
  c.arrivals = std::move(arrivals);
  return c;
}

/// One request of `client`; its work is `work` of solo time.
RequestRecord request(std::uint32_t client, Time arrival, Time started, Time finished, Time work) {
  RequestRecord r;
  r.client = ClientId{client};
  r.arrival = arrival;
  r.started = started;
  r.finished = finished;
  r.work_done = work;
  return r;
}

RequestRecord dropped(std::uint32_t client, Time arrival) {
  RequestRecord r;
  r.client = ClientId{client};
  r.arrival = arrival;
  r.dropped = true;
  return r;
}

/// Requests back to back from zero, each taking `length` and doing `work`.
Requests back_to_back(std::uint32_t client, std::size_t n, Time length, Time work) {
  Requests requests;
  for (std::size_t i = 0; i < n; ++i) {
    const Time start = length * static_cast<std::int64_t>(i);
    requests.push_back(request(client, start, start, start + length, work));
    requests.back().request = i;
  }
  return requests;
}

Requests joined(Requests a, const Requests& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Trace trace_of(std::vector<Client> clients, std::optional<Time> duration = std::nullopt, Time warm_up = {}) {
  Trace trace;
  trace.name = "test";
  trace.gpu = "h200";
  trace.clients = std::move(clients);
  trace.run.duration = duration;
  trace.run.warm_up = warm_up;
  return trace;
}

TEST(Window, WithADurationStartsAfterTheWarmUp) {
  const Window w = window_of(trace_of({client("a")}, ms(10), ms(2)), {});
  EXPECT_EQ(w.begin, ms(2));
  EXPECT_EQ(w.end, ms(10));
  EXPECT_FALSE(w.fixed_work);
}

TEST(Window, EndsWhenTheLastClientFinishedOnce) {
  const auto records = joined(back_to_back(0, 8, ms(1), ms(1)), back_to_back(1, 2, ms(5), ms(1)));
  const Window w = window_of(trace_of({client("fast"), client("slow")}), records);
  EXPECT_EQ(w.begin, ms(0));
  EXPECT_EQ(w.end, ms(5));
  EXPECT_FALSE(w.fixed_work);
}

TEST(Window, IsTheWholeRunWhenEveryClientSendsOneRequest) {
  const Trace trace = trace_of({client("a", Once{}), client("b", ExplicitTimes{{ms(1)}})});
  const Requests records{request(0, ms(0), ms(0), ms(3), ms(2)), request(1, ms(1), ms(1), ms(7), ms(2))};
  const Window w = window_of(trace, records);
  EXPECT_EQ(w.end, ms(7));
  EXPECT_TRUE(w.fixed_work);
}

TEST(Window, IsNotFixedWorkWhenOneShotClientsWereRestarted) {
  const Trace trace = trace_of({client("a", Once{}), client("b", Once{})});
  const auto records = joined(back_to_back(0, 4, ms(1), ms(1)), back_to_back(1, 1, ms(4), ms(1)));
  EXPECT_FALSE(window_of(trace, records).fixed_work);
}

TEST(Window, ReachesTheLastKnownInstantWhenAClientNeverFinishes) {
  const auto records = joined(back_to_back(0, 3, ms(1), ms(1)), {request(1, ms(0), ms(0), kNever, ms(0))});
  EXPECT_EQ(window_of(trace_of({client("a"), client("stuck")}), records).end, ms(3));
}

TEST(Window, OfNoRecordsIsEmptyAndNothingDividesByIt) {
  const Trace trace = trace_of({client("a")});
  const Window w = window_of(trace, {});
  EXPECT_EQ(w.end, ms(0));
  const RunResult r = measure(trace, w, {}, {});
  EXPECT_EQ(r.clients[0].throughput_per_s, 0);
  EXPECT_TRUE(std::isnan(r.clients[0].mean_ms));
  EXPECT_TRUE(std::isnan(r.clients[0].slowdown));
  EXPECT_TRUE(std::isnan(r.stp));
  EXPECT_TRUE(std::isnan(r.fairness));
}

TEST(Metrics, TwoEqualJobsSharingFairlyHaveStpOne) {
  const Trace trace = trace_of({client("a"), client("b")}, ms(100));
  const auto together = joined(back_to_back(0, 10, ms(10), ms(5)), back_to_back(1, 10, ms(10), ms(5)));
  const std::vector<Requests> alone{back_to_back(0, 20, ms(5), ms(5)), back_to_back(1, 20, ms(5), ms(5))};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.stp, 1);
  EXPECT_DOUBLE_EQ(r.antt, 2);
  EXPECT_DOUBLE_EQ(r.fairness, 1);
  EXPECT_DOUBLE_EQ(r.jain, 1);
  EXPECT_DOUBLE_EQ(r.clients[0].slowdown, 2);
  EXPECT_DOUBLE_EQ(r.clients[0].throughput_per_s, 100);
  EXPECT_DOUBLE_EQ(r.clients[0].alone_throughput_per_s, 200);
}

TEST(Metrics, OneClientAloneHasStpOne) {
  const Trace trace = trace_of({client("a")}, ms(31), ms(4));
  const auto records = back_to_back(0, 5, ms(7), ms(3));
  const std::vector<Requests> alone{records};
  const RunResult r = measure(trace, window_of(trace, records), records, alone);
  EXPECT_EQ(r.stp, 1);
  EXPECT_EQ(r.antt, 1);
}

TEST(Metrics, OneClientSlowedDownHasStpBelowOne) {
  const Trace trace = trace_of({client("a")}, ms(30));
  const auto together = back_to_back(0, 4, ms(8), ms(5));
  const std::vector<Requests> alone{back_to_back(0, 6, ms(5), ms(5))};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.stp, 5.0 / 8);
}

TEST(Metrics, JainAndFairnessFollowTheirFormulas) {
  const Trace trace = trace_of({client("a"), client("b")}, ms(10));
  const auto together = joined(back_to_back(0, 1, ms(10), ms(8)), back_to_back(1, 1, ms(10), ms(2)));
  const std::vector<Requests> alone{back_to_back(0, 1, ms(10), ms(10)), back_to_back(1, 1, ms(10), ms(10))};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.fairness, 0.25);
  EXPECT_DOUBLE_EQ(r.jain, 1.0 / (2 * (0.64 + 0.04)));
}

TEST(Metrics, FixedWorkTakesLatencyRatios) {
  const Trace trace = trace_of({client("a", Once{}), client("b", Once{})});
  const Requests together{request(0, ms(0), ms(0), ms(5), ms(5)), request(1, ms(0), ms(5), ms(10), ms(5))};
  const std::vector<Requests> alone{{request(0, ms(0), ms(0), ms(5), ms(5))},
                                    {request(1, ms(0), ms(0), ms(5), ms(5))}};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.stp, 1.5);
  EXPECT_DOUBLE_EQ(r.antt, 1.5);
  EXPECT_THAT(r.window, HasSubstr("fixed work"));
}

TEST(Metrics, StpCountsOnlyTheWindow) {
  // In the warm-up the client got nothing done; in the window it ran as if alone.
  const Trace trace = trace_of({client("a")}, ms(20), ms(10));
  const Requests together{request(0, ms(0), ms(10), ms(15), ms(5)),
                          request(0, ms(15), ms(15), ms(20), ms(5))};
  const std::vector<Requests> alone{back_to_back(0, 4, ms(5), ms(5))};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.stp, 1);
  EXPECT_EQ(r.makespan, ms(20));
  EXPECT_EQ(r.duration, ms(10));
}

TEST(Metrics, ARequestAcrossTheBorderCountsByItsShare) {
  const Trace trace = trace_of({client("a")}, ms(20), ms(10));
  const std::vector<Requests> alone{Requests{request(0, ms(10), ms(10), ms(20), ms(10))}};
  const auto progress = [&](Time started, Time finished) {
    const std::vector together{request(0, started, started, finished, ms(8))};
    return measure(trace, {ms(10), ms(20), false}, together, alone).clients[0].progress;
  };
  EXPECT_DOUBLE_EQ(progress(ms(8), ms(12)), 0.4);   // the half inside
  EXPECT_DOUBLE_EQ(progress(ms(18), ms(26)), 0.2);  // a quarter inside
  EXPECT_DOUBLE_EQ(progress(ms(5), ms(25)), 0.4);   // the window is half of it
  EXPECT_DOUBLE_EQ(progress(ms(10), ms(20)), 0.8);  // exactly the window
  EXPECT_DOUBLE_EQ(progress(ms(2), ms(10)), 0);     // ends where the window begins
  EXPECT_DOUBLE_EQ(progress(ms(20), ms(30)), 0);    // starts where it ends
  EXPECT_DOUBLE_EQ(progress(ms(16), kNever), 0.8);  // unfinished: all that it did, up to the end
  EXPECT_DOUBLE_EQ(progress(ms(0), kNever), 0.4);   // unfinished and from before
}

TEST(Metrics, ARequestThatNeverStartedDidNoWork) {
  const Trace trace = trace_of({client("a")}, ms(10));
  const std::vector together{request(0, ms(1), kNever, kNever, ms(0))};
  const std::vector<Requests> alone{back_to_back(0, 2, ms(5), ms(5))};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_EQ(r.clients[0].progress, 0);
  EXPECT_EQ(r.clients[0].unfinished, 1);
  EXPECT_TRUE(std::isinf(r.clients[0].slowdown));
  EXPECT_TRUE(std::isinf(r.antt));
  EXPECT_EQ(r.stp, 0);
  EXPECT_THAT(texts_of(r), ElementsAre(HasSubstr("infinite")));
}

TEST(Metrics, LatencyCountsFromIntendedArrival) {
  const Trace trace = trace_of({client("a", Periodic{ms(10)})}, ms(100));
  const std::vector together{request(0, ms(10), ms(17), ms(20), ms(3))};
  const std::vector<Requests> alone{Requests{request(0, ms(10), ms(10), ms(14), ms(3))}};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_DOUBLE_EQ(r.clients[0].mean_ms, 10);
  EXPECT_DOUBLE_EQ(r.clients[0].alone_mean_ms, 4);
  EXPECT_DOUBLE_EQ(r.clients[0].slowdown, 2.5);
}

TEST(Metrics, LatencyCountsRequestsThatArrivedAndFinishedInTheWindow) {
  const Trace trace = trace_of({client("a")}, ms(20), ms(10));
  const auto finished_and_latency = [&](Time arrival, Time finished) {
    const std::vector together{request(0, arrival, arrival, finished, ms(1))};
    const ClientResult c = measure(trace, {ms(10), ms(20), false}, together, {}).clients[0];
    return std::pair(c.finished, !std::isnan(c.mean_ms));
  };
  const Time tick{1};
  EXPECT_EQ(finished_and_latency(ms(10), ms(20)), std::pair(1ul, true));
  EXPECT_EQ(finished_and_latency(ms(10), ms(20) + tick), std::pair(0ul, false));
  EXPECT_EQ(finished_and_latency(ms(10) - tick, ms(15)), std::pair(1ul, false));
  EXPECT_EQ(finished_and_latency(ms(1), ms(10)), std::pair(1ul, false));
  EXPECT_EQ(finished_and_latency(ms(1), ms(10) - tick), std::pair(0ul, false));
}

TEST(Metrics, PercentileIsTheOrderStatistic) {
  const Trace trace = trace_of({client("a")}, ms(1000));
  const auto measured = [&](std::int64_t n) {
    Requests together;  // latencies n, n-1, ... 1 ms
    for (std::int64_t i = n; i > 0; --i) together.push_back(request(0, ms(0), ms(0), ms(i), ms(1)));
    return measure(trace, window_of(trace, together), together, {}).clients[0];
  };
  EXPECT_EQ(measured(1).p50_ms, 1);
  EXPECT_EQ(measured(1).p99_ms, 1);
  EXPECT_EQ(measured(2).p50_ms, 1);
  EXPECT_EQ(measured(3).p50_ms, 2);
  EXPECT_EQ(measured(20).p95_ms, 19);
  EXPECT_EQ(measured(21).p95_ms, 20);
  EXPECT_EQ(measured(99).p99_ms, 99);
  EXPECT_EQ(measured(100).p99_ms, 99);
  EXPECT_EQ(measured(101).p99_ms, 100);
  EXPECT_EQ(measured(100).max_ms, 100);
  EXPECT_EQ(measured(100).mean_ms, 50.5);
}

TEST(Metrics, LatencyOfExactlyTheDeadlineMeetsIt) {
  Trace trace = trace_of({client("a")}, ms(100));
  trace.clients[0].deadline = ms(10);
  const auto missed = [&](Time latency) {
    const std::vector together{request(0, ms(5), ms(5), ms(5) + latency, ms(1))};
    return measure(trace, window_of(trace, together), together, {}).clients[0].deadline_misses;
  };
  EXPECT_EQ(missed(ms(10)), 0);
  EXPECT_EQ(missed(ms(10) + Time{1}), 1);
}

TEST(Metrics, DroppedRequestsMissTheirDeadline) {
  Trace trace = trace_of({client("a"), client("no deadline")}, ms(100), ms(10));
  trace.clients[0].deadline = ms(10);
  const std::vector together{dropped(0, ms(9)), dropped(0, ms(10)), dropped(0, ms(50)), dropped(1, ms(50))};
  const RunResult r = measure(trace, window_of(trace, together), together, {});
  EXPECT_EQ(r.clients[0].dropped, 2);
  EXPECT_EQ(r.clients[0].deadline_misses, 2);
  EXPECT_EQ(r.clients[1].dropped, 1);
  EXPECT_EQ(r.clients[1].deadline_misses, 0);
}

TEST(Metrics, OverdueAtTheEndMissesItsDeadline) {
  Trace trace = trace_of({client("a")}, ms(100));
  trace.clients[0].deadline = ms(10);
  const auto missed = [&](Time arrival) {
    const std::vector together{request(0, arrival, arrival, kNever, ms(0))};
    return measure(trace, window_of(trace, together), together, {}).clients[0].deadline_misses;
  };
  EXPECT_EQ(missed(ms(90)), 0);
  EXPECT_EQ(missed(ms(90) - Time{1}), 1);
}

/// Result of one client in 100 ms: `finished` requests of 1, 2, ... ms, and `others`.
ClientResult with(std::int64_t finished, const Requests& others) {
  const Trace trace = trace_of({client("a")}, ms(100));
  Requests together;
  for (std::int64_t i = 1; i <= finished; ++i) together.push_back(request(0, ms(0), ms(0), ms(i), ms(1)));
  for (std::size_t i = 0; i < together.size(); ++i) together[i].request = i;
  for (RequestRecord r : others) {
    r.request = together.size();
    together.push_back(r);
  }
  return measure(trace, window_of(trace, together), together, {}).clients[0];
}

TEST(Metrics, ADroppedRequestNeverEndsSoThatAQuantileWithItIsInfinite) {
  const ClientResult c = with(49, {dropped(0, ms(5))});
  EXPECT_EQ(c.p50_ms, 25);
  EXPECT_EQ(c.p95_ms, 48);
  EXPECT_EQ(c.p99_ms, std::numeric_limits<double>::infinity());
  EXPECT_EQ(with(99, {dropped(0, ms(5))}).p99_ms, 99);
  EXPECT_EQ(c.mean_ms, 25) << "of those that ended";
}

TEST(Metrics, ARequestUnderWayAtTheEndCountsInAQuantileThatItHasOutlived) {
  const auto under_way = [](Time age) { return Requests{request(0, ms(100) - age, ms(100) - age, kNever, ms(0))}; };
  EXPECT_EQ(with(20, {}).p95_ms, 19);
  EXPECT_EQ(with(20, under_way(ms(18))).p95_ms, 19) << "whether it will take longer is not known";
  EXPECT_EQ(with(20, under_way(ms(50))).p95_ms, 20);
  EXPECT_EQ(with(20, under_way(ms(50))).max_ms, 50) << "as long at least";
  EXPECT_EQ(with(20, under_way(ms(3))).max_ms, 20);
}

TEST(Metrics, OverloadedQuantilesCountWhoWaits) {
  Requests waiting;
  for (std::int64_t i = 0; i < 20; ++i) waiting.push_back(request(0, ms(100 - i), kNever, kNever, ms(0)));
  EXPECT_GT(with(20, waiting).p50_ms, with(20, {}).p50_ms);
}

TEST(Metrics, SlowdownCountsADroppedRequestUntilWhatWasServedInsteadEnds) {
  const Trace trace = trace_of({client("a", Periodic{ms(10), ms(0)})}, ms(100));
  Requests together{request(0, ms(0), ms(0), ms(25), ms(5)), dropped(0, ms(10)), request(0, ms(20), ms(25), ms(50), ms(5)), dropped(0, ms(90))};
  Requests alone{request(0, ms(0), ms(0), ms(5), ms(5)), request(0, ms(10), ms(10), ms(15), ms(5))};
  for (Requests* of : {&together, &alone})
    for (std::size_t i = 0; i < of->size(); ++i) (*of)[i].request = i;
  const std::vector<Requests> each{alone};
  const ClientResult c = measure(trace, window_of(trace, together), together, each).clients[0];
  EXPECT_EQ(c.slowdown, (25 + 40 + 30 + 10) / 4.0 / 5) << "the last one until the end of the window";
  EXPECT_EQ(c.alone_p99_ms, 5);
  EXPECT_EQ(c.alone_p50_ms, 5);
}

TEST(Metrics, SaysWhenEachClientsRequestsCome) {
  Trace trace = trace_of({client("cam", Periodic{ms(20), ms(0)}), client("llm"), client("web", Poisson{50, 0}), client("cam 2", Periodic{ms(20), ms(0)})}, ms(10));
  trace.clients[2].stale = Stale::queue;
  const RunResult r = measure(trace, window_of(trace, {}), {}, {});
  EXPECT_EQ(r.arrivals, "cam, cam 2 every 20 ms, the newest replaces who waits; llm one after the other; web Poisson, 50 /s, queued");
  EXPECT_THAT(format_report(r), HasSubstr("arrivals cam, cam 2 every 20 ms"));
  EXPECT_THAT(format_comparison({{r}}), HasSubstr("arrivals cam, cam 2 every 20 ms"));
}

TEST(Metrics, AClientThatSentNothingIsLeftOutOfTheSums) {
  const Trace trace = trace_of({client("a"), client("silent")}, ms(10));
  const auto together = back_to_back(0, 2, ms(5), ms(5));
  const std::vector<Requests> alone{together, Requests{}};
  const RunResult r = measure(trace, window_of(trace, together), together, alone);
  EXPECT_TRUE(std::isnan(r.clients[1].progress));
  EXPECT_EQ(r.stp, 1);
  EXPECT_EQ(r.antt, 1);
  EXPECT_EQ(r.fairness, 1);
}

RunResult sample(std::size_t clients) {
  RunResult r;
  r.trace = "sample";
  r.gpu = "h200";
  r.policy = "greedy";
  r.seed = 7;
  r.window = "0 ms to 100 ms; steady state";
  r.alone = "each client by itself under the same arrivals";
  r.duration = ms(100);
  r.makespan = Time{100'000'000'123};
  r.stp = 1.25;
  r.antt = std::numeric_limits<double>::infinity();
  r.fairness = 1.0 / 3;
  r.jain = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < clients; ++i) {
    ClientResult c;
    c.name = "client " + std::to_string(i);
    if (i == 0) c.name += " with a name that would not fit into any table at all";
    c.service_class = i == 0 ? ServiceClass::real_time : ServiceClass::best_effort;
    c.finished = 12'345'678;
    c.dropped = 123'456;
    c.throughput_per_s = 123456.789;
    c.mean_ms = 0.0123456;
    c.p50_ms = c.p95_ms = c.p99_ms = 1234.5678;
    c.max_ms = std::numeric_limits<double>::quiet_NaN();
    c.slowdown = 1.5;
    c.progress = 0.75;
    r.clients.push_back(c);
  }
  return r;
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

MATCHER(FitsTheTerminal, "") { return columns(arg) <= kReportWidth; }

TEST(Report, OfTwelveClientsFitsOnAScreen) {
  RunResult r = sample(12);
  r.wall_s = 0.5;
  r.blocks = 12'000'000;
  for (int i = 0; i < 6; ++i) {
    add_note(r, NoteKind::counters,
        "kernel x has no counters: it is taken to use a third of the bandwidth to memory of the whole GPU, "
        "which is what the median of the measured ones does; give counters for a better answer");
  }
  const auto lines = lines_in(format_report(r));
  EXPECT_LE(lines.size(), 25);
  EXPECT_THAT(lines, Each(FitsTheTerminal()));
  EXPECT_THAT(format_report(r), HasSubstr("…"));
  EXPECT_THAT(format_report(r), HasSubstr("+5 more"));
}

TEST(Report, ShowsUndefinedAsADash) {
  const std::string text = format_report(sample(1));
  EXPECT_THAT(text, HasSubstr("Jain -"));
  EXPECT_THAT(text, HasSubstr("ANTT inf"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nan")));
}

TEST(Report, ComparisonShowsEveryRunAndFits) {
  std::vector<RunResult> runs(7, sample(3));
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].policy = "policy_" + std::to_string(i);
  const std::string text = format_comparison(runs);
  for (const RunResult& r : runs) EXPECT_THAT(text, HasSubstr(r.policy));
  EXPECT_THAT(text, HasSubstr("worst RT p99"));
  EXPECT_THAT(lines_in(text), Each(FitsTheTerminal()));
  EXPECT_EQ(format_comparison({}), "");
}

TEST(Summary, HasItsKeysAndNullForWhatIsUndefined) {
  std::ostringstream out;
  write_summary(sample(2), out);
  const auto document = nlohmann::ordered_json::parse(out.str());
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("version", "trace", "gpu", "policy", "seed", "window", "arrivals", "alone", "duration_ns",
                                "makespan_ns", "stp", "antt", "fairness", "jain", "sm_busy", "occupancy",
                                "blocks", "clients", "notes"));
  EXPECT_EQ(document["version"], 1);
  EXPECT_TRUE(document["antt"].is_null());
  EXPECT_TRUE(document["jain"].is_null());
  EXPECT_EQ(document["fairness"].get<double>(), 1.0 / 3);
  EXPECT_THAT(document["clients"], SizeIs(2));
  EXPECT_EQ(document["clients"][0]["class"], "real_time");
  EXPECT_TRUE(document["clients"][0]["max_ms"].is_null());
  EXPECT_THAT(out.str(), HasSubstr("\"makespan_ns\": 100000000.123"));
  EXPECT_THAT(out.str(), testing::Not(HasSubstr("wall")));
}

TEST(Report, AClientThatFailedSaysWhy) {
  RunResult r = sample(2);
  r.clients[1].failed = "out of memory: it asks for 2 GB, and 1 GB of 12 GB are free";
  for (const std::string& text : {format_report(r), format_comparison({{r}})}) {
    EXPECT_THAT(text, HasSubstr("out of memory: it asks for 2 GB"));
    EXPECT_THAT(text, HasSubstr("failed   " + r.clients[1].name));
  }
  std::ostringstream out;
  write_summary(r, out);
  const auto document = nlohmann::json::parse(out.str());
  EXPECT_FALSE(document["clients"][0].contains("failed"));
  EXPECT_EQ(document["clients"][1]["failed"], r.clients[1].failed);
}

TEST(Summary, HasMemoryWhereTheTraceAllocatesAny) {
  RunResult r = sample(1);
  r.memory_peak = 10, r.checkpoints = 2, r.moved_bytes = 30;
  std::ostringstream out;
  write_summary(r, out);
  EXPECT_EQ(nlohmann::json::parse(out.str())["memory"],
            nlohmann::json({{"peak_bytes", 10}, {"checkpoints", 2}, {"moved_bytes", 30}}));
}

TEST(Summary, OfAListHoldsEachResult) {
  const std::vector<RunResult> runs(3, sample(1));
  std::ostringstream out, again;
  write_summary(runs, out);
  write_summary(runs, again);
  EXPECT_EQ(out.str(), again.str());
  const auto document = nlohmann::json::parse(out.str());
  EXPECT_EQ(document["version"], 1);
  EXPECT_THAT(document["results"], SizeIs(3));
  EXPECT_FALSE(document["results"][0].contains("version"));
}

TEST(Summary, IsTheSameBytesWhateverTheRunTook) {
  RunResult r = sample(1);
  std::ostringstream out, again;
  write_summary(r, out);
  r.wall_s = 3.5;
  r.events = 12;
  write_summary(r, again);
  EXPECT_EQ(out.str(), again.str());
}

}  // namespace
}  // namespace corun
