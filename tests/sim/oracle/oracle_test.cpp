// Does the search find the best fixed division, always the same one, and is regret measured from it?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "sim/oracle/oracle.h"
#include "tests/support/build.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// Best where the shares are as `wish`, falling off with the square of the distance.
Values around(const std::vector<double>& wish, std::size_t* tried = nullptr) {
  return [=](const std::vector<Division>& divisions) {
    std::vector<double> values;
    for (const Division& d : divisions) {
      double distance = 0;
      for (std::size_t i = 0; i < d.size(); ++i) distance += (d[i] - wish[i]) * (d[i] - wish[i]);
      values.push_back(-distance);
      if (tried != nullptr) ++*tried;
    }
    return values;
  };
}

TEST(OracleSearch, FindsTheDivisionWishedForByMovingSingleUnits) {
  EXPECT_THAT(search(2, 66, 1, around({41, 25})), testing::ElementsAre(41, 25));
  EXPECT_THAT(search(2, 66, 1, around({65, 1})), testing::ElementsAre(65, 1));
  EXPECT_THAT(search(2, 66, 1, around({1, 65})), testing::ElementsAre(1, 65));
  EXPECT_THAT(search(3, 66, 1, around({13, 50, 3})), testing::ElementsAre(13, 50, 3));
  EXPECT_THAT(search(6, 66, 1, around({1, 2, 3, 4, 5, 51})), testing::ElementsAre(1, 2, 3, 4, 5, 51));
}

TEST(OracleSearch, DividesAllUnitsAndLeavesEachClientOne) {
  for (const std::uint32_t clients : {1u, 2u, 5u, 8u, 11u}) {
    for (const std::uint32_t units : {11u, 15u, 66u}) {
      std::set<Division> seen;
      search(clients, units, 1, [&](const std::vector<Division>& divisions) {
        std::vector<double> values;
        for (const Division& d : divisions) {
          EXPECT_TRUE(seen.insert(d).second) << "tried twice";
          EXPECT_EQ(d.size(), clients);
          EXPECT_EQ(std::accumulate(d.begin(), d.end(), 0u), units);
          EXPECT_THAT(d, testing::Each(testing::Ge(1u)));
          values.push_back(std::sin(d.front()) + std::cos(d.back()));
        }
        return values;
      });
      EXPECT_GE(seen.size(), 1u);
    }
  }
}

TEST(OracleSearch, TakesMultiplesOfTheFinestStepFromTheGrid) {
  EXPECT_THAT(search(2, 100, 2, around({63, 37})), testing::ElementsAre(62, 38));
}

TEST(OracleSearch, TriesFewerThanAllDivisions) {
  std::size_t tried = 0;
  search(4, 66, 1, around({30, 20, 10, 6}, &tried));
  EXPECT_LT(tried, 400u);  // of 43,680
}

TEST(OracleSearch, OfEqualDivisionsTheFirstTriedStays) {
  const Values flat = [](const std::vector<Division>& d) { return std::vector<double>(d.size(), 1); };
  EXPECT_EQ(search(2, 66, 1, flat), search(2, 66, 1, flat));
  EXPECT_THAT(search(2, 16, 1, flat), testing::ElementsAre(2, 14));
}

TEST(OracleRegret, IsWhatIsMissingInTheDirectionOfTheObjective) {
  EXPECT_DOUBLE_EQ(regret(1.5, 1.8, Objective::stp), 0.3);
  EXPECT_DOUBLE_EQ(regret(1.5, 1.2, Objective::antt), 0.3);
  EXPECT_LT(regret(2, 1.8, Objective::stp), 0);  // it may do better than any fixed division
  EXPECT_LT(regret(1, 1.2, Objective::p99), 0);
}

/// A kernel that fills every SM beside one of few blocks, which few SMs serve as well as many.
struct Pair : TraceBuilder {
  Pair() {
    trace.name = "pair";
    client("wide", program({launch(kernel(whole_sm_kernel(64, us(10))))}), ClosedLoop{});
    client("narrow", program({launch(kernel(whole_sm_kernel(2, us(50))))}), ClosedLoop{});
    trace.run.duration = ms(3);
  }
  Gpu gpu = small_gpu(8);
};

TEST(Oracle, IsNoWorseThanAnyDivisionOfTheTpcs) {
  Pair p;
  for (const Objective objective : {Objective::stp, Objective::antt, Objective::p99}) {
    OracleOptions options;
    options.objective = objective;
    const Oracle oracle = find_oracle(p.trace, p.gpu, options);
    EXPECT_EQ(oracle.value, value_of(oracle.best, objective));
    for (std::uint32_t tpcs = 1; tpcs < 8; ++tpcs) {
      const std::string spec = "static-split:tpcs=" + std::to_string(tpcs) + "/" + std::to_string(8 - tpcs);
      EXPECT_GE(regret(value_of(run(p.trace, p.gpu, {{spec}}), objective), oracle.value, objective),
                -1e-12)
          << spec;
    }
  }
}

TEST(Oracle, IsTheSameOnAnyNumberOfThreads) {
  Pair p;
  OracleOptions one, four;
  one.threads = 1;
  four.threads = 4;
  Memory memory;
  four.memory = &memory;
  const Oracle a = find_oracle(p.trace, p.gpu, one), b = find_oracle(p.trace, p.gpu, four);
  EXPECT_EQ(a.best.policy, b.best.policy);
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.tried, b.tried);
}

TEST(Oracle, RefusesMoreClientsThanTpcs) {
  Pair p;
  p.gpu = small_gpu(2);
  EXPECT_NO_THROW(find_oracle(p.trace, p.gpu, {}));
  p.gpu = small_gpu(1);
  EXPECT_THROW(find_oracle(p.trace, p.gpu, {}), InputError);
}

TEST(Oracle, CommonRunsAloneGiveTheSameResultAsOnesOwn) {
  Pair p;
  Memory memory;
  for (const char* policy : {"fcfs", "timeslice", "static-split:tpcs=6/2"}) {
    const RunResult own = run(p.trace, p.gpu, {{policy}});
    const RunResult shared = run(p.trace, p.gpu, {{policy}, {}, 1, &memory});
    EXPECT_EQ(own.stp, shared.stp);
    EXPECT_EQ(own.antt, shared.antt);
  }
}

}  // namespace
}  // namespace corun::sim
