// Runs the kernels of launch_kernels.cuh and client_kernel.cuh and reads what they note.  Times are
// microseconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hw/calibrate/device_records.h"
#include "hw/driver/compiler.h"
#include "hw/driver/driver.h"

namespace corun::hw {

using Samples = std::vector<double>;
double median(Samples samples);

/// Device memory that goes with its owner.
class DeviceArray {
 public:
  DeviceArray(Driver& driver, std::size_t bytes) : driver_(driver), at_(driver.allocate(bytes)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { driver_.free(at_); }
  DevicePointer at() const { return at_; }

 private:
  Driver& driver_;
  DevicePointer at_;
};

/// Blocks that stay on their SMs and work side by side with those of other clients.
struct Load {
  const char* kernel = nullptr;  // of entries.cuh
  double amount = 0;             // of a warp's unit of work
  std::uint32_t per_sm = 1, threads = 256;
  DevicePointer data = 0;
  std::uint64_t bytes = 0;
  std::uint32_t stride = 128;                // of a chain
  std::int32_t idle_cycles = 0;              // of a warp, after each chunk
  std::vector<std::uint32_t> sms = {};       // empty: all
};
struct LoadRate {
  double per_us = 0;  // amount
  double mhz = 0;
};

class Bench {
 public:
  Bench(Driver& driver, Compiler& compiler, const std::atomic<bool>& interrupted);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Driver& driver() { return driver_; }
  const DeviceFacts& facts() const { return facts_; }
  /// To be called first: an idle GPU runs at a low clock.
  void raise_clock();
  /// Throws Interrupted once the user has had enough.
  void check_interrupt() const;

  double now_us() { return to_ns(driver_.now()) * 1e-3; }
  void wait_us(double us);
  void wait_until(double host_us);
  /// False where the condition did not come true in time.
  bool wait_for(const std::function<bool()>& condition, double limit_us);

  Function function(std::string_view entry);
  /// Blocks of 256 threads that an SM holds at once, of at most eight: four on 7.5, six on 8.6 and 8.9.
  std::uint32_t blocks_of_256() { return std::min(8u, driver_.blocks_per_sm(function("body"), 256, 0)); }
  /// Of another driver, which loads the code anew.
  Function function_in(Driver& other, const std::string& entry) const { return other.load(code_, entry); }
  /// Of streams that live as long as the bench.
  Stream stream(std::size_t i);
  Stream urgent_stream();
  void synchronize_all();

  template <class... Arguments>
  void launch(const char* entry, std::uint32_t blocks, std::uint32_t threads, std::uint32_t shared, Stream s,
              Arguments... arguments) {
    void* const pointers[] = {static_cast<void*>(&arguments)..., nullptr};
    driver_.launch(function(entry), {blocks, 1, 1}, {threads, 1, 1}, shared, s,
                   {pointers, sizeof...(arguments)});
  }
  /// One thread of a block spins for `us` and notes when, where there are stamps.
  void body(Stream s, std::uint32_t blocks, std::uint32_t threads, DevicePointer stamps, double us);
  std::int64_t cycles(double us) const { return static_cast<std::int64_t>(us * cycles_per_us_); }

  template <class Record>
  std::vector<Record> read(DevicePointer at, std::size_t count) {
    std::vector<Record> records(count);
    read_bytes(at, records.data(), count * sizeof(Record));
    return records;
  }
  void fill(DevicePointer at, std::uint8_t value, std::size_t bytes);
  /// Time between two events around what `calls` puts into the stream, with the stream held meanwhile.
  double held_us(Stream s, const std::function<void()>& calls);

  /// Holds a stream from now until it is opened, never longer than the limit.
  void hold(Stream s, double limit_us = 500e3);
  void open_gate();
  /// From a host's store until it sees the GPU's answer.
  Samples round_trips(std::uint32_t rounds);
  /// Pauses of over 20 us that a kernel of one thread sees in `us`.
  std::vector<Pause> pauses(double us);

  /// Clients start in order, 200 us apart; `settle_us` later comes the window.  `meanwhile` is called in
  /// between.
  std::vector<LoadRate> run_together(const std::vector<Load>& clients, double window_us,
                                    double settle_us = 400, const std::function<void()>& meanwhile = {});
  /// Amount per us of a client alone, several times.
  Samples rates(const Load& client, double window_us, double settle_us = 400, int repeats = 5);

  /// Most of what a bench needs: a power of two, at most a quarter of what is free.
  std::uint64_t buffer_bytes() const { return buffer_bytes_; }
  DevicePointer buffer();
  void make_chain(DevicePointer at, std::uint32_t count, std::uint32_t stride);

 private:
  void read_bytes(DevicePointer from, void* to, std::size_t bytes);

  Driver& driver_;
  Compiler& compiler_;
  const std::atomic<bool>& interrupted_;
  DeviceFacts facts_;
  std::string code_;
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<Stream> streams_;
  Stream urgent_;
  Event from_, to_;
  HostMemory page_;
  DeviceArray scratch_;
  std::uint64_t buffer_bytes_ = 0;
  DevicePointer buffer_ = 0;
  double cycles_per_us_ = 1000;
};

}  // namespace corun::hw
