#include "sim/model/peer_kernels.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

namespace corun::sim {
namespace {

/// In lower case.  NCCL's were ncclAllReduceRingLLKernel_sum_f32, then ncclKernel_AllReduce_RING_LL_Sum_float, now
/// ncclDevKernel_AllReduce_Sum_f32_RING_LL, and ncclSymkDevKernel_AllReduce_AGxLL_sum_f32 on symmetric memory; RCCL keeps them.
/// MSCCL's mscclKernel_Sum_half_LL, DeepEP's deep_ep::internode_ll::combine, Transformer Engine's userbuffers_fp16_sum_inplace_gpu_rr.
constexpr std::array<std::string_view, 19> kNames = {
    "nccldevkernel", "ncclsym", "ncclkernel", "ncclallreduce", "ncclallgather", "ncclreducescatter", "ncclbroadcast", "ncclreduce", "ncclsend", "ncclfunction",
    "rcclgeneric", "mscclkernel", "mscclpp", "nvshmem", "deep_ep::", "userbuffers_", "cross_device_reduce", "shot_all_reduce", "multimem_"};
/// TensorRT-LLM's oneShotAllReduceKernel, FlashInfer's allreduce_fusion_kernel_oneshot_lamport.
constexpr std::array<std::string_view, 4> kReduces = {"allreduce", "all_reduce", "all_gather", "allgather"};
constexpr std::array<std::string_view, 4> kShots = {"oneshot", "twoshot", "one_shot", "two_shot"};

}  // namespace

bool waits_for_peers(std::string_view kernel_name) {
  std::string name(kernel_name);
  std::ranges::transform(name, name.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return std::ranges::any_of(kNames, has) || (std::ranges::any_of(kReduces, has) && std::ranges::any_of(kShots, has));
}

std::size_t count_peer_kernels(const Trace& trace) {
  std::vector<bool> launched(trace.kernels.size());
  for (const Program& program : trace.programs)
    for (const Op& op : program.ops)
      if (const auto* launch = std::get_if<Launch>(&op.what)) launched[launch->kernel.value] = true;
  std::size_t count = 0;
  for (std::size_t k = 0; k < trace.kernels.size(); ++k) count += launched[k] && waits_for_peers(trace.kernels[k].name) ? 1 : 0;
  return count;
}

}  // namespace corun::sim
