// Measurements of the backend's mechanisms on a real GPU, one job each; results as JSON, raw samples
// included.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hw/kernels/workbench.h"

namespace corun::hw {

using Json = nlohmann::ordered_json;

struct Bench {
  Driver& driver;
  Workbench& work;
  std::uint32_t scale = 1;        // more repeats
  std::vector<std::string> only;  // kernels; empty: all
  std::string trace{};            // of the jobs solo and ptx
  std::string out{};              // the folder for results

  bool wants(const std::string& kernel) const {
    return only.empty() || std::find(only.begin(), only.end(), kernel) != only.end();
  }
};

/// Every kernel of the library, plain and persistent: time, registers, results bit by bit.
Json measure_overhead(Bench& bench);
/// Results of runs that were resized, stopped and resumed, against the plain kernel's, bit by bit.
Json measure_identity(Bench& bench);
/// From the request to stop to the next kernel running.
Json measure_preemption(Bench& bench);
/// %smid of every block under partitions and quotas.
Json measure_partitions(Bench& bench);

/// The backend under a session: a client that stops another, whose queue is long.
Json measure_backend(Bench& bench);
/// The kernels of a trace alone.
Json measure_solo(Bench& bench);
/// Padded launches: time, blocks beside, results bit by bit.
Json measure_padding(Bench& bench);
/// Kernels made persistent from their PTX: results bit by bit, stops, quotas, time.
Json measure_ptx(Bench& bench);

double median(std::vector<double> samples);
double quantile(std::vector<double> samples, double q);
/// n, p10, p50, p90, p99, max and, if `raw`, the samples themselves.
Json summary(const std::vector<double>& samples, bool raw = true);

/// Controls in device memory, zeroed together.
class Controls {
 public:
  Controls(Driver& driver, std::uint32_t count);
  ~Controls();
  void clear(Stream s);
  DevicePointer at(std::uint32_t i) const { return base_ + i * sizeof(Control); }
  DevicePointer progress(std::uint32_t i) const { return words_.device + sizeof(Progress) * i; }
  volatile std::uint32_t& progress_word(std::uint32_t i) {
    return static_cast<volatile Progress*>(words_.host)[i].taken;
  }
  Control read(std::uint32_t i, Stream s);
  void put(std::uint32_t i, const Control& c, Stream s);
  std::uint32_t count() const { return count_; }

 private:
  Driver& driver_;
  std::uint32_t count_;
  DevicePointer base_;
  HostMemory words_;
};

}  // namespace corun::hw
