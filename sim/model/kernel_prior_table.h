// Written by experiments/h200/networks/prior.py: kernels with counters of 23 networks and 53 operations on an NVIDIA H200, those set aside left out.
// In this order, the first class of which a name holds a pattern counts.  A class may stand twice.
#pragma once

#include "sim/model/kernel_prior.h"

namespace corun::sim {

// clang-format off
// class, its kernels, patterns; instructions and L2 bytes, as shares of what its SMs can do in its time; tensor
// instructions of all; L1, DRAM read and written bytes of L2's; the number of kernels, and of networks and operations,
// from which they are learnt
inline constexpr Prior kPriors[] = {
    {"copy", "copies",
     "reshape_and_cache concat_and_cache",
     0.243, 0.413, 0.00363, 0.788, 0.152, 0, 116, 8},
    {"streaming", "elementwise kernels over neighbours",
     "rotary_embedding apply_rotary rope_kernel act_and_mul silu_and_mul gelu_and_mul",
     0.14, 0.786, 0, 0.583, 0.327, 0, 326, 28},
    {"scatter", "gathers and scatters of words",
     "scatter_gather index_put index_elementwise",
     0.034, 0.262, 0.0217, 0.286, 0.411, 0, 8, 7},
    {"gather", "gathers of rows",
     "gather_kernel indexselect indexing_backward embedding",
     0.101, 0.217, 0, 0.598, 0.265, 0, 15, 9},
    {"streaming", "elementwise kernels over neighbours",
     "vectorized_elementwise triton_poi",
     0.14, 0.786, 0, 0.583, 0.327, 0, 326, 28},
    {"elementwise", "elementwise kernels with an index for each element",
     "elementwise_kernel",
     0.398, 0.397, 0.0226, 0.55, 0.178, 0, 199, 24},
    {"optimizer", "optimizer steps",
     "multi_tensor_apply",
     0.0633, 0.594, 0, 0.657, 0.38, 0.138, 3, 2},
    {"attention", "attention kernels",
     "fmha flash_ attention sdpa attn_fwd attn_bwd ^_fwd_kernel ^_bwd_kernel",
     0.29, 0.408, 0.0461, 0.759, 0.184, 0.00846, 20, 17},
    {"batch_norm", "batch normalisations",
     "bn_fw bn_bw batch_norm batchnorm",
     0.21, 0.304, 0, 0.648, 0.293, 0, 207, 8},
    {"normalisation", "normalisations",
     "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm softmax",
     0.329, 0.235, 0.00934, 1.84, 0.269, 0, 39, 19},
    {"reduction", "reductions",
     "reduce_kernel splitkreduce reducesplitk rowwisemoments triton_red triton_per",
     0.203, 0.311, 0.00302, 0.447, 0.426, 0, 72, 17},
    {"pooling", "pooling kernels",
     "max_pool avg_pool average_pool maxpool avgpool upsample",
     0.649, 0.215, 0, 1.33, 0.263, 0, 28, 8},
    {"layout", "layout changes",
     "nchwtonhwc nhwctonchw tensortransform addpadding transpose_",
     0.457, 0.248, 0, 0.653, 0.297, 0, 137, 9},
    {"copy", "copies",
     "catarray copy_kernel",
     0.243, 0.413, 0.00363, 0.788, 0.152, 0, 116, 8},
    {"thin_gemm", "gemms with few columns",
     "gemv2 gemvx gemvn nvjet*x8_64x nvjet*x16_64x nvjet*x24_64x nvjet*x32_64x nvjet*_8x*_64x nvjet*_16x*_64x",
     0.153, 0.427, 0.0467, 0.0015, 0.515, 0, 49, 16},
    {"wgmma", "gemms with wgmma",
     "nvjet warpgroupsize gmma sm90_xmma sm90_tensorop cutlass3x_sm90",
     0.153, 0.615, 0.0552, 5.23e-05, 0.161, 1.04e-05, 162, 26},
    {"mma", "gemms with mma.sync",
     "tensorop tensor16x8 s1688 s16816 h1688 h16816 s884 h884 i16832 hmma wmma triton_tem triton_mm implicitgemm",
     0.247, 0.32, 0.101, 1.19, 0.16, 0, 170, 13},
    {"simt", "gemms without tensor cores",
     "sgemm ffma simt_ gemmsn gemmk1 scudnn winograd f32f32_f32f32_f32",
     0.526, 0.167, 0.000269, 1.42, 0.098, 1.69e-05, 45, 20},
    {"sort", "sorts and scans",
     "cub:: radixsort bitonicsort kernel_scan",
     0.362, 0.209, 0, 0.458, 0.331, 0.0362, 7, 5},
    {"depthwise", "depthwise convolutions",
     "conv_depthwise conv2d_c1_",
     0.35, 0.143, 0.0036, 3.79, 0.3, 0, 29, 4},
    {"mma", "gemms with mma.sync",
     "gemm matmul",
     0.247, 0.32, 0.101, 1.19, 0.16, 0, 170, 13},
};
// clang-format on

}  // namespace corun::sim
