#include "hw/process/worker.h"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/child.h"
#include "hw/process/messages.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using Json = nlohmann::json;

Message message(Kind kind) { return {static_cast<std::uint32_t>(kind), {}}; }
Message message(Kind kind, const Json& json) { return {static_cast<std::uint32_t>(kind), json.dump()}; }

class ToRun final : public Sink {
 public:
  explicit ToRun(Channel& channel) : channel_(channel) {}
  using Sink::record;
  void record(const KernelRecord& r) override { channel_.send(message(Kind::kernel).put(r)); }
  void record(const CopyRecord& r) override { channel_.send(message(Kind::copied).put(r)); }

 private:
  Channel& channel_;
};

Message next(Channel& channel) {
  for (;;) {
    if (auto m = channel.receive()) return *std::move(m);
    sched_yield();
  }
}

class Worker {
 public:
  Worker(Channel& channel, const Json& setup, const WorkerTools& tools)
      : channel_(channel),
        sink_(channel),
        verify_(setup.at("verify")),
        trace_(read_trace(Json::parse(setup.at("trace").get<std::string>()),
                          setup.at("file").get<std::string>())),
        driver_(tools.driver()),
        compiler_(tools.compiler(driver_->facts(), setup.at("store"))),
        work_(*driver_, *compiler_) {
    Gpu gpu;
    gpu.name = setup.at("gpu");
    gpu.sms = setup.at("sms"), gpu.sms_per_tpc = setup.at("sms_per_tpc");
    gpu.compute_capability_major = setup.at("major"), gpu.compute_capability_minor = setup.at("minor");
    gpu.memory_bytes = setup.at("memory_bytes");
    CudaOptions options;
    options.patience = Time{setup.at("patience_ps").get<std::int64_t>()};
    options.verify = verify_;
    options.part_of_gpu = setup.at("part_of_gpu");
    timeline_.attach(sink_);
    backend_ = std::make_unique<CudaBackend>(trace_, gpu, Requirements{{Capability::order}}, timeline_, work_,
                                             options);
  }

  /// False: to quit.
  bool handle(const Message& m) {
    std::size_t at = 0;
    switch (static_cast<Kind>(m.kind)) {
      case Kind::start: {
        backend_->start();
        const auto now =
            std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
        channel_.send(message(Kind::started).put(now));
        return true;
      }
      case Kind::launch:
      case Kind::copy:
        submit(m);
        return true;
      case Kind::allocate:
        allocate(m.take<Allocated>(at));
        return true;
      case Kind::freed:
        backend_->freed(m.take<BufferId>(at));
        return true;
      case Kind::close:
        close();
        return true;
      default:
        return false;
    }
  }

  void look() {
    notices_.clear();
    backend_->wait(Time{}, notices_);
    for (const Notice& n : notices_) {
      LaunchId id;
      if (const auto* kernel = std::get_if<KernelFinished>(&n))
        id = kernel->launch;
      else if (const auto* copy = std::get_if<CopyFinished>(&n))
        id = copy->launch;
      else
        continue;
      uses_.erase(id.serial);
      channel_.send(message(Kind::finished).put(id).put(std::holds_alternative<CopyFinished>(n)));
    }
    driver_->pause();
  }

 private:
  void submit(const Message& m) {
    std::size_t at = 0;
    const auto s = m.take<Submitted>(at);
    LaunchView l;
    l.id = s.launch, l.client = s.client, l.stream = s.stream, l.op = s.op, l.request = s.request;
    l.operation = &trace_.programs[trace_.clients.at(s.client.value).program.value].ops.at(s.op.value);
    std::vector<LaunchId> follows;
    for (std::uint32_t i = 0; i < s.follows; ++i) follows.push_back(m.take<LaunchId>(at));
    std::vector<BufferId>& uses = uses_[s.launch.serial];
    for (std::uint32_t i = 0; i < s.uses; ++i) uses.push_back(m.take<BufferId>(at));
    l.uses = uses;
    Outcome outcome;
    if (static_cast<Kind>(m.kind) == Kind::copy) {
      outcome = backend_->copy(l, follows);
    } else {
      l.kernel_id = s.kernel;
      l.kernel = &trace_.kernels.at(s.kernel.value);
      outcome = backend_->apply(decide::Launch{s.launch, s.priority, {}, 0, {}}, l, follows);
    }
    check(outcome);
  }

  void allocate(const Allocated& a) {
    LaunchView what;
    what.client = a.client, what.bytes = a.bytes, what.uses = {&a.buffer, 1};
    if (!a.first)
      what.operation = &trace_.programs[trace_.clients.at(a.client.value).program.value].ops.at(a.op.value);
    check(backend_->apply(decide::Allocate{}, what, {}));
  }

  static void check(const Outcome& outcome) {
    if (const auto* refused = std::get_if<Refused>(&outcome))
      throw DriverError("what the run had decided was refused: " + refused->reason);
  }

  void close() {
    backend_->close();
    timeline_.flush();
    Json told{{"blocks", backend_->blocks_run()}, {"wrong", Json::array()}, {"verified", 0}};
    if (verify_) {
      told["wrong"] = backend_->verify();
      told["verified"] = backend_->kernels_verified();
    }
    channel_.send(message(Kind::closed, told));
  }

  Channel& channel_;
  ToRun sink_;
  bool verify_;
  Trace trace_;
  std::unique_ptr<Driver> driver_;
  std::unique_ptr<Compiler> compiler_;
  Workbench work_;
  Timeline timeline_;
  std::unordered_map<std::uint32_t, std::vector<BufferId>> uses_;  // by LaunchId::serial
  std::vector<Notice> notices_;
  std::unique_ptr<CudaBackend> backend_;
};

}  // namespace

int serve(Channel& channel, const WorkerTools& tools) {
  std::unique_ptr<Worker> worker;  // ends after it has told why: what it leaves on the GPU may take time
  try {
    const Message first = next(channel);
    if (static_cast<Kind>(first.kind) == Kind::count_sms) {
      channel.send(message(Kind::ready).put(tools.driver()->facts().sms));
      return 0;
    }
    worker = std::make_unique<Worker>(channel, Json::parse(first.bytes), tools);
    channel.send(message(Kind::ready));
    for (std::uint32_t idle = 0;; ++idle) {
      bool told = false;
      while (auto m = channel.receive()) {
        told = true;
        if (!worker->handle(*m)) return 0;
      }
      worker->look();
      if (told) idle = 0;
      if (idle % 64 == 63) sched_yield();
    }
  } catch (const InputError& e) {
    channel.send(message(
        Kind::failed,
        {{"file", e.file()}, {"place", e.place()}, {"problem", e.problem()}, {"remedy", e.remedy()}}));
    return 2;
  } catch (const std::exception& e) {
    channel.send(message(Kind::failed, {{"what", e.what()}}));
    return 3;
  }
}

std::vector<std::string> worker_command() { return {"/proc/self/exe", "corun-worker"}; }
bool is_worker(int argc, char** argv) { return argc == 2 && std::string(argv[1]) == "corun-worker"; }

int worker_main() {
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is for the run, which ends us in good order
  Channel channel(Child::kDescriptor, Channel::End::worker);
  return serve(channel, {[] { return open_cuda(); },
                         [](const DeviceFacts& f, const std::string& store) {
                           return open_nvrtc(fmt::format("sm_{}{}", f.capability_major, f.capability_minor),
                                             store);
                         }});
}

}  // namespace corun::hw
