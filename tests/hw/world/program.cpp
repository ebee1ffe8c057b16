#include "tests/hw/world/program.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "hw/live/system.h"
#include "hw/live/wire.h"
#include "hw/shim/blocks.h"
#include "hw/shim/client.h"
#include "hw/shim/driver.h"
#include "tests/hw/world/device_memory.h"
#include "tests/hw/world/gpu.h"
#include "tests/hw/world/stage.h"

namespace corun::world {
namespace {

namespace os = live::os;

/// One of its threads.
class Worker {
 public:
  Worker(const Plan& plan, std::uint32_t number) : plan_(plan), number_(number), random_(plan.seed + number) {}

  void run() {
    for (std::uint32_t i = 0; i < plan_.streams; ++i) streams_.push_back({make(), number_ * 1000 + i});
    if (number_ == 0)
      for (std::uint32_t i = 0; i < plan_.blocks; ++i) allocate();
    for (std::uint32_t r = 0; r < plan_.requests; ++r) {
      request();
      if (!blocks_.empty() && random_.one_in(2)) look(blocks_[random_.below(static_cast<std::uint32_t>(blocks_.size()))]);
      if (plan_.destroys && random_.one_in(5)) remake(streams_[random_.below(plan_.streams)]);
      if (plan_.resets && random_.one_in(5)) reset();
      os::sleep_for(random_.one_in(10) ? random_.between(50ms, 2s) : random_.between(0ms, 20ms));
    }
    wait_for_all();
    for (; !blocks_.empty(); blocks_.pop_back()) free(blocks_.back());
  }

 private:
  struct Block {
    CUdeviceptr at;
    std::uint32_t content;
  };
  /// Also where the driver refuses: the program then has less.
  void allocate() {
    Block b{0, static_cast<std::uint32_t>(random_.next())};
    const std::uint64_t refused = gpu().refused();
    const Ns from = Machine::the().now();
    const CUresult said = cuMemAlloc_v2(&b.at, live::kBlockUnit * (1 + random_.below(plan_.units)));
    called(from);
    if (said != CUDA_SUCCESS) {
      if (gpu().refused() == refused) Machine::the().wrong(fmt::format("memory is refused ({}) that there is", static_cast<int>(said)));
      return;
    }
    ++Machine::the().count("allocated");
    DeviceMemory::the().ranges.at(b.at).in_use = true;
    write(b);
    blocks_.push_back(b);
  }
  static void called(Ns from) { DeviceMemory::the().calls.push_back({Machine::the().process()->pid, from, Machine::the().now()}); }
  void write(const Block& b) {
    for (int i = 0; i < 3 && cuMemsetD32_v2(b.at, b.content, 1) != CUDA_SUCCESS; ++i) {
    }
  }
  /// It has what was written, wherever it has been meanwhile.
  void look(Block& b) {
    std::uint64_t content = 0;
    const Ns from = Machine::the().now();
    if (cuMemcpyDtoH_v2(&content, b.at, sizeof content) != CUDA_SUCCESS) return;
    called(from);
    if (content != b.content) Machine::the().wrong(fmt::format("memory has {} in it where {} was written", content, b.content));
    b.content = static_cast<std::uint32_t>(random_.next());
    write(b);
  }
  void free(const Block& b) {
    if (const auto r = DeviceMemory::the().ranges.find(b.at); r != DeviceMemory::the().ranges.end()) r->second.in_use = false;
    cuMemFree_v2(b.at);
  }

  struct Own {
    CUstream handle;
    std::uint32_t number;  // in the ledger
  };
  Gpu& gpu() const { return Gpu::the(); }

