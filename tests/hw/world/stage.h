// A machine with a GPU and a service, and programs that a test writes: what befalls them it says itself.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hw/live/service.h"
#include "tests/hw/world/device_memory.h"
#include "tests/hw/world/gpu.h"
#include "tests/hw/world/machine.h"

namespace corun::world {

class Stage {
 public:
  explicit Stage(std::uint64_t seed = 1);
  ~Stage() { machine.end_all(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// It begins at once.  `fails`: it could not; else the world is wrong.
  void serve(const std::string& policy, const live::BooksOptions& options = {}, bool records = false, std::function<bool(const std::string&)> fails = {});
  /// And programs find it.
  void serve_now(const std::string& policy, const live::BooksOptions& options = {}) {
    serve(policy, options);
    comes([this] { return service_ != nullptr; });
  }
  /// What is killed writes nothing more.
  void kill_service() { machine.kill(served); }
  /// Null: there is none.
  live::Service* service() { return service_.get(); }
  /// As `sim run` starts it: named, and of a class.
  std::shared_ptr<Process> program(const std::string& name, bool real_time, std::function<void()> run);

  void run_for(Ns how_long) { machine.idle_until(machine.now() + how_long); }
  /// Looks each millisecond, for so long at most.
  bool comes(const std::function<bool()>& so, Ns at_most = 60s);
  std::size_t programs() const { return service_ != nullptr ? service_->programs() : 0; }

  std::string bus;  // of the service's GPU; empty: it does not say
  Machine machine;
  Gpu gpu;
  DeviceMemory memory;
  std::shared_ptr<Process> served;

 private:
  std::unique_ptr<live::Service> service_;
};

/// By a thread of a program: a kernel of so long.  `stream`: as the ledger numbers it.
CUresult launch(Ns takes, CUstream handle = nullptr, std::uint32_t stream = 0);

}  // namespace corun::world
