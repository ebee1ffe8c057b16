// Are kernels that wait for peers told from work, and their waits not scaled to another card?
#include "sim/model/peer_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/model/other_card.h"
#include "tests/support/build.h"
#include "traces/json/trace_json.h"

namespace corun::sim {
namespace {

TEST(PeerKernels, AreToldByTheNamesOfTheirLibraries) {
  for (const char* name : {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
                           "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
                           "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(RankData*)", "two_shot_all_reduce_kernel<bfloat16>",
                           "tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>", "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
                           "nvshmemi_transfer_rma<NVSHMEMI_THREADGROUP_BLOCK>", "ncclSymkDevKernel_AllReduce_AGxLL_sum_f32(ncclSymkDevWorkArgs4K)",
                           "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
                           "rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "mscclKernel_Sum_half_LL(ncclDevComm*, mscclAlgo*, mscclWork*)",
                           "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)", "void deep_ep::intranode::dispatch<8, 768>(int4*)",
                           "userbuffers_fp16_sum_inplace_gpu_rr(int, int)", "void multimem_all_gather_kernel<16>(unsigned char*)",
                           "multimem_one_shot_all_reduce_kernel<float, 16>", "void quickreduce::allreduce_prototype_twoshot<half>(half const*)",
                           "void aiter::cross_device_reduce_2stage<__half, 8>(aiter::RankData*)"})
    EXPECT_TRUE(waits_for_peers(name)) << name;
  for (const char* name : {"ampere_sgemm_128x128_tn", "void at::native::reduce_kernel<512, 1>(ReduceOp)", "all_reduce_grads_local", "cudnn_all_gather_index",
                           "void cub::DeviceReduceKernel<Policy>", "multi_tensor_apply_kernel", "void at::native::elementwise_kernel<128, 2, combine>",
                           "nchwToNhwcKernel", "void dispatch_topk<float>(float*)"})
    EXPECT_FALSE(waits_for_peers(name)) << name;
}

TEST(PeerKernels, KeepTheirTimesOnAnotherCard) {
  TraceBuilder b;
  const Gpu from = read_gpu("h200"), to = read_gpu("a100");
  const auto add = [&](const char* name) {
    Kernel k = kernel(264, 256, us(10));
    k.name = name, k.block_times.clear(), k.solo_time = ms(5);
    return b.kernel(k);
  };
  const KernelId reduce = add("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), work = add("work");
  Op special = launch(reduce);
  std::get<Launch>(special.what).solo_time = ms(7);
  b.client("c", b.program({launch(reduce), special, launch(work)}));
  const CarriedOver carried = carried_over(b.trace, from, to);
  EXPECT_EQ(carried.trace.kernels[reduce.value].solo_time, ms(5));
  EXPECT_EQ(std::get<Launch>(carried.trace.programs[0].ops[1].what).solo_time, ms(7));
  EXPECT_GT(carried.trace.kernels[work.value].solo_time, ms(5));
  EXPECT_THAT(card_notes(b.trace, to), testing::Contains(testing::HasSubstr("1 of 2 kernels wait for peers on other GPUs")));
  b.trace.programs[0].ops = {launch(work)};
  EXPECT_THAT(card_notes(b.trace, to), testing::IsEmpty()) << "what nobody launches";
}

}  // namespace
}  // namespace corun::sim
