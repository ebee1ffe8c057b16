// What are the launches of a kernel like to the engine, and is each kernel told from the others?
#include "sim/backend/shapes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/stages/compute_engine.h"
#include "tests/support/build.h"

namespace corun::sim {
namespace {

bool contends(const Shape& shape) { return shape.load.contends(); }
double pressed(const Shape& shape) { return shape.load.memory.l2_ps; }

/// On 4 SMs: 3 blocks, or 100 in four waves. It takes 100 us and has that many bytes to read.
Kernel counted_kernel(std::uint32_t blocks, double bytes = 1e6) {
  Kernel k = kernel(blocks, 256, us(1));
  k.block_times.clear();
  k.solo_time = us(100);
  k.counters = {};
  k.counters.warp_instructions = 1e5;
  k.counters.dram_read_bytes = k.counters.l2_bytes = bytes;
  k.counters.dram_write_bytes = 0;
  return k;
}
Shape shape_of(const Kernel& k, const Gpu& gpu) { return Shapes(gpu).of(k, *k.solo_time, gpu.sms); }

/// What the engine makes of the kernel alone.
Time length_in_engine(const Kernel& k, const Shape& shape, const Gpu& gpu) {
  Timeline nobody;
  ComputeEngine engine(gpu, nobody, {});
  Work work;
  work.load = shape.load;
  work.block_alone = shape.block_alone;
  work.record.blocks = k.blocks();
  return length_alone(engine, work, engine.all_sms(), shape.demand);
}

TEST(Shapes, ABlocksTimeIsThatWithWhichItsKernelAloneTakesItsOwn) {
  const Gpu gpu = small_gpu(4);
  for (const std::uint32_t blocks : {3u, 32u, 33u, 100u}) {
    const Kernel k = counted_kernel(blocks);
    const Shape shape = shape_of(k, gpu);
    ASSERT_TRUE(contends(shape));
    const Time length = length_in_engine(k, shape, gpu);
    if (blocks <= 32)
      EXPECT_EQ(length, us(100)) << "one wave";
    else
      EXPECT_NEAR(to_ns(length), 100e3, 1) << blocks;
  }
}

TEST(Shapes, AnInstancesMemoryLengthensTheBlocksThatItBounds) {
  const Gpu whole = small_gpu(4);
  Gpu instance = whole;
  instance.contention.dram_read_bytes_per_second /= 4;
  const auto longer = [&](double bytes) {
    const Kernel k = counted_kernel(100, bytes);
    return to_ns(Shapes(whole, instance).of(k, us(100), 4).block_alone) /
           to_ns(shape_of(k, whole).block_alone);
  };
  EXPECT_GT(longer(4e8), 3) << "nearly all that the whole GPU reads in this time";
  EXPECT_LT(longer(4e8), 4.5);
  EXPECT_NEAR(longer(1e5), 1, 0.01);
}

TEST(Shapes, AreOfTheirKernelWhateverWasAskedBefore) {
  const Gpu gpu = small_gpu(4);
  std::vector<Kernel> kernels(14, counted_kernel(100));
  kernels[1].grid = {99, 1, 1};
  kernels[2].block = {512, 1, 1};
  kernels[3].registers_per_thread = 128;
  kernels[4].dynamic_shared_memory_bytes = 30'000;
  kernels[5].solo_time_by_sms = {{2, us(199)}, {4, us(100)}};
  kernels[6].persistent_time_by_ctas = {{4, us(120)}};
  kernels[7].stoppable = Kernel::Stoppable{us(150), true};
  kernels[8].block_times = {us(3)};
  kernels[9].counters.dram_write_bytes = 1e6;
  kernels[10].solo_time_by_sms = {{2, us(150)}, {4, us(100)}};
  kernels[11].persistent_time_by_ctas = {{4, us(130)}};
  kernels[12].stoppable = Kernel::Stoppable{us(160), true};
  kernels[13].block_times = {us(4)};
  Shapes together(gpu);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    for (const std::uint32_t sms : {4u, 2u}) {
      const Shape asked = together.of(kernels[i], us(100), sms),
                  fresh = Shapes(gpu).of(kernels[i], us(100), sms);
      EXPECT_EQ(asked.block_alone, fresh.block_alone) << i;
      EXPECT_EQ(asked.demand, fresh.demand) << i;
      EXPECT_EQ(asked.load, fresh.load) << i;
      EXPECT_EQ(asked.persistent_task, fresh.persistent_task) << i;
      EXPECT_EQ(asked.stoppable_task, fresh.stoppable_task) << i;
    }
  }
  EXPECT_GT(together.of(kernels[0], us(200), 4).block_alone, together.of(kernels[0], us(100), 4).block_alone);
}

TEST(Shapes, WithoutCountersAKernelsNameTellsWhatItDoes) {
  Kernel adds = counted_kernel(100), unknown = adds;
  adds.counters = unknown.counters = {};
  adds.name = "void at::native::vectorized_elementwise_kernel<4>", unknown.name = "nobody knows";
  Shapes shapes(small_gpu(4));
  EXPECT_GT(pressed(shapes.of(adds, us(100), 4)), 0);
  EXPECT_EQ(pressed(shapes.of(unknown, us(100), 4)), 0);
}

TEST(Shapes, AWorkerNeedsSharedMemoryOfItsOwn) {
  Gpu gpu = small_gpu(4);
  Kernel k = kernel(100, 256, us(1));
  k.dynamic_shared_memory_bytes = 1000;  // of 1,024 that are allocated
  EXPECT_EQ(demand_of_worker(k, gpu), demand_of(k, gpu.sm));
  gpu.persistent_shared_bytes = 24;
  EXPECT_EQ(demand_of_worker(k, gpu), demand_of(k, gpu.sm));
  gpu.persistent_shared_bytes = 25;
  SmResources more = demand_of(k, gpu.sm);
  more.shared_memory += gpu.sm.shared_memory_allocation_unit;
  EXPECT_EQ(demand_of_worker(k, gpu), more);
}

/// Launches of two kernels, as a run asks for them.
class Launched {
 public:
  LaunchView view(std::uint32_t kernel_id, Time solo = us(100), std::uint32_t client = 0,
                  std::uint32_t op = 0) const {
    LaunchView l;
    l.client = ClientId{client}, l.op = OpId{op};
    l.kernel_id = KernelId{kernel_id};
    l.kernel = &kernels_[kernel_id];
    l.solo_time = solo;
    return l;
  }
  const Gpu gpu = small_gpu(4);

