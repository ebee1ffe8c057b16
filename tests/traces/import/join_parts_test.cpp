// Which launches of a second recording, on a part of the GPU, are the same, and what becomes of the others?
#include "traces/import/join_parts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/traces/import/kineto_text.h"
#include "traces/import/same_launches.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using namespace kineto_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
using Sequence = std::vector<std::uint32_t>;

// --- The same launches

TEST(SameLaunches, AreThoseInTheOrderOfTheRequest) {
  EXPECT_EQ(same_launches(Sequence{1, 2, 3}, Sequence{1, 2, 3}), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(same_launches(Sequence{1, 7, 3, 1}, Sequence{1, 8, 8, 3, 1}), (Pairs{{0, 0}, {2, 3}, {3, 4}}));
  EXPECT_EQ(same_launches(Sequence{5, 1, 5, 2, 5, 3}, Sequence{1, 5, 2, 3}), (Pairs{{1, 0}, {2, 1}, {3, 2}, {5, 3}}))
      << "5 occurs less often there: only in its order";
  EXPECT_THAT(same_launches(Sequence{1, 2}, Sequence{3}), IsEmpty());
  EXPECT_THAT(same_launches(Sequence{}, Sequence{3}), IsEmpty());
}

TEST(SameLaunches, ThatChangePlacesAreTheSameIfTheyAreAsMany) {
  EXPECT_EQ(same_launches(Sequence{1, 2, 3}, Sequence{3, 1, 2}), (Pairs{{0, 1}, {1, 2}, {2, 0}}));
  EXPECT_EQ(same_launches(Sequence{1, 2, 3}, Sequence{3, 3, 1, 2}), (Pairs{{0, 2}, {1, 3}})) << "not by force";
}

std::size_t longest_in_common(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      table[i + 1][j + 1] = a[i] == b[j] ? table[i][j] + 1 : std::max(table[i][j + 1], table[i + 1][j]);
  return table[a.size()][b.size()];
}

TEST(SameLaunches, OfRandomRequestsAreNeverOthersAndAsManyAsThereCanBeInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto sequence = [&] {
      Sequence s(random() % 13);
      for (std::uint32_t& launch : s) launch = random() % 4;
      return s;
    };
    const Sequence a = sequence(), b = sequence();
    const Pairs pairs = same_launches(a, b);
    std::vector<bool> used_a(a.size()), used_b(b.size());
    std::size_t in_order = 0;
    for (const auto& [i, j] : pairs) {
      ASSERT_EQ(a[i], b[j]);
      ASSERT_FALSE(used_a[i] || used_b[j]) << "twice";
      used_a[i] = used_b[j] = true;
    }
    for (std::uint32_t launch = 0; launch < 4; ++launch) {
      const auto of_a = std::ranges::count(a, launch), of_b = std::ranges::count(b, launch);
      const auto same = std::ranges::count_if(pairs, [&](const auto& pair) { return a[pair.first] == launch; });
      if (of_a == of_b) {
        EXPECT_EQ(same, of_a);
      }
      in_order += static_cast<std::size_t>(same);
    }
    EXPECT_GE(in_order, longest_in_common(a, b));
  }
}

// --- Two recordings

const std::string kDevice = "\"numSms\": 132";

std::string on_66(std::string text) { return replaced(std::move(text), kDevice, "\"numSms\": 66"); }

std::string joined(Trace& whole, const std::string& part, const std::string& written = "") {
  const TestFile file(part);
  return join_recording(whole, part_recording(written + static_cast<const std::filesystem::path&>(file).string(), "--by-sms"), "--by-sms",
                        [&](const std::string& gpu, std::uint32_t sms) { return import_kineto(file, gpu, {}, {}, sms); });
}

InputError not_joined(const std::string& part, const std::string& written = "", const std::string& gpu = "h200") {
  Trace whole = import_kineto(kSmall, gpu);
  if (gpu.empty()) whole.gpu.clear();
  try {
    joined(whole, part, written);
  } catch (const InputError& error) {
    return error;
  }
  ADD_FAILURE() << "joined what should be refused";
  return {"", "", "", ""};
}

