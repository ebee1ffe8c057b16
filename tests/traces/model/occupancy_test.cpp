// Do as many blocks fit an SM as the vendor says?
#include <gtest/gtest.h>

#include "traces/json/trace_json.h"
#include "traces/model/occupancy.h"

#ifdef CORUN_HAVE_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace corun {
namespace {

Kernel kernel_of(std::uint32_t threads, std::uint32_t registers, std::uint32_t shared) {
  Kernel kernel;
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  kernel.dynamic_shared_memory_bytes = shared;
  return kernel;
}

std::uint32_t fit(const Kernel& kernel, const Gpu& gpu) {
  return max_active_blocks(capacity_of(gpu.sm), demand_of(kernel, gpu.sm));
}

TEST(Occupancy, RegistersAreTakenInStepsOf256PerWarp) {
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(fit(kernel_of(256, 32, 0), gpu), 8u);  // 8 x 8 warps x 1,024 registers fill the SM's 65,536
  EXPECT_EQ(fit(kernel_of(256, 33, 0), gpu), 6u);  // 33 registers a thread are taken as 40
  EXPECT_EQ(fit(kernel_of(256, 40, 0), gpu), 6u);
}

TEST(Occupancy, SharedMemoryCostsAKilobyteMoreABlock) {
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(fit(kernel_of(32, 16, 233472 / 4 - 1024), gpu), 4u);
  EXPECT_EQ(fit(kernel_of(32, 16, 233472 / 4 - 1023), gpu), 3u);
}

TEST(Occupancy, TheLargestBlockFitsAndOneByteMoreDoesNot) {
  const Gpu gpu = read_gpu("h200");
  EXPECT_EQ(misfit(kernel_of(1024, 64, 232448), gpu.sm), "");
  EXPECT_NE(misfit(kernel_of(1024, 64, 232449), gpu.sm), "");
  EXPECT_NE(misfit(kernel_of(1024, 65, 0), gpu.sm), "");
  EXPECT_NE(misfit(kernel_of(1025, 32, 0), gpu.sm), "");
}

TEST(Occupancy, AKernelWhoseWarpsLeaveTooMuchOfEachPartOverFitsNoSm) {
  const Gpu gpu = read_gpu("mi50");  // 4 parts of 16,384 registers: one warp of 64 x 168 in each, and 6 warps
  EXPECT_NE(misfit(kernel_of(384, 168, 0), gpu.sm), "");
  EXPECT_EQ(misfit(kernel_of(384, 128, 0), gpu.sm), "");
}

#ifdef CORUN_HAVE_CUDA_OCCUPANCY
// The vendor's own rules, where its toolkit is installed.
TEST(Occupancy, AgreesWithTheVendorsCalculator) {
  for (const char* name : {"h200", "a100", "v100", "titan-v", "titan-xp", "gtx-1060-3gb"}) {
    const Gpu gpu = read_gpu(name);
    cudaOccDeviceProp prop;
    prop.computeMajor = static_cast<int>(gpu.compute_capability_major);
    prop.computeMinor = static_cast<int>(gpu.compute_capability_minor);
    prop.maxThreadsPerBlock = static_cast<int>(gpu.sm.threads_per_block);
    prop.maxThreadsPerMultiprocessor = static_cast<int>(gpu.sm.max_threads);
    prop.regsPerBlock = static_cast<int>(gpu.sm.registers_per_block);
    prop.regsPerMultiprocessor = static_cast<int>(gpu.sm.registers);
    prop.warpSize = static_cast<int>(gpu.sm.warp_size);
    prop.sharedMemPerBlock = 49152;
    prop.sharedMemPerMultiprocessor = gpu.sm.shared_memory_bytes;
    prop.numSms = static_cast<int>(gpu.sms);
    prop.sharedMemPerBlockOptin = gpu.sm.shared_memory_per_block_bytes;
    prop.reservedSharedMemPerBlock = gpu.sm.shared_memory_reserved_bytes;
    for (std::uint32_t threads = 32; threads <= 1024; threads += 32)
      for (std::uint32_t registers = 16; registers <= 255; registers += 7)
        for (std::uint32_t shared = 0; shared <= 49152; shared += 3001) {
          const Kernel kernel = kernel_of(threads, registers, shared);
          cudaOccFuncAttributes attributes;
          attributes.maxThreadsPerBlock = static_cast<int>(gpu.sm.threads_per_block);
          attributes.numRegs = static_cast<int>(registers);
          attributes.sharedSizeBytes = 0;
          attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
          attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          attributes.maxDynamicSharedSizeBytes = gpu.sm.shared_memory_per_block_bytes;
          attributes.numBlockBarriers = 1;
          const cudaOccDeviceState state;
          cudaOccResult result;
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &prop, &attributes, &state,
                                                      static_cast<int>(threads), shared) != CUDA_OCC_SUCCESS)
            continue;
          ASSERT_EQ(misfit(kernel, gpu.sm).empty() ? fit(kernel, gpu) : 0u,
                    static_cast<std::uint32_t>(result.activeBlocksPerMultiprocessor))
              << name << ": " << threads << " threads, " << registers << " registers, " << shared << " bytes";
        }
  }
}
#endif

}  // namespace
}  // namespace corun