 private:
  std::vector<Kernel> kernels_{counted_kernel(100, 4e8), counted_kernel(40)};
};

TEST(LaunchShapes, AreTheSameWhereKernelTimeAndSmsAre) {
  const Launched l;
  LaunchShapes shapes(l.gpu, nullptr);
  const Shape* const first = &shapes.of(l.view(0), 4);
  EXPECT_EQ(&shapes.of(l.view(0, us(100), 1, 3), 4), first)
      << "of another client, and at another place of its program";
  EXPECT_NE(&shapes.of(l.view(1), 4), first);
  EXPECT_NE(&shapes.of(l.view(0, us(100) + ps(1)), 4), first);
  EXPECT_NE(&shapes.of(l.view(0), 3), first);
  EXPECT_EQ(&shapes.of(l.view(0), 4), first);
}

TEST(LaunchShapes, AreThoseOfTheKernelAndStayWhereTheyAre) {
  const Launched l;
  LaunchShapes shapes(l.gpu, nullptr);
  const Shape& first = shapes.of(l.view(0), 4);
  const Time block = first.block_alone;
  EXPECT_EQ(block, Shapes(l.gpu).of(*l.view(0).kernel, us(100), 4).block_alone);
  for (std::uint32_t i = 1; i < 100; ++i) shapes.of(l.view(i % 2, us(100 + i), i % 3, i), 4);
  EXPECT_EQ(first.block_alone, block);
  EXPECT_EQ(&shapes.of(l.view(0), 4), &first);
}

TEST(LaunchShapes, AreTakenFromThoseThatOtherRunsShare) {
  const Launched l;
  Gpu instance = l.gpu;
  instance.contention.dram_read_bytes_per_second /= 4;
  Shapes shared(l.gpu, instance);
  const Time block = LaunchShapes(l.gpu, &shared).of(l.view(0), 4).block_alone;
  EXPECT_EQ(block, shared.of(*l.view(0).kernel, us(100), 4).block_alone);
  EXPECT_GT(block, LaunchShapes(l.gpu, nullptr).of(l.view(0), 4).block_alone)
      << "which know nothing of the instance";
}

}  // namespace
}  // namespace corun::sim