TEST(JoinParts, TheSameLaunchesHaveTheirTimesThereAndThereIsOneRequest) {
  Trace whole = import_kineto(kSmall);
  const std::size_t kernels = whole.kernels.size();
  EXPECT_EQ(joined(whole, on_66(text_of(kSmall))), "On 66 of 132 SMs 4 of 4 launches are the same, and tell their kernels' times there.");
  ASSERT_EQ(whole.programs.size(), 1u);
  EXPECT_THAT(whole.programs.front().on_sms, IsEmpty());
  EXPECT_EQ(whole.kernels.size(), kernels);
  for (const Kernel& k : whole.kernels) {
    ASSERT_EQ(k.solo_time_by_sms.size(), 2u) << k.name;
    EXPECT_EQ(k.solo_time_by_sms.at(132), *k.solo_time);
    EXPECT_LE(k.solo_time_by_sms.at(66), *k.solo_time) << "less what MPS adds";
    EXPECT_GE(k.solo_time_by_sms.at(66), *k.solo_time / 2);
  }
}

TEST(JoinParts, OtherLaunchesAreToldAndBothRequestsAreKept) {
  Trace whole = import_kineto(kSmall);
  const std::size_t kernels = whole.kernels.size();
  const std::string other = replaced(on_66(text_of(kSmall)), "sgemm_128x64_tn", "sgemm_64x32_tn");
  EXPECT_THAT(joined(whole, other), HasSubstr("1 of 4 launches are the same, and tell their kernels' times there. 3 there are others, in the place of "
                                              "sgemm_128x64_tn (3): both requests are kept, and these take 0."));
  ASSERT_EQ(whole.programs.size(), 2u);
  EXPECT_EQ(whole.programs.front().on_sms, (std::map<std::uint32_t, ProgramId>{{66, ProgramId{1}}}));
  ASSERT_EQ(whole.kernels.size(), kernels + 1);
  EXPECT_EQ(whole.kernels.back().name, "sgemm_64x32_tn");
  EXPECT_EQ(whole.kernels.back().solo_time_sms, 66u);
  ASSERT_EQ(whole.programs[0].ops.size(), whole.programs[1].ops.size());
  for (std::size_t i = 0; i < whole.programs[0].ops.size(); ++i) {
    const auto *here = std::get_if<Launch>(&whole.programs[0].ops[i].what), *there = std::get_if<Launch>(&whole.programs[1].ops[i].what);
    ASSERT_EQ(here == nullptr, there == nullptr);
    if (here == nullptr) continue;
    const bool same = whole.kernels[here->kernel.value].name != "sgemm_128x64_tn";
    EXPECT_EQ(here->kernel == there->kernel, same) << i;
  }
  // The others take as many times as long as all of them together.
  const auto others = [&](std::size_t program, std::uint32_t sms) {
    double sum = 0;
    for (const Op& op : whole.programs[program].ops)
      if (const auto* launch = std::get_if<Launch>(&op.what); launch != nullptr && kernel_name(whole, op).starts_with("sgemm"))
        sum += to_ns(launch->solo_time.value_or(*whole.kernels[launch->kernel.value].solo_time)) *
               to_ns(whole.kernels[launch->kernel.value].solo_time_by_sms.at(sms)) / to_ns(*whole.kernels[launch->kernel.value].solo_time);
    return sum;
  };
  EXPECT_NEAR(others(0, 66), others(1, 66), 5);
  EXPECT_NEAR(others(0, 132), others(1, 132), 5);
  EXPECT_LT(others(1, 66), others(1, 132)) << "less what MPS adds";
}

