#include "tests/hw/world/stage.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "hw/live/wire.h"
#include "tests/support/build.h"
#include "traces/json/temporary_folder.h"
#include "traces/model/error.h"

namespace corun::world {
namespace {

/// One for all stages of a process: a service leaves one that was there, and to make one waits for a disk.
const std::filesystem::path& folder() {
  static const TemporaryFolder only("world");
  static const bool own = [] {
    std::filesystem::permissions(only.path(), std::filesystem::perms::owner_all);
    return true;
  }();
  (void)own;
  return only.path();
}

}  // namespace

Stage::Stage(std::uint64_t seed) : machine(seed), gpu(machine) {
  machine.each_step([this] { gpu.look(); });
}

void Stage::serve(const std::string& policy, const live::BooksOptions& options, bool records, std::function<bool(const std::string&)> fails) {
  served = machine.begin("service", [this, policy, options, records, fails = std::move(fails)] {
    try {
      service_ = std::make_unique<live::Service>(policy, sim::small_gpu(4), folder(), options);
      service_->of_gpu(bus);
      if (records) service_->record();
      service_->run([] { return false; }, [](const std::string&) {});
    } catch (const InputError& e) {
      if (fails == nullptr || !fails(e.what())) machine.wrong(std::string("the service does not begin: ") + e.what());
    }
  });
  served->at_end = [this, of = served.get()] {
    constexpr std::size_t kBytes = offsetof(live::Memory, words);  // all that destructors write of a page
    std::vector<std::pair<void*, std::vector<char>>> before;
    for (const auto& [at, files] : of->mapped) before.emplace_back(at, std::vector<char>(static_cast<char*>(at), static_cast<char*>(at) + kBytes));
    service_.reset();
    for (const auto& [at, bytes] : before) std::memcpy(at, bytes.data(), kBytes);
  };
}

std::shared_ptr<Process> Stage::program(const std::string& name, bool real_time, std::function<void()> run) {
  auto process = machine.begin(name, std::move(run));
  process->environment = {{"CORUN_SERVICE", "socket"}, {"CORUN_NAME", name}, {"CORUN_CLASS", real_time ? "real_time" : "best_effort"}};
  if (real_time) process->environment["CORUN_PRIORITY"] = "-3";
  return process;
}

bool Stage::comes(const std::function<bool()>& so, Ns at_most) {
  for (const Ns until = machine.now() + at_most; machine.now() < until && machine.wrong().empty(); machine.idle_until(std::min(until, machine.now() + 1ms)))
    if (so()) return true;
  return so();
}

CUresult launch(Ns takes, CUstream handle, std::uint32_t stream) {
  const std::uint32_t launch = Gpu::the().asks(stream);
  const auto us = static_cast<std::uintptr_t>(std::chrono::duration_cast<std::chrono::microseconds>(takes).count());
  const CUresult said = cuLaunchKernel(reinterpret_cast<CUfunction>(us << 4), 8, 1, 1, 32, 1, 1, 0, handle, nullptr, nullptr);
  Gpu::the().answered(launch, said);
  return said;
}

}  // namespace corun::world
