// What a captured program does on a GPU that is not there: calls and their operations, on a clock of their own.
#pragma once

#include <cstdint>

struct FakeKernel {
  const char* name;  // mangled
  std::uint32_t stream;
  std::int32_t grid, block;
  std::uint64_t ns;
};

extern "C" {
/// A call of the runtime, the driver's within it under the same number, and the kernel, 2 us later at the earliest.  A record
/// of the kernel takes the host 0.9 us, one of a graph's node the GPU 1.2 us.
void fake_launch(const FakeKernel* kernel);
/// The runtime makes the program's only graph, which is given anew at each launch.
void fake_launch_graph(const FakeKernel* kernels, std::uint32_t count);
/// Of a stream, into a graph; what is launched is a kernel all the same.
void fake_capture_begins();
void fake_capture_ends();
/// Which the GPU calls when it has done all before.
void fake_launch_host_function();
void fake_copy_to_device(std::uint32_t stream, std::uint64_t bytes, std::uint64_t ns);
void fake_record_event(std::uint32_t stream, std::uint32_t event);
void fake_wait_event(std::uint32_t stream, std::uint32_t event);
/// The host waits for the last operation.
void fake_synchronize(std::uint32_t stream);
void fake_allocate(std::uint64_t bytes, std::uint64_t address);
void fake_free(std::uint64_t bytes, std::uint64_t address);
void fake_host_works(std::uint64_t ns);
/// As CUPTI's period does it.
void fake_flush();
}
