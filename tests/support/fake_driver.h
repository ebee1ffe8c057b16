// A GPU driver in virtual time that runs one kernel, hw/kernels/spin.cu, plainly and as persistent workers:
// for the backend's host logic.  A microsecond passes at each pause().
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "hw/driver/compiler.h"
#include "hw/driver/driver.h"
#include "hw/transform/launch_parameters.h"

namespace corun::hw {

class FakeCompiler final : public Compiler {
 public:
  std::string compile(const std::string& source, const std::string&,
                      const std::vector<std::string>&) override {
    return source;
  }
};

class FakeDriver final : public Driver {
 public:
  ~FakeDriver() override;

  // What tests look at and change.
  bool hangs = false;                                // kernels never end
  std::uint32_t sound_launches = ~std::uint32_t{0};  // kernels launched after these never end
  std::uint32_t lost_launches = 0;                   // how many kernels to come end at once, with nothing done
  std::uint32_t crowded_grids = 0;                   // how many grids of workers with seats to come are crowded:
  std::uint32_t crowded_seats = 0;                   // workers of each that find a seat
  std::uint32_t seated_grids = 0;                    // that have been launched
  std::uint32_t writes = 0;                          // of the GPU's front end, tickets not counted
  std::size_t left() const {
    return memory_.size() + streams_.size() + events_.size() + partitions_ + reserved_.size() +
           graphs_.size();
  }
  std::vector<std::size_t> partition_sizes;
  std::uint64_t memory_bytes = std::uint64_t{1} << 32;  // behind reserved addresses
  std::uint64_t most_backed = 0;
  std::uint64_t backed_bytes() const;
  bool loses_memory = false;  // a copy to the device changes one byte
  bool notes_sms = true;      // blocks of clusters say where they run: GPCs of 16 SMs
  /// What a kernel of another entry does when its turn comes, again at each step until it has ended.  Asked
  /// at the launch, or when a graph is captured.
  using Kernel = std::function<bool()>;
  struct Asked {
    const std::string& entry;
    Dim3 grid;
    std::span<void* const> parameters;

    template <class T>
    T parameter(std::size_t i) const {
      return *static_cast<const T*>(parameters[i]);
    }
  };
  std::function<Kernel(const Asked&)> other_kernels;

  DeviceFacts facts() const override;
  Time now() override { return now_; }
  void pause() override { step(); }
  Function load(std::string_view code, const std::string& entry) override;
  FunctionFacts facts(Function) override { return {16, 0, 0, 1024}; }
  void allow_shared_memory(Function, std::uint32_t) override {}
  std::uint32_t blocks_per_sm(Function, std::uint32_t threads, std::uint32_t) override {
    return 2048 / threads;
  }
  std::uint32_t sm_groups() override { return 66; }
  Partition partition(std::span<const std::uint32_t> groups) override;
  void destroy(Partition) override { --partitions_; }
  Stream stream(std::int32_t priority, Partition p) override;
  void destroy(Stream s) override { streams_.erase(s.value); }
  void launch(Function f, Dim3 grid, Dim3 block, std::uint32_t, Stream s,
              std::span<void* const> parameters) override;
  void write(Stream s, DevicePointer at, std::uint32_t value) override;
  void write(Stream s, std::span<const std::pair<DevicePointer, std::uint32_t>> all) override;
  void copy_to_device(Stream s, DevicePointer to, const void* from, std::size_t bytes) override;
  void copy_to_host(Stream s, void* to, DevicePointer from, std::size_t bytes) override;
  void copy_on_device(Stream s, DevicePointer to, DevicePointer from, std::size_t bytes) override;
  void fill(Stream s, DevicePointer at, std::uint8_t value, std::size_t bytes) override;
  Graph capture(Stream s, const std::function<void()>& calls) override;
  void launch(Graph g, Stream s) override;
  void destroy(Graph g) override { graphs_.erase(g.value); }
  void synchronize(Stream s) override;
  bool idle(Stream s) override { return streams_.at(s.value).work.empty(); }
  Event event() override;
  void destroy(Event e) override { events_.erase(e.value); }
  void record(Event e, Stream s) override;
  void wait(Stream s, Event e) override;
  double milliseconds(Event from, Event to) override {
    return to_ns(events_.at(to.value).at - events_.at(from.value).at) / 1e6;
  }
  std::size_t memory_unit() override { return 4096; }
  std::uint64_t memory_free() override { return memory_bytes - backed_bytes(); }
  DevicePointer reserve(std::size_t bytes) override;
  void unreserve(DevicePointer at, std::size_t bytes) override;
  void back(DevicePointer at, std::size_t bytes) override;
  void unback(DevicePointer at, std::size_t bytes) override;
  DevicePointer allocate(std::size_t bytes) override;
  void free(DevicePointer p) override { memory_.erase(p); }
  HostMemory allocate_host(std::size_t bytes) override;
  void free(const HostMemory& m) override { memory_.erase(m.device); }

 private:
  using Work = std::function<bool()>;  // called at each step while at the head; true: it has ended
  struct StreamState {
    std::uint32_t first_group = 0;
    std::deque<Work> work;
  };
  struct EventState {
    std::uint64_t recorded = 0, reached = 0;
    Time at{};
  };
  void step();
  void queue(Stream s, Work work);
  void now_or_later(Stream s, std::function<void()> what);
  void padded(Stream s, std::uint32_t workers, std::span<void* const> parameters);
  Work persistent(const LaunchParameters& p, std::uint32_t workers, std::uint32_t* out, std::uint32_t ns);

  Time now_{};
  std::uint64_t next_ = 1;
  std::size_t partitions_ = 0;
  std::map<std::uint64_t, StreamState> streams_;
  std::map<std::uint64_t, EventState> events_;
  std::map<std::uint64_t, std::vector<Work>> graphs_;
  std::vector<Work>* capturing_ = nullptr;
  std::map<DevicePointer, std::unique_ptr<char[]>> memory_;
  std::map<DevicePointer, std::size_t> reserved_, backed_;
  std::map<std::uint64_t, std::string> functions_;
  std::map<std::uint64_t, std::uint32_t> first_group_;  // by partition
};

}  // namespace corun::hw
