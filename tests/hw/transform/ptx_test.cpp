#include "hw/transform/ptx.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "hw/kernels/library.h"
#include "tests/support/nvrtc.h"

namespace corun::hw {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string ptx_file(const std::string& name) {
  std::ifstream in("tests/data/ptx/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
const ParsedPtx& accepted() {
  static const ParsedPtx parsed = parse_ptx(ptx_file("accepted.ptx"));
  return parsed;
}
PersistentPtx accept(std::string_view entry) {
  PersistentPtx made = make_persistent(accepted().module, entry);
  EXPECT_EQ(made.refused, "") << entry;
  return made;
}
/// Of what was made, the lines of the kernel's own body.
std::string body(const PersistentPtx& made) {
  const std::size_t from = made.text.find("$corun_block:\n"), to = made.text.find("$corun_through:\n");
  return made.text.substr(from, to - from);
}

TEST(PtxText, AModuleIsItsDeclarationsAndItsFunctionsInTheirOrder) {
  ASSERT_EQ(accepted().problem, "");
  const PtxModule& m = accepted().module;
  EXPECT_EQ(m.version, 80u);
  EXPECT_EQ(m.target, 90u);
  EXPECT_TRUE(m.is_64_bit);
  std::vector<std::string> functions, variables;
  for (const PtxFunction& f : m.functions) functions.emplace_back(f.name);
  for (const PtxDeclaration& d : m.declarations)
    if (!d.name.empty()) variables.emplace_back(d.name);
  EXPECT_THAT(functions,
              ElementsAre("vprintf", "alone", "together", "some", "warps", "here", "calls", "copies"));
  EXPECT_THAT(variables, ElementsAre("dynamic", "tile", "$str", "counter"));
}

TEST(PtxText, ParametersLieAsTheDriverLaysThem) {
  const ParsedPtx p = parse_ptx(
      ".version 8.0 .target sm_90 .address_size 64\n"
      ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 1 b, .param .align 4 .b8 c[12], "
      ".param .f16 d,\n"
      ".param .align 16 .b8 e[16]) { ret; }");
  ASSERT_EQ(p.problem, "");
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places;
  for (const PtxParameter& each : p.module.entry("k")->parameters)
    places.emplace_back(each.offset, each.bytes);
  using At = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_THAT(places, ElementsAre(At{0, 1}, At{8, 8}, At{16, 12}, At{28, 2}, At{32, 16}));
  EXPECT_EQ(make_persistent(p.module, "k").launch_offset, 48u);
}

TEST(PtxText, EndsAtAZeroAsNvrtcsDoes) {
  const std::string text = ptx_file("accepted.ptx");
  EXPECT_EQ(parse_ptx(text + '\0').problem, "");
  EXPECT_EQ(parse_ptx(text + std::string("\0\0.oops", 7)).problem, "");
}

TEST(PtxText, WhatIsCutOffOrNoPtxIsSaidToBe) {
  const std::string text = ptx_file("accepted.ptx");
  const std::size_t store = text.find("st.global.u32 [%rd3], %r8;");
  EXPECT_EQ(parse_ptx(text.substr(0, store)).problem, "a bracket does not close");
  EXPECT_EQ(parse_ptx(text.substr(0, store + 9) + "}").problem, "a statement of together does not end");
  EXPECT_EQ(parse_ptx(text.substr(0, text.find(" counter;"))).problem, "a declaration does not end");
  EXPECT_EQ(parse_ptx("").problem, "it is no PTX");
  EXPECT_EQ(parse_ptx("int main() { return 0; }").problem, "a declaration does not end");
  for (std::size_t at = 0; at < text.size(); at += 7) {  // of no part it reads beyond the end
    const ParsedPtx part = parse_ptx(text.substr(0, at));
    for (const PtxFunction& f : part.module.functions)
      if (f.entry && part.problem.empty()) make_persistent(part.module, f.name);
  }
}

TEST(Ptx, TheBlocksIndexAndTheGridsSizeAreTheWorkers) {
  const std::string text = body(accept("together"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r2, %corun_y;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r3, %corun_gx;"));
  EXPECT_THAT(text, HasSubstr("mov.u32 %r4, %corun_x;"));
  EXPECT_THAT(text, Not(HasSubstr("ctaid")));
}

TEST(Ptx, AThreadThatReturnsGoesOnToTheNextBlock) {
  for (const char* entry : {"alone", "together", "some", "warps", "calls", "copies"}) {
    const std::string text = body(accept(entry));
    EXPECT_THAT(text, HasSubstr("bra $corun_through;"));
    EXPECT_THAT(text, Not(HasSubstr("ret;")));
    EXPECT_THAT(text, Not(HasSubstr("exit;")));
  }
  EXPECT_THAT(body(accept("some")), HasSubstr("@%p1 bra $corun_through;"));
}

TEST(Ptx, ItsParametersAreTheKernelsAndTheLaunchsBehindThem) {
  const PersistentPtx made = accept("together");
  EXPECT_EQ(made.entry, "together__persistent");
  EXPECT_EQ(made.launch_offset, 16u);
  const ParsedPtx again = parse_ptx(made.text);
  ASSERT_EQ(again.problem, "");
  const PtxFunction* entry = again.module.entry(made.entry);
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->parameters.size(), 3u);
  EXPECT_EQ(entry->parameters[2].offset, made.launch_offset);
  EXPECT_EQ(entry->parameters[2].bytes, sizeof(PtxLaunch));
  EXPECT_THAT(std::string(entry->attributes), HasSubstr(".maxntid 256, 1, 1"));
  EXPECT_EQ(again.module.entry("together"), nullptr);  // nothing but what this one needs
  EXPECT_EQ(again.module.entry("alone"), nullptr);
  EXPECT_THAT(made.text, HasSubstr("tile[1024]"));
  EXPECT_THAT(made.text, Not(HasSubstr("counter")));
}

TEST(Ptx, BlocksFollowEachOtherWithoutABarrierWhereThreadsShareNothing) {
  const PersistentPtx alone = accept("alone"), together = accept("together");
  EXPECT_FALSE(alone.shared);
  EXPECT_TRUE(together.shared);
  // From the end of one block to the next of the chunk.
  EXPECT_THAT(alone.text, HasSubstr("bra $corun_block;"));
  EXPECT_THAT(together.text, Not(HasSubstr("bra $corun_block;")));
}

TEST(Ptx, WhoHasReturnedServesTheBarriersOfThoseWhoHaveNot) {
  EXPECT_FALSE(accept("together").serve);
  const PersistentPtx made = accept("some");
  EXPECT_TRUE(made.serve);
  EXPECT_THAT(body(made), HasSubstr("call (corun_all), corun_arrive, (corun_returned);"));
  EXPECT_THAT(body(made), Not(HasSubstr("bar.sync 0")));
}

TEST(Ptx, WarpsMayReturnBeforeWhatTheirLanesDoTogether) {
  EXPECT_TRUE(accept("warps").by_warps_along_x);
  EXPECT_FALSE(accept("alone").by_warps_along_x);
}

TEST(Ptx, AFunctionThatReadsTheBlocksIndexFindsTheWorkers) {
  const PersistentPtx made = accept("calls");
  const std::size_t from = made.text.find(" here(");
  ASSERT_NE(from, made.text.npos);
  const std::string function = made.text.substr(from, made.text.find("\n}", from) - from);
  EXPECT_THAT(function, HasSubstr("[corun_here]"));
  EXPECT_THAT(function, HasSubstr("mov.u32 %r2, %corun_x;"));
  EXPECT_THAT(function, Not(HasSubstr("ctaid")));
}

TEST(Ptx, WhatABlockHasNotWaitedForEndsBeforeTheNext) {
  const PersistentPtx made = accept("copies");
  const std::size_t through = made.text.find("$corun_through:"), wait = made.text.find("cp.async.wait_all;");
  ASSERT_NE(wait, made.text.npos);
  EXPECT_LT(through, wait);
  EXPECT_LT(wait, made.text.find("bar.warp.sync", through));
  EXPECT_THAT(made.text,
              HasSubstr(".align 1024 .b8 corun_slots[1024]"));  // so that dynamic memory lies as without it
  EXPECT_THAT(accept("together").text, HasSubstr("corun_slots[48]"));
}

TEST(Ptx, WhatNoLoopCanBePutAroundIsRefusedWithTheReason) {
  const ParsedPtx p = parse_ptx(ptx_file("refused.ptx"));
  ASSERT_EQ(p.problem, "");
  std::map<std::string, std::string> why{
      {"variable", "it uses the module's variable counter"},
      {"called", "it calls elsewhere, which is not in the module"},
      {"cluster", "it runs in clusters"},
      {"cluster_barrier", "it uses clusters (barrier.cluster.arrive.aligned)"},
      {"grid", "it asks about its grid (%gridid)"},
      {"vector", "it reads the block's index as a vector"},
      {"waits", "it has a loop that waits for what others write"},
      {"lanes", "threads return before operations of their warp"},
      {"counted", "threads return before barriers that are not all plain"},
      {"unknown", "it has a barrier whose number is not written there"},
      {"valid", "it leaves mbarriers valid"},
      {"full", "its parameters leave no room"},
      {"depends", "it uses griddepcontrol"},
  };
  for (const PtxFunction& f : p.module.functions) {
    if (!f.entry) continue;
    const PersistentPtx made = make_persistent(p.module, f.name);
    EXPECT_EQ(made.refused, why.at(std::string(f.name)));
    EXPECT_EQ(made.text, "");
    why.erase(std::string(f.name));
  }
  EXPECT_EQ(why.size(), 0u);
  EXPECT_EQ(make_persistent(p.module, "missing").refused, "the module has no such kernel");
  const ParsedPtx old = parse_ptx(".version 6.0 .target sm_60 .address_size 64 .visible .entry k() { ret; }");
  EXPECT_EQ(make_persistent(old.module, "k").refused, "it is for GPUs before Volta, or of 32 bits");
}

TEST(Ptx, OrdersNameTheLaunchThatTheyAreFor) {
  EXPECT_EQ(ptx_stop(7), 0x8000000000000007u);
  EXPECT_EQ(ptx_leave(7, 12), 0x0000000c00000007u);
}

/// The assembler doubles a place that is come to in two ways, and lanes of a warp that are at different copies of a
/// barrier wait for each other forever: from where the loop begins to where they meet there is one way in.
TEST(Ptx, TheLanesOfAWarpMeetAtOnePlace) {
  for (const char* entry : {"alone", "together", "some", "warps", "calls", "copies"}) {
    const PersistentPtx made = accept(entry);
    const std::size_t turn = made.text.find("$corun_turn:\n"), meet = made.text.find("$corun_published:\n"),
                      block = made.text.find("$corun_block:\n");
    ASSERT_LT(turn, meet);
    ASSERT_LT(meet, block);
    EXPECT_TRUE(made.text.substr(0, turn).ends_with("\tbar.warp.sync 0xffffffff;\n")) << entry;
    EXPECT_THAT(made.text.substr(meet, block - meet), HasSubstr("\tbar.warp.sync 0xffffffff;\n")) << entry;
    std::set<std::string> within;  // labels between the two
    for (std::size_t at = turn; (at = made.text.find("\n$", at)) < block; ++at)
      if (const std::size_t end = made.text.find(":\n", at); end < block)
        within.insert(made.text.substr(at + 1, end - at - 1));
    EXPECT_TRUE(within.contains("$corun_published"));
    for (const std::string& outside : {made.text.substr(0, turn), made.text.substr(block)})
      for (const std::string& label : within)
        EXPECT_THAT(outside, Not(HasSubstr(" " + label + ";"))) << entry;
  }
}

/// A slot's other one is where one bit of the address differs, so that both must lie in one piece of 32 bytes.  Otherwise a
/// worker's second block is read from what the kernel keeps there.
TEST(Ptx, TheSlotsLieWhereTheirAddressesDifferInOneBit) {
  for (const char* entry : {"alone", "together", "some", "warps", "calls", "copies"}) {
    const PersistentPtx made = accept(entry);
    ASSERT_THAT(made.text, HasSubstr("xor.b32 %corun_slot, %corun_slot, 16;"));
    const ParsedPtx parsed = parse_ptx(made.text);
    const auto slots =
        std::ranges::find(parsed.module.declarations, std::string_view("corun_slots"), &PtxDeclaration::name);
    ASSERT_NE(slots, parsed.module.declarations.end());
    const std::string text(slots->text);
    EXPECT_EQ(std::stoi(text.substr(text.find(".align ") + 7)) % 32, 0) << entry << ": " << text;
  }
}

/// NVIDIA's assembler; empty: it is not here.
std::string assembler() {
  for (const char* name : {"ptxas", "/usr/local/cuda/bin/ptxas"})
    if (std::system((std::string(name) + " --version >/dev/null 2>&1").c_str()) == 0) return name;
  return {};
}

TEST(Ptx, TheAssemblerTakesAllThatWasMade) {
  const std::string ptxas = assembler();
  if (ptxas.empty()) GTEST_SKIP() << "no ptxas";
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("corun_ptx_test." + std::to_string(getpid()));
  const auto assemble = [&](const std::string& text) {
    std::ofstream(file) << text;
    return std::system(
               (ptxas + " -arch=sm_90 -o /dev/null " + file.string() + " >" + file.string() + ".log 2>&1")
                   .c_str()) == 0;
  };
  for (const char* entry : {"alone", "together", "some", "warps", "calls", "copies"})
    EXPECT_TRUE(assemble(accept(entry).text)) << entry;
  EXPECT_FALSE(assemble("no PTX"));
  std::filesystem::remove(file);
  std::filesystem::remove(file.string() + ".log");
}

TEST(Ptx, TheLibrarysKernelsFromTheRunTimeCompilerAreAccepted) {
  NvrtcIfThere there = nvrtc_if_there();
  if (!there.compiler) GTEST_SKIP() << there.why_not;
  const std::unique_ptr<Compiler> compiler = open_nvrtc("compute_90", "");
  std::map<std::string, std::string> texts;
  for (const LibraryKernel& k : kernel_library()) {
    std::string& text = texts[k.file()];
    if (text.empty()) text = compiler->compile(std::string(k.code()), k.file(), {});
    const ParsedPtx parsed = parse_ptx(text);
    ASSERT_EQ(parsed.problem, "") << k.name;
    EXPECT_EQ(make_persistent(parsed.module, k.entry).refused, "") << k.name;
  }
}

}  // namespace
}  // namespace corun::hw
