// Are the steps of a server found by their programs' names, and what cannot be read refused with what to write?
#include "sim/input/serving_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "policies/session/step_times.h"
#include "sim/input/load.h"
#include "traces/model/error.h"
#include "traces/model/serving.h"

namespace corun::sim {
namespace {

std::string read_as(const std::string& name) {
  const auto step = step_of_name(name);
  if (!step) return "";
  return step->tokens != 0 ? "prefill " + std::to_string(step->tokens) : "decode " + std::to_string(step->batch) + "x" + std::to_string(step->context);
}

TEST(StepNames, AreReadInTheUsualSpellings) {
  for (const char* name : {"prefill_512", "prefill512", "Prefill-512", "llama3_8b.prefill_512", "prefill_1x512", "prefill_b1_s512", "prefill 512tok",
                           "prefill(len=512)", "prefill bs=1 seq=512", "prefill_tokens_512"})
    EXPECT_EQ(read_as(name), "prefill 512") << name;
  for (const char* name : {"decode_8x1536", "decode8x1536", "DECODE_8_1536", "decode_b8_c1536", "decode_bs8_ctx1536", "decode b8c1536",
                           "decode batch=8 context=1536", "decode_batch_size_8_seq_len_1536", "decode_ctx1536_b8", "decode 8seqs 1536ctx",
                           "decode_8x1536ctx", "decode_8seqs_1536", "decode_1536_b8"})
    EXPECT_EQ(read_as(name), "decode 8x1536") << name;
}

TEST(StepNames, ThatDoNotSayAllAreNotGuessed) {
  for (const char* name : {"warmup", "512", "prefill", "prefill_0", "prefill_2x512", "prefill_2k", "prefill_512_decode_8x1536", "prefill_1_2_3",
                           "prefill_512_v2", "prefill_layer3", "decode", "decode_8", "decode_b8", "decode_ctx1536", "decode_0x1536", "decode_8x0",
                           "decode_b8_b9", "decode_8x2k", "decode_8x1536_warm", "decode_70000x5", "decode_8x99999999999"})
    EXPECT_EQ(read_as(name), "") << name;
}

TEST(ServingSteps, OfCapturedProgramsAreAllFound) {
  const std::string file = "experiments/h200/llm_server/steps.json.gz";
  const Trace trace = read_input(file, "", "", "");
  const std::vector<ServingStep> steps = serving_steps("auto", trace, file, "--client llm");
  ASSERT_EQ(steps.size(), 82u);
  std::string written;
  for (const ServingStep& s : steps) {
    const std::string& name = trace.programs[s.program.value].name;
    written += (written.empty() ? "" : "+") + name + ":" + name.substr(name.find('_') + 1);
  }
  EXPECT_EQ(serving_steps(written, trace, file, "--client llm"), steps) << "as a user writes them";
}

/// Captured decodes that lie outside of a part of them are taken from the law of that part.
class LawOfDecodes : public testing::Test {
 protected:
  /// Mean and largest relative error of those that `kept` leaves out.
  static std::pair<double, double> errors(const std::string& file, bool (*kept)(const ServingStep&)) {
    Trace trace = read_input(file, "", "", "");
    const std::vector<ServingStep> all = serving_steps("auto", trace, file, "");
    Client client;
    client.serving.emplace();
    client.serving->sequences = {{Time{}, 1, 1}};
    std::vector<ServingStep> left_out;
    for (const ServingStep& s : all) (s.tokens != 0 || kept(s) ? client.serving->steps : left_out).push_back(s);
    trace.clients = {client};
    make_servers(trace);
    const Program& merged = trace.programs[trace.clients[0].program.value];
    const StepTimes times(*trace.clients[0].serving, merged, trace.kernels);
    double sum = 0, worst = 0;
    for (const ServingStep& s : left_out) {
      const StepTimes::Choice choice = times.decode(s.batch, s.context);
      EXPECT_TRUE(choice.uncaptured);
      const auto first = merged.parts[choice.program].value, end = merged.parts[choice.program + 1].value;
      Time taken{}, measured{};
      for (std::uint32_t op = first; op < end; ++op)
        if (const auto* launch = std::get_if<Launch>(&merged.ops[op].what))
          taken += times.solo_time(choice, OpId{op}, launch->solo_time.value_or(trace.kernels[launch->kernel.value].solo_time.value_or(Time{})));
      for (const Op& op : trace.programs[s.program.value].ops)
        if (const auto* launch = std::get_if<Launch>(&op.what))
          measured += launch->solo_time.value_or(trace.kernels[launch->kernel.value].solo_time.value_or(Time{}));
      const double error = std::abs(to_ms(taken) / to_ms(measured) - 1);
      sum += error / static_cast<double>(left_out.size()), worst = std::max(worst, error);
    }
    return {sum, worst};
  }
};

TEST_F(LawOfDecodes, ContextsThatWereLeftOutAreWithinAPercentAndAHalfInTheMean) {
  for (const char* file : {"experiments/h200/llm_server/steps.json.gz", "experiments/h200/llm_server/second/steps.json.gz"}) {
    const auto [mean, worst] = errors(file, [](const ServingStep& s) { return s.context <= 1024; });
    EXPECT_LE(mean, 0.015) << file;  // flat: 0.08
    EXPECT_LE(worst, 0.04) << file;  // flat: 0.2
  }
}

TEST_F(LawOfDecodes, BatchesThatWereLeftOutAreWithinThreePercentInTheMean) {
  for (const char* file : {"experiments/h200/llm_server/steps.json.gz", "experiments/h200/llm_server/second/steps.json.gz"}) {
    const auto [mean, worst] = errors(file, [](const ServingStep& s) { return s.batch <= 8; });
    EXPECT_LE(mean, 0.03) << file;   // flat: 0.06
    EXPECT_LE(worst, 0.05) << file;  // flat: 0.19
  }
}

TEST(ServingSteps, APartOfTheGpuIsNoStepAndANameThatCannotBeReadSaysWhatToWrite) {
  Trace trace;
  for (const char* name : {"prefill_512", "decode_8x1536", "decode on 32 SMs", "warmup"}) {
    trace.programs.emplace_back();
    trace.programs.back().name = name;
  }
  trace.programs[1].on_sms.emplace(32, ProgramId{2});
  try {
    serving_steps("auto", trace, "f.json", "--client llm");
    ADD_FAILURE() << "warmup is no step";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("'warmup' of f.json"), testing::HasSubstr("prefill_TOKENS and decode_BATCHxCONTEXT")));
  }
  trace.programs.pop_back();
  EXPECT_THAT(serving_steps("auto", trace, "f.json", "--client llm"), testing::SizeIs(2));
}

}  // namespace
}  // namespace corun::sim
