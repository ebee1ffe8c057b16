// Written by experiments/h200/networks/prior.py: the kernels with counters of 19 networks on an NVIDIA H200, those set aside left out.
// In this order, the first class of which a name holds a pattern counts.
#pragma once

#include "sim/model/kernel_prior.h"

namespace corun::sim {

// clang-format off
// class, its kernels, patterns; instructions and L2 bytes, each by what; shares: tensor of all instructions, L1, DRAM reads
// and writes of L2 bytes; the number of kernels and of networks it is learnt from
inline constexpr Prior kPriors[] = {
    {"cache", "copies into caches",
     "reshape_and_cache concat_and_cache",
     Prior::sm_time, 0.1608, Prior::sm_time, 0.2748, 0, 0.573, 0.287, 0, 112, 6},
    {"rotary", "rotary embeddings",
     "rotary_embedding apply_rotary rope_kernel",
     Prior::warp_time, 0.0141, Prior::sm_time, 0.7158, 0, 0.611, 0.298, 0, 362, 19},
    {"gather", "gathers",
     "scatter_gather gather_kernel index_elementwise indexselect index_put indexing_backward embedding",
     Prior::warp_time, 0.01353, Prior::sm_time, 0.1436, 0, 0.799, 0.4, 0, 13, 5},
    {"elementwise", "elementwise kernels",
     "elementwise_kernel triton_poi",
     Prior::warp_time, 0.0141, Prior::sm_time, 0.7158, 0, 0.611, 0.298, 0, 362, 19},
    {"optimizer", "optimizer steps",
     "multi_tensor_apply",
     Prior::sm_time, 0.05393, Prior::sm_time, 0.5931, 0, 0.657, 0.438, 0.126, 2, 1},
    {"attention", "attention kernels",
     "fmha flash_ attention sdpa attn_fwd attn_bwd ^_fwd_kernel ^_bwd_kernel",
     Prior::warp_time, 0.0351, Prior::sm_time, 0.5677, 0.0953, 0.66, 0.326, 0.0107, 10, 8},
    {"batch_norm", "batch normalisations",
     "bn_fw bn_bw batch_norm batchnorm",
     Prior::warp_time, 0.008801, Prior::warp_time, 0.01304, 0, 0.661, 0.281, 0, 186, 6},
    {"normalisation", "normalisations",
     "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm softmax",
     Prior::warp, 468.5, Prior::sm_time, 0.2194, 0.0064, 2.11, 0.278, 0, 15, 11},
    {"reduction", "reductions",
     "reduce_kernel splitkreduce reducesplitk rowwisemoments triton_red triton_per",
     Prior::warp_time, 0.01601, Prior::warp, 4546, 0.00535, 0.571, 0.468, 0, 59, 10},
    {"pooling", "pooling kernels",
     "max_pool avg_pool average_pool maxpool avgpool upsample",
     Prior::sm_time, 0.6518, Prior::sm_time, 0.1818, 0, 1.8, 0.286, 0, 27, 7},
    {"layout", "layout changes",
     "nchwtonhwc nhwctonchw tensortransform addpadding transpose_",
     Prior::warp, 132.2, Prior::sm_time, 0.2495, 0, 0.622, 0.277, 0, 137, 9},
    {"copy", "copies",
     "catarray copy_kernel",
     Prior::sm_time, 0.1608, Prior::sm_time, 0.2748, 0, 0.573, 0.287, 0, 112, 6},
    {"thin_gemm", "gemms with few columns",
     "gemv2 gemvx gemvn nvjet*x8_ nvjet*_8x nvjet*x16_ nvjet*_16x",
     Prior::sm_time, 0.1322, Prior::sm_time, 0.6793, 0.062, 0, 0.633, 5.01e-05, 40, 12},
    {"wgmma", "gemms with wgmma",
     "nvjet warpgroupsize gmma sm90_xmma sm90_tensorop cutlass3x_sm90",
     Prior::warp_time, 0.01561, Prior::warp_time, 0.05173, 0.0479, 3.84e-05, 0.151, 0, 98, 12},
    {"mma", "gemms with mma.sync",
     "tensorop tensor16x8 s1688 s16816 h1688 h16816 s884 h884 i16832 hmma wmma triton_tem triton_mm implicitgemm",
     Prior::warp_time, 0.05695, Prior::sm_time, 0.3642, 0.108, 1.05, 0.158, 0, 159, 10},
    {"simt", "gemms without tensor cores",
     "sgemm ffma simt_ gemmsn gemmk1 scudnn winograd f32f32_f32f32_f32",
     Prior::sm_time, 0.5056, Prior::sm_time, 0.1343, 1.25e-05, 1.1, 0.126, 0, 29, 12},
    {"activation", "activations",
     "act_and_mul silu_and_mul gelu_and_mul",
     Prior::warp_time, 0.0141, Prior::sm_time, 0.7158, 0, 0.611, 0.298, 0, 362, 19},
    {"cub", "kernels of CUB",
     "cub::",
     Prior::warp_time, 0.01601, Prior::warp, 4546, 0.00535, 0.571, 0.468, 0, 59, 10},
    {"depthwise", "depthwise convolutions",
     "conv_depthwise conv2d_c1_",
     Prior::sm_time, 0.5056, Prior::sm_time, 0.1343, 1.25e-05, 1.1, 0.126, 0, 29, 12},
    {"gemm", "gemms of which no more is known",
     "gemm matmul",
     Prior::warp_time, 0.05695, Prior::sm_time, 0.3642, 0.108, 1.05, 0.158, 0, 159, 10},
};
// clang-format on

}  // namespace corun::sim