  CUstream make() {
    CUstream made = nullptr;
    for (int i = 0; cuStreamCreate(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS && i < 3; ++i) {
    }
    return made;
  }
  /// Another may be at the address, and is another in the ledger.
  void remake(Own& s) {
    cuStreamSynchronize(s.handle);
    if (s.handle != nullptr) cuStreamDestroy_v2(s.handle);
    s = {make(), s.number + 100};
  }
  void reset() {
    wait_for_all();
    if (random_.one_in(3)) gpu().refuses_reset.insert(Machine::the().process()->pid);
    CUresult said = CUDA_SUCCESS;
    if (Machine::the().plants.contexts_end_unseen)
      said = reinterpret_cast<CUresult (*)(CUdevice)>(live::driver_function("cuDevicePrimaryCtxReset_v2"))(0);
    else
      said = cuDevicePrimaryCtxReset_v2(0);
    if (said != CUDA_SUCCESS) {
      for (Block& b : blocks_) look(b);
      return;
    }
    if (!Machine::the().plants.contexts_end_unseen && DeviceMemory::the().has_any(Machine::the().process()->pid)) Machine::the().wrong("memory of a context that has ended is kept");
    blocks_.clear();
    for (Own& s : streams_) s = {make(), s.number + 100};
  }

  void launch(const Own& s, bool captured = false) {
    const Ns takes = plan_.hangs && random_.one_in(20) ? Ns(8s) : random_.one_in(30) ? random_.between(5ms, 60ms) : random_.between(20us, 2ms);
    const auto us = static_cast<std::uintptr_t>(std::chrono::duration_cast<std::chrono::microseconds>(takes).count());
    made(s, captured, [&] { return cuLaunchKernel(reinterpret_cast<CUfunction>(us / 10 * 10 << 4), 8, 1, 1, 32, 1, 1, 0, s.handle, nullptr, nullptr); });
  }
  template <class Call>
  void made(const Own& s, bool captured, Call call) {
    const std::uint64_t refused = gpu().refused();
    const std::uint32_t launch = gpu().asks(s.number, captured);
    const CUresult said = call();
    gpu().answered(launch, said);
    if (said != CUDA_SUCCESS && gpu().refused() == refused) Machine::the().wrong(fmt::format("a launch is refused ({}) that the driver does not refuse", static_cast<int>(said)));
  }

  void request() {
    const std::uint32_t n = 1 + random_.below(6);
    const bool captures = plan_.captures && random_.one_in(3);
    for (std::uint32_t i = 0; i < n; ++i) {
      const Own& s = streams_[random_.below(plan_.streams)];
      if (captures && i == 0)
        capture(s);
      else
        launch(s);
      if (random_.one_in(4)) os::sleep_for(random_.between(1us, 300us));
    }
    switch (random_.below(5)) {
      case 0: break;
      case 1: wait_for_all(); break;
      case 2:
        while (cuStreamQuery(streams_[0].handle) == CUDA_ERROR_NOT_READY) os::sleep_for(50us);
        break;
      default:
        for (const Own& s : streams_) cuStreamSynchronize(s.handle);
    }
  }

  void capture(const Own& s) {
    const std::uint64_t refused = gpu().refused();
    const CUresult begun = random_.one_in(2) ? cuStreamBeginCapture_v2(s.handle, CU_STREAM_CAPTURE_MODE_GLOBAL)
                                             : cuStreamBeginCaptureToGraph(s.handle, nullptr, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (begun != CUDA_SUCCESS) return;
    for (std::uint32_t i = 0; i < 3; ++i) launch(s, true);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUresult said = CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < 3 && said == CUDA_ERROR_UNKNOWN; ++i) said = cuStreamEndCapture(s.handle, &graph);
    if (said != CUDA_SUCCESS) {
      if (gpu().refused() == refused) Machine::the().wrong(fmt::format("a capture fails ({})", static_cast<int>(said)));
      return;
    }
    if (cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS) return;
    for (std::uint32_t i = 0; i < 2; ++i) made(s, false, [&] { return cuGraphLaunch(exec, s.handle); });
    cuStreamSynchronize(s.handle);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
  }

  void wait_for_all() {
    for (int i = 0; i < 3 && cuCtxSynchronize() != CUDA_SUCCESS; ++i) {
    }
  }

  const Plan plan_;
  std::uint32_t number_;
  Random random_;
  std::vector<Own> streams_;
  std::vector<Block> blocks_;
};

struct Workers {
  std::uint32_t at_work = 0;
};

}  // namespace

Plan any_plan(Random& random, const std::string& name, std::uint32_t units, bool one_block) {
  Plan p;
  p.name = name;
  p.real_time = random.one_in(3);
  p.threads = random.one_in(4) ? 2 : 1;
  p.streams = 1 + random.below(3);
  p.requests = 2 + random.below(8);
  p.begins = random.between(10ms, 500ms);  // who finds no service at its start has memory of its own
  p.resets = p.threads == 1 && random.one_in(6);
  p.captures = random.one_in(4);
  p.destroys = random.one_in(4);
  p.hangs = random.one_in(30);
  if (units != 0 && !random.one_in(4)) {
    p.blocks = one_block ? 1 : 1 + random.below(3);
    p.units = std::max(1u, units * 3 / 4 / p.blocks);
  }
  p.seed = random.next();
  return p;
}

std::shared_ptr<Process> begin_program(Stage& stage, const Plan& plan) {
  return stage.program(plan.name, plan.real_time, [plan] {
    os::sleep_for(plan.begins);
    for (int i = 0; i < 3 && cuInit(0) != CUDA_SUCCESS; ++i) {
    }
    auto& workers = os::of_process<Workers>();
    workers.at_work = plan.threads;
    for (std::uint32_t t = 1; t < plan.threads; ++t)
      Machine::the().start_thread([plan, t, &workers] {
        Worker(plan, t).run();
        --workers.at_work;
      });
    Worker(plan, 0).run();
    --workers.at_work;
    while (workers.at_work != 0) os::sleep_for(100us);
    if (const std::size_t left = Gpu::the().unfinished(Machine::the().process()->pid); left != 0)
      Machine::the().wrong(fmt::format("{} launches of {} are lost", left, plan.name));
    // What is freed in a capture is given back with the next block.
    if (!plan.captures && DeviceMemory::the().has_any(Machine::the().process()->pid)) Machine::the().wrong(plan.name + " has given back its memory, and some is kept");
  });
}

void live_as_child(Ns how_long) {
  if (Machine::the().plants.no_process_descriptors) return os::sleep_for(how_long);  // what the service makes of it is looked at
  const auto& self = *Machine::the().process();
  for (const auto& f : self.files)
    if (f != nullptr && f->kind == File::Kind::end && !f->over) Machine::the().wrong("a child has its parent's socket");
  if (live::Client::get() != nullptr || live::Client::last() != nullptr || live::Blocks::get() != nullptr) Machine::the().wrong("a child is steered");
  os::sleep_for(how_long);
}

void come_as_stranger(std::uint64_t seed) {
  Random random(seed);
  const std::uint32_t kind = static_cast<std::uint32_t>(seed % kStrangers);
  if (kind == 3) Machine::the().process()->uid = 1001;
  std::vector<int> more;
  for (std::uint32_t i = 0; kind == 5 && i < 40; ++i) more.push_back(os::socket(AF_UNIX, SOCK_STREAM, 0)), os::connect(more.back(), nullptr, 0);
  const int fd = os::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0 || os::connect(fd, nullptr, 0) != 0) return;
  live::Hello hello;
  std::memcpy(hello.name, "stranger", 9);
  std::size_t bytes = sizeof hello;
  if (kind == 0 || kind == 5) bytes = 0;
  if (kind == 1) bytes = 1 + random.below(sizeof hello - 1);
  if (kind == 2) hello.version += 1;
  if (kind == 4) hello.wish = live::Hello::Wish::state;
  if (bytes != 0) os::send(fd, &hello, bytes, MSG_NOSIGNAL);
  if (kind < 6) return os::sleep_for(random.between(1ms, 3s));  // and does not read what it is told

