// Kernels without counters: are they put into the class that their names tell, and is what they are taken to
// do possible?
#include "sim/model/kernel_prior.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "sim/model/kernel_model.h"
#include "sim/run/run.h"
#include "tests/support/build.h"
#include "traces/json/input_file.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string class_of(std::string_view name) {
  const Prior* prior = prior_of(name);
  return prior == nullptr ? "" : std::string(prior->name);
}

TEST(KernelClass, IsToldByTheNamesOfPyTorchsKernels) {
  EXPECT_EQ(class_of("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
                     "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)"),
            "streaming");
  EXPECT_EQ(
      class_of("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
               "(anonymous namespace)::GroupNormKernelImplInternal<c10::Half> >"),
      "elementwise");
  EXPECT_EQ(class_of("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<>"),
            "scatter");
  EXPECT_EQ(class_of("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>"), "gather");
  EXPECT_EQ(
      class_of("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<>>"),
      "reduction");
  EXPECT_EQ(class_of("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"),
            "normalisation");
  EXPECT_EQ(
      class_of("void (anonymous namespace)::softmax_warp_forward<float, float, float, 7, false, false>"),
      "normalisation");
  EXPECT_EQ(class_of("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 3, 64, 64>"),
            "copy");
  EXPECT_EQ(class_of("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<>"), "optimizer");
  EXPECT_EQ(class_of("void at::native::(anonymous namespace)::max_pool_forward_nchw<float, int>"), "pooling");
  EXPECT_EQ(class_of("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<>)"),
            "attention");
}

TEST(KernelClass, IsToldByTheNamesOfLibrariesKernels) {
  EXPECT_EQ(class_of("nvjet_sm90_hsh_128x128_64x6_2x1_v_bz_TNT"), "wgmma");
  EXPECT_EQ(class_of("nvjet_sm90_hsh_128x8_64x12_4x1_v_bz_splitK_TNT"), "thin_gemm");
  EXPECT_EQ(
      class_of("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false>"),
      "gemv");
  EXPECT_EQ(class_of("nvjet_sm90_hsh_128x64_64x8_1x2_h_bz_NNT"), "wgmma");  // eight stages, not columns
  EXPECT_EQ(class_of("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
                     "warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn"),
            "wgmma");
  EXPECT_EQ(class_of("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"), "mma");
  EXPECT_EQ(class_of("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nn_align4>(Params)"),
            "mma");
  EXPECT_EQ(class_of("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)"), "simt");
  EXPECT_EQ(class_of("ampere_sgemm_128x64_tn"), "simt");
  EXPECT_EQ(
      class_of("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4"),
      "simt");
  EXPECT_EQ(
      class_of("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>"),
      "simt");
  EXPECT_EQ(class_of("void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half>"),
            "reduction");
  EXPECT_EQ(class_of("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float, float)"),
            "batch_norm");
  EXPECT_EQ(class_of("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>"),
            "layout");
  EXPECT_EQ(class_of("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::half_t> >"),
            "attention");
  EXPECT_EQ(class_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"),
            "attention");
  EXPECT_EQ(class_of("triton_poi_fused_add_relu_3"), "streaming");
  EXPECT_EQ(class_of("triton_red_fused_native_layer_norm_1"), "normalisation");
  EXPECT_EQ(class_of("triton_per_fused_sum_2"), "reduction");
  EXPECT_EQ(class_of("triton_tem_fused_mm_5"), "mma");
}

TEST(KernelClass, IsToldByTheNamesOfServersKernels) {
  // vLLM's, Triton's, CUTLASS's and CUB's.
  EXPECT_EQ(class_of("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, "
                     "(vllm::Fp8KVCacheDataType)0>"),
            "copy");
  EXPECT_EQ(class_of("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)"),
            "streaming");
  EXPECT_EQ(class_of("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(c10::BFloat16*)"),
            "streaming");
  EXPECT_EQ(class_of("_fwd_kernel"), "attention");
  EXPECT_EQ(class_of("_attn_fwd"), "attention");
  EXPECT_EQ(class_of("_layer_norm_fwd_kernel"), "normalisation");
  EXPECT_EQ(
      class_of("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>>>"),
      "mma");
  EXPECT_EQ(class_of("my_gemm_kernel"), "mma");
  EXPECT_EQ(class_of("matmul_kernel"), "mma");
  // As profilers cut names off.
  EXPECT_EQ(class_of("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize64x32x64"),
            "mma");
  EXPECT_EQ(class_of("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_st"),
            "simt");
  EXPECT_EQ(
      class_of("void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>"),
      "depthwise");
  EXPECT_EQ(class_of("conv2d_c1_k1_nhwc_specialized"), "depthwise");
  EXPECT_EQ(class_of("void cub::CUB_200700_900_NS::DeviceRadixSortOnesweepKernel<>"), "sort");
}

TEST(KernelClass, StandsTwiceWithTheSameNumbers) {
  EXPECT_EQ(prior_of("my_gemm_kernel")->l2, prior_of("triton_mm")->l2);
  EXPECT_EQ(prior_of("act_and_mul_kernel")->instructions, prior_of("triton_poi_0")->instructions);
}

TEST(KernelClass, IsToldByWordsOfOtherNames) {  // of XLA, CuPy and users
  EXPECT_EQ(class_of("loop_add_fusion"), "streaming");
  EXPECT_EQ(class_of("input_reduce_fusion_1"), "reduction");
  EXPECT_EQ(class_of("cupy_multiply__float32_float32_float32"), "streaming");
  EXPECT_EQ(class_of("cupy_sum"), "reduction");
  EXPECT_EQ(class_of("void at::native::mbtopk::gatherTopK<float, unsigned int, 2>"), "sort");
  EXPECT_EQ(class_of("copy"), "streaming");
  EXPECT_EQ(class_of("void pytorch_flash::flash_fwd_splitkv_kernel<>"), "decode_attention");
}

