// Written by experiments/h200/networks/prior.py: the kernels with counters of 13 networks on an NVIDIA H200, those set aside left out.
// In this order, the first class of which a name holds a pattern counts.
#pragma once

#include "sim/model/kernel_prior.h"

namespace corun::sim {

// clang-format off
// class, its kernels, patterns; instructions and L2 bytes, each by what; shares: tensor of all instructions, L1, DRAM reads
// and writes of L2 bytes; the number of kernels and of networks it is learnt from
inline constexpr Prior kPriors[] = {
    {"gather", "gathers",
     "scatter_gather gather_kernel index_elementwise indexselect index_put indexing_backward embedding",
     Prior::warp_time, 0.01353, Prior::sm_time, 0.1436, 0, 0.799, 0.4, 0, 8, 3},
    {"elementwise", "elementwise kernels",
     "elementwise_kernel triton_poi",
     Prior::warp_time, 0.01179, Prior::warp, 2515, 0, 0.625, 0.311, 0, 173, 13},
    {"optimizer", "optimizer steps",
     "multi_tensor_apply",
     Prior::sm_time, 0.05393, Prior::sm_time, 0.5931, 0, 0.657, 0.438, 0.126, 2, 1},
    {"attention", "attention kernels",
     "fmha flash_ attention sdpa",
     Prior::warp_time, 0.03651, Prior::sm_time, 0.5514, 0.0958, 0.664, 0.326, 0.000374, 8, 6},
    {"batch_norm", "batch normalisations",
     "bn_fw bn_bw batch_norm batchnorm",
     Prior::warp_time, 0.008627, Prior::warp_time, 0.01056, 0, 0.662, 0.315, 0, 44, 3},
    {"normalisation", "normalisations",
     "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm softmax",
     Prior::warp, 468.5, Prior::sm_time, 0.2428, 0.0064, 2.11, 0.281, 0, 11, 8},
    {"reduction", "reductions",
     "reduce_kernel splitkreduce reducesplitk rowwisemoments triton_red triton_per",
     Prior::warp_time, 0.01559, Prior::warp, 2622, 0.00232, 0.845, 0.455, 0, 19, 6},
    {"pooling", "pooling kernels",
     "max_pool avg_pool average_pool maxpool avgpool upsample",
     Prior::warp_time, 0.01285, Prior::sm_time, 0.1988, 0, 0.998, 0.268, 5.79e-05, 13, 5},
    {"layout", "layout changes",
     "nchwtonhwc nhwctonchw tensortransform addpadding transpose_",
     Prior::warp, 123.6, Prior::sm_time, 0.2495, 0, 0.632, 0.293, 0, 89, 5},
    {"copy", "copies",
     "catarray copy_kernel",
     Prior::sm_time, 0.2729, Prior::warp_time, 0.01302, 0, 0.648, 0.304, 0, 8, 4},
    {"thin_gemm", "gemms with few columns",
     "gemv2 gemvx gemvn nvjet*x8_ nvjet*_8x nvjet*x16_ nvjet*_16x",
     Prior::warp_time, 0.008216, Prior::sm_time, 0.6965, 0.0878, 0, 0.652, 0.00789, 19, 7},
    {"wgmma", "gemms with wgmma",
     "nvjet warpgroupsize gmma sm90_xmma sm90_tensorop cutlass3x_sm90",
     Prior::warp_time, 0.01562, Prior::warp_time, 0.05217, 0.0493, 3.43e-05, 0.16, 2.21e-06, 80, 9},
    {"mma", "gemms with mma.sync",
     "tensorop tensor16x8 s1688 s16816 h1688 h16816 s884 h884 i16832 hmma wmma triton_tem triton_mm implicitgemm",
     Prior::warp_time, 0.05064, Prior::sm_time, 0.418, 0.135, 1.1, 0.123, 0, 41, 6},
    {"simt", "gemms without tensor cores",
     "sgemm ffma simt_ gemmsn gemmk1 scudnn winograd",
     Prior::sm_time, 0.5125, Prior::sm_time, 0.1463, 1.66e-05, 1.1, 0.115, 0, 22, 9},
};
// clang-format on

}  // namespace corun::sim