  live::Welcome welcome;
  iovec part{&welcome, sizeof welcome};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (os::recvmsg(fd, &message, MSG_WAITALL) != static_cast<ssize_t>(sizeof welcome) || welcome.accepted == 0 || message.msg_controllen == 0) return;
  int page = -1;
  std::memcpy(&page, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof page);
  void* at = os::mmap(nullptr, sizeof(live::Memory), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  if (at == MAP_FAILED) return;
  if (kind == 6) {
    os::ftruncate(page, random.one_in(2) ? 0 : static_cast<off_t>(sizeof(live::Memory) / 2));
    return os::sleep_for(random.between(1ms, 1s));
  }
  auto& m = *static_cast<live::Memory*>(at);
  for (std::uint32_t i = 0; i < 40; ++i) {  // the same again and again, out of its order, and any bytes
    const std::uint32_t n = m.said.load();
    live::Message& to = m.messages[n % live::kMessageRing];
    to = {static_cast<live::Message::What>(random.below(9)), random.below(3), random.below(12), random.below(4), random.below(8)};
    if (random.one_in(10)) to = {static_cast<live::Message::What>(random.next()), static_cast<std::uint32_t>(random.next()), static_cast<std::uint32_t>(random.next()), ~0u, ~0u};
    m.words.ended[random.below(3)].store(random.below(12));
    m.said.store(n + (random.one_in(20) ? 5000 : 1));
    os::send(fd, "", 1, MSG_DONTWAIT);
    os::sleep_for(random.between(1us, 2ms));
  }
}

}  // namespace corun::world