TEST(JoinParts, AnotherGridIsAnotherLaunch) {
  Trace whole = import_kineto(kSmall);
  const Kernel first = whole.kernels.front();
  const std::string name = first.name;
  const std::string grid = fmt::format("\"grid\": [{}, {}, {}]", first.grid.x, first.grid.y, first.grid.z);  // of three launches
  const std::string other = replaced(on_66(text_of(kSmall)), grid, fmt::format("\"grid\": [{}, {}, {}]", first.grid.x * 2, first.grid.y, first.grid.z));
  EXPECT_THAT(joined(whole, other), HasSubstr("both requests are kept"));
  EXPECT_TRUE(std::ranges::any_of(whole.kernels, [&](const Kernel& k) { return k.name == name + " #2" && k.solo_time_sms == 66; }));
}

TEST(JoinParts, SeveralPartsAreKeptBesideEachOther) {
  Trace whole = import_kineto(kSmall);
  const std::string other = replaced(text_of(kSmall), "sgemm_128x64_tn", "sgemm_64x32_tn");
  joined(whole, on_66(other));
  joined(whole, replaced(other, kDevice, "\"numSms\": 32"));
  ASSERT_EQ(whole.programs.size(), 3u);
  EXPECT_EQ(whole.programs.front().on_sms, (std::map<std::uint32_t, ProgramId>{{32, ProgramId{2}}, {66, ProgramId{1}}}));
  EXPECT_THAT(whole.programs[1].on_sms, IsEmpty());
}

TEST(JoinParts, ARecordingThatDoesNotSayItsSmsIsToldThem) {
  Trace whole = import_kineto(kSmall);
  EXPECT_THAT(joined(whole, text_of(kSmall), "33="), HasSubstr("On 33 of 132 SMs 4 of 4"));
  const InputError error = not_joined(text_of(kSmall));
  EXPECT_THAT(error.file(), HasSubstr("trace.json"));
  EXPECT_EQ(error.place(), "--by-sms");
  EXPECT_THAT(error.problem(), HasSubstr("does not say on how many SMs it was recorded"));
  EXPECT_THAT(error.remedy(), HasSubstr("33="));
}

TEST(JoinParts, OfAnotherProgramItIsRefused) {
  std::string other = on_66(text_of(kSmall));
  for (const Kernel& k : import_kineto(kSmall).kernels)
    if (other.find(k.name) != std::string::npos) other = replaced(other, k.name, "other");
  const InputError error = not_joined(other);
  EXPECT_THAT(error.problem(), HasSubstr("expected the same program as on the whole GPU, and no function is launched in both: first here 'other' <<<"));
  EXPECT_THAT(error.problem(), HasSubstr("first there 'sgemm_128x64_tn' <<<"));
  EXPECT_THAT(error.remedy(), HasSubstr("record the same program"));
}

TEST(JoinParts, WholeAndPartMustBeThat) {
  const std::string part = on_66(text_of(kSmall));
  EXPECT_THAT(not_joined(part, "", "").problem(), HasSubstr("the GPU is not known"));
  EXPECT_THAT(not_joined(part, "132=").problem(), HasSubstr("132 SMs are no part of the 132"));
  EXPECT_NO_THROW([&] {
    Trace whole = import_kineto(kSmall);
    joined(whole, part, "131=");
  }());
  Trace confined = import_text(part, "h200");
  try {
    joined(confined, part);
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("a recording that has 66 SMs, a part of the GPU, itself"));
  }
}

TEST(JoinParts, HowAPartIsWritten) {
  EXPECT_EQ(part_recording("quarter.json", "").file, "quarter.json");
  EXPECT_EQ(part_recording("33=quarter.json", "").sms, 33u);
  EXPECT_EQ(part_recording("33=quarter.json", "").file, "quarter.json");
  EXPECT_EQ(part_recording("a=b.json", "").file, "a=b.json");
  for (const char* bad : {"0=q.json", "65536=q.json", "99999999999=q.json", "33="}) EXPECT_THROW(part_recording(bad, ""), InputError) << bad;
}

}  // namespace
}  // namespace corun
