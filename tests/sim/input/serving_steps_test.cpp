// Are the steps of a server found by their programs' names, and what cannot be read refused with what to write?
#include "sim/input/serving_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/input/load.h"
#include "traces/model/error.h"

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
