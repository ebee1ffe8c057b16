#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "hw/kernels/library.h"
#include "hw/transform/embedded_device_code.h"
#include "hw/transform/tokens.h"
#include "hw/transform/transform.h"
#include "tests/support/nvrtc.h"
#include "tests/support/whole.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string persistent(const std::string& source, const std::string& kernel = "k") {
  const std::string all = make_persistent(source, "k.cu", kernel).text;
  return all.substr(all.find("#line 1 "));
}
std::string refusal(const std::string& source) {
  try {
    persistent(source);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Tokens, CommentsLiteralsAndBlanksAreNotIdentifiers) {
  std::vector<std::string> words;
  for (const Token& t : tokens_of("a/*b*/ \"c \\\" d\" 'e' // f\n R\"x(g)\" )x\" u8\"h\" 1e+5f i"))
    if (t.kind == Token::Kind::identifier) words.emplace_back(t.text);
  EXPECT_THAT(words, testing::ElementsAre("a", "i"));
}

TEST(Tokens, ADirectiveGoesOnAfterABackslash) {
  std::vector<bool> directive;
  for (const Token& t : tokens_of("#define x \\\n y\nz")) directive.push_back(t.directive);
  EXPECT_THAT(directive, testing::ElementsAre(true, true, true, true, false));
}

TEST(Transform, TheBodyBecomesADeviceFunctionThatIsGivenItsBlock) {
  EXPECT_EQ(
      persistent("extern \"C\" __global__ void __launch_bounds__(64) k(float* __restrict__ a, int n) {\n"
                 "  a[blockIdx.x * gridDim.y + threadIdx.x] = n;  // blockIdx\n}\n"),
      "#line 1 \"k.cu\"\n"
      "static __device__ __forceinline__ void k__body(float* __restrict__ a, int n, const uint3 corun_block, "
      "const uint3 corun_grid, const uint3 corun_thread) {\n"
      "  a[corun_block.x * corun_grid.y + corun_thread.x] = n;  // blockIdx\n}\n"
      "extern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
      "k__persistent(float* __restrict__ a, int n, const CorunLaunch corun_launch) {\n"
      "  const uint3 corun_size = make_uint3(corun_launch.grid_x, corun_launch.grid_y, "
      "corun_launch.grid_z);\n"
      "  CORUN_WORK(k__body(a, n, corun_at, corun_grid_size(corun_size.x, corun_size.y, corun_size.z), "
      "corun_thread_index()))\n}\n"
      "#if CORUN_LOGGED\n"
      "extern \"C\" __global__ void __launch_bounds__(CORUN_THREADS, CORUN_RESIDENT)\n"
      "k__located(float* __restrict__ a, int n, const CorunLaunch corun_launch) {\n"
      "  const uint3 corun_size = make_uint3(gridDim.x, gridDim.y, gridDim.z);\n"
      "  const uint3 corun_at = make_uint3(blockIdx.x, blockIdx.y, blockIdx.z);\n"
      "  CORUN_TELL_HELPERS;\n  CORUN_LOG_START;\n  k__body(a, n, corun_at, "
      "corun_grid_size(corun_size.x, corun_size.y, corun_size.z), corun_thread_index());\n  CORUN_LOG_END;\n"
      "  corun_all_returned();\n}\n#endif\n"
      "#line 3 \"k.cu\"\n\n");
}

TEST(Transform, ParametersAreToldFromTheirTypes) {
  EXPECT_THAT(
      persistent("__global__ void k(const unsigned long long a[], Pair<int, 3> b, float (&c)[2], int) {}"),
      HasSubstr("k__body(a, b"));
  EXPECT_THAT(persistent("__global__ void k(void) {}"),
              HasSubstr("CORUN_WORK(k__body(corun_at, corun_grid_size(corun_size.x, corun_size.y, "
                        "corun_size.z), corun_thread_index()))"));
  EXPECT_THAT(persistent("__global__ void k() {}"),
              HasSubstr("k__persistent(const CorunLaunch corun_launch)"));
}

TEST(Transform, OtherKernelsOfTheFileStayAsTheyAre) {
  const std::string text = persistent(
      "__global__ void other(int* a) { a[blockIdx.x] = 1; }\n__global__ void k(int* a) { a[blockIdx.x] = 2; "
      "}\n"
      "__global__ void third(int* a) { a[blockIdx.x] = 3; }\n");
  EXPECT_THAT(text, HasSubstr("__global__ void other(int* a) { a[blockIdx.x] = 1; }"));
  EXPECT_THAT(text, HasSubstr("{ a[corun_block.x] = 2; }"));
  EXPECT_THAT(text, HasSubstr("__global__ void third(int* a) { a[blockIdx.x] = 3; }"));
}

TEST(Transform, DeviceFunctionsAndMacrosReadTheSameIndex) {
  const Transformed t = make_persistent(
      "#define ME blockIdx.x\n__device__ int f() { return gridDim.z; }\n__global__ void k(int* a) { a[ME] = "
      "f(); }",
      "k.cu", "k");
  EXPECT_TRUE(t.traits.helpers_read_index);
  EXPECT_TRUE(t.traits.shared_memory);
  EXPECT_THAT(t.text, HasSubstr("#define ME corun_block.x"));
  EXPECT_THAT(t.text, HasSubstr("int f() { return corun_grid.z; }"));
}

TEST(Transform, OnlyReturnsBesideBarriersChangeTheBarriers) {
  const std::string both =
      "__global__ void k(int* a) { if (threadIdx.x > 3) return; __syncthreads(); a[0] = 1; }";
  EXPECT_THAT(persistent(both), HasSubstr("return; corun_barrier();"));
  const std::string barrier = "__global__ void k(int* a) { __syncthreads(); a[0] = 1; }";
  EXPECT_THAT(persistent(barrier), HasSubstr("{ __syncthreads(); a[0] = 1; }"));
}

TEST(Transform, WhatCannotBePersistentIsRefusedWithTheReason) {
  EXPECT_THAT(refusal("template <int N> __global__ void k(int* a) {}"), HasSubstr("it is a template"));
  EXPECT_THAT(refusal("__global__ void __cluster_dims__(2) k(int* a) {}"), HasSubstr("it has clusters"));
  EXPECT_THAT(refusal("__global__ void k(int* a) { cg::this_grid().sync(); }"), HasSubstr("this_grid"));
  EXPECT_THAT(refusal("__global__ void k(int* a) { asm(\"mov.u32 %0, %ctaid.x;\" : \"=r\"(a[0])); }"),
              HasSubstr("in assembly"));
  EXPECT_THAT(refusal("__global__ void k(int* a) { if (a) return; __syncwarp(); }"), HasSubstr("__syncwarp"));
  EXPECT_THAT(refusal("__global__ void k(int* a) { if (a) return; a[0] = __syncthreads_or(1); }"),
              HasSubstr("__syncthreads_or"));
  EXPECT_THAT(refusal("__global__ void j(int* a) {}"), HasSubstr("it defines j"));
  EXPECT_THAT(refusal("\n\n__global__ void __cluster_dims__(2)\nk(int* a) {}"), HasSubstr("line 4"));
  EXPECT_EQ(refusal("__global__ void k(int* a) { if (a) { __syncwarp(); } }"), "");
}

TEST(Transform, EveryLibraryKernelCompilesInEveryVariant) {
  const auto [compiler, why_not] = nvrtc_if_there();
  if (!compiler) GTEST_SKIP() << why_not;
  std::set<std::string> seen;
  for (const LibraryKernel& k : kernel_library()) {
    if (!seen.insert(k.entry).second) continue;
    SCOPED_TRACE(k.name);
    const std::string source(library_source(k.source));
    if (whole()) {
      EXPECT_FALSE(compiler->compile(source, k.source + ".cu", {}).empty());
    }
    const Transformed t = make_persistent(source, k.source + ".cu", k.entry);
    for (const char* prefetch : part<const char*>({"1", "0"}, 2))
      for (const char* dimensions : {"1", "2", "3"}) {
        if (k.entry != "traps" && std::string(dimensions) != (k.grid.z > 1 ? "3" : k.grid.y > 1 ? "2" : "1"))
          continue;
        EXPECT_FALSE(compiler
                         ->compile(t.text, k.source + ".cu",
                                   {"-DCORUN_THREADS=" + std::to_string(k.threads()), "-DCORUN_RESIDENT=1",
                                    std::string("-DCORUN_DIMENSIONS=") + dimensions,
                                    "-DCORUN_BLOCK_DIMENSIONS=3", std::string("-DCORUN_PREFETCH=") + prefetch,
                                    "-DCORUN_LOGGED=1", std::string("-DCORUN_CHUNKED=") + prefetch,
                                    std::string("-DCORUN_SEATED=") + prefetch})
                         .empty());
      }
  }
}

TEST(Library, HalvesRoundAsTheGpuDoes) {
  EXPECT_EQ(to_half(1.0f), 0x3c00);
  EXPECT_EQ(to_half(-2.0f), 0xc000);
  EXPECT_EQ(to_half(0.0f), 0);
  EXPECT_EQ(to_half(1.0f + 0x1p-11f), 0x3c00) << "a tie goes to the even one";
  EXPECT_EQ(to_half(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(to_half(0x1.ffcp-1f), 0x3bff);
  EXPECT_EQ(to_half(0x1.ffep-1f), 0x3c00) << "up into the next exponent";
  EXPECT_EQ(to_half(0x1p-24f), 1) << "subnormal";
  for (std::uint32_t h = 0; h < 0x7c00; ++h) EXPECT_EQ(to_half(from_half(static_cast<std::uint16_t>(h))), h);
}

TEST(Library, EveryKernelHasDeviceCodeAndRoomForItsArguments) {
  for (const LibraryKernel& k : kernel_library()) {
    SCOPED_TRACE(k.name);
    EXPECT_FALSE(library_source(k.source).empty());
    EXPECT_EQ(find_kernel(k.name), &k);
    EXPECT_LT(k.blocks(), 1u << 31);
    for (const Argument& a : k.arguments)
      if (const auto* b = std::get_if<BufferArgument>(&a)) {
        EXPECT_LT(b->buffer, k.buffers.size());
      }
  }
}

}  // namespace
}  // namespace corun::hw
