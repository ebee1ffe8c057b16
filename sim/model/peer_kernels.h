// Kernels that wait for peers on other GPUs, told by their names: collectives of NCCL, RCCL, MSCCL++ and NVSHMEM, and those that
// PyTorch, vLLM, TensorRT-LLM and FlashInfer have of their own.  Such a kernel's time is mostly that of the slowest peer and of
// the links, which a faster card does not shorten.
//
// Leaves out: collectives under other names, and what they move over NVLink and PCIe.
#pragma once

#include <string_view>

#include "traces/model/trace.h"

namespace corun::sim {

bool waits_for_peers(std::string_view kernel_name);

/// Number of such kernels that the trace's programs launch.
std::size_t count_peer_kernels(const Trace& trace);

}  // namespace corun::sim