TEST(KernelClass, IsUnknownOfOtherNames) {
  for (const char* name :
       {"", "k", "relu", "conv1", "my_fwd_kernel", "void my_kernel(float*)", "render", "fused_nn_conv2d_add"})
    EXPECT_EQ(class_of(name), "") << name;
}

Gpu h200() { return read_gpu("h200", "."); }

Kernel named(std::string name, std::uint32_t blocks, std::uint32_t threads, Time solo_time) {
  Kernel k;
  k.name = std::move(name);
  k.grid = {blocks, 1, 1};
  k.block = {threads, 1, 1};
  k.registers_per_thread = 32;
  k.solo_time = solo_time;
  return k;
}
Kernel product() { return named("ampere_fp16_s16816gemm_fp16_128x64_ldg8", 264, 128, us(30)); }

TEST(KernelPrior, IsNotForKernelsOfWhichMoreIsKnown) {
  Kernel k = product();
  ASSERT_NE(prior_for(k), nullptr);
  k.block_times = {us(1)};
  EXPECT_EQ(prior_for(k), nullptr);
  k.block_times.clear();
  k.counters.dram_read_bytes = 1e6;
  EXPECT_NE(prior_for(k), nullptr);
  k.counters.issue_active_pct = 20;
  EXPECT_EQ(prior_for(k), nullptr);
}

TEST(KernelPrior, SaysWhatTheModelIsMadeOf) {
  const Gpu gpu = h200();
  Kernel k = product();
  EXPECT_EQ(KernelModel(k, us(30), gpu).basis(),
            "launch shape, solo time and what gemms with mma.sync usually do");
  EXPECT_TRUE(KernelModel(k, us(30), gpu).load(gpu.sms).sm.tensor);
  k.solo_time_by_sms = {{132, us(30)}, {66, us(58)}};
  EXPECT_EQ(KernelModel(k, us(30), gpu).basis(),
            "launch shape, solo times by SMs and what gemms with mma.sync usually do");
  k.name = "mine";
  EXPECT_EQ(KernelModel(k, us(30), gpu).basis(), "launch shape and solo time");
}

RC_GTEST_PROP(KernelPrior, IsPossible, ()) {
  static const Gpu all[] = {h200(), read_gpu("titan-xp", "."), small_gpu(3)};
  const Gpu& gpu = all[*rc::gen::inRange(0, 3)];
  static const std::vector<std::string> names = {"ampere_sgemm",       "nvjet_sm90_128x64", "nvjet_8x64",
                                                 "elementwise_kernel", "softmax",           "reduce_kernel",
                                                 "embedding",          "s16816gemm",        "fmha"};
  Kernel k = named(*rc::gen::elementOf(names), *rc::gen::inRange(1u, 100'000u), *rc::gen::inRange(1u, 1025u),
                   ps(*rc::gen::inRange(1, 2'000'000'000)));
  const Prior* prior = prior_for(k);
  RC_ASSERT(prior != nullptr);
  const Counters c = usual_counters(*prior, k, *k.solo_time, gpu);
  RC_ASSERT(*c.warp_instructions >= static_cast<double>(k.blocks()));
  for (const auto& count :
       {c.tensor_instructions, c.l2_bytes, c.l1_bytes, c.dram_read_bytes, c.dram_write_bytes})
    RC_ASSERT(count && std::isfinite(*count) && *count >= 0);
  RC_ASSERT(*c.tensor_instructions <= *c.warp_instructions);
  RC_ASSERT(*c.dram_read_bytes + *c.dram_write_bytes <= *c.l2_bytes);
  const KernelModel model(k, *k.solo_time, gpu);
  const BlockLoad load = model.load(gpu.sms);
  RC_ASSERT(std::isfinite(load.sm.issue_ps) && load.sm.issue_ps > 0);
  RC_ASSERT(std::isfinite(load.sm.fixed_ps) && load.sm.fixed_ps >= 0);
  RC_ASSERT(model.block_alone(gpu.sms) > Time{});
}

std::vector<std::string> notes_of(std::vector<Kernel> kernels) {
  TraceBuilder builder;
  for (Kernel& k : kernels) builder.one_kernel("client of " + k.name, std::move(k));
  RunOptions options;
  options.policy = "fcfs";
  return texts_of(run(builder.trace, h200(), options));
}

TEST(ContentionWarning, SaysHowManyKernelsHaveNoCounters) {
  EXPECT_THAT(
      notes_of({product(), named("reduce_kernel", 4, 64, us(3))}),
      Contains(HasSubstr("2 of 2 kernels have no counters: they are taken to do what kernels of their "
                         "class did in networks measured on an H200")));
  EXPECT_THAT(
      notes_of({product(), named("mine", 4, 64, us(3))}),
      Contains(testing::AllOf(HasSubstr("2 of 2 kernels have no counters: 1 of them taken to do what"),
                              HasSubstr("; the other 1 taken to fill the issue slots by their warps"))));
  EXPECT_THAT(
      notes_of({named("mine", 4, 64, us(3)), named("yours", 4, 64, us(3))}),
      Contains(HasSubstr("2 of 2 kernels have no counters: they are taken to fill the issue slots by their "
                         "warps and not to use the memory")));
  Kernel known = product();
  known.counters.warp_instructions = 1e5;
  EXPECT_THAT(notes_of({known, known}), Not(Contains(HasSubstr("counters"))));
}

}  // namespace
}  // namespace corun::sim
