// Library kernels on a device: compiled in the variants that are asked for, with buffers of their own for
// each user, launched plainly or as persistent workers, and checked.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hw/driver/compiler.h"
#include "hw/driver/driver.h"
#include "hw/kernels/library.h"
#include "hw/transform/launch_parameters.h"
#include "hw/transform/transform.h"

namespace corun::hw {

/// How a persistent kernel takes its blocks.
struct Taking {
  std::uint32_t chunk = 1;  // consecutive blocks at a time
  bool prefetch = false;    // take the next chunk while one runs; what is taken is done before a stop
  bool operator==(const Taking&) const = default;
};

/// Blocks of 5 us or more one at a time, shorter ones up to eight: a stop is delayed by less than 25 us.
Taking taking_for(std::uint64_t blocks, std::uint32_t workers, Time solo);

/// Of a launch that is to do the blocks [first, end): the last ones singly, so that all workers end together.
LaunchParameters launch_parameters(std::uint32_t first, std::uint32_t end, const Taking& taking,
                                   std::uint32_t workers);

struct Plain {
  Function function;
  FunctionFacts facts;
  std::uint32_t blocks_per_sm = 0;
};
struct Persistent {
  Function function, located;  // located: the plain grid, which logs where its blocks ran; only if logged
  FunctionFacts facts;
  std::uint32_t workers_per_sm = 0;
};

/// A kernel's buffers and arguments.
class Instance {
 public:
  Instance(Driver& driver, const LibraryKernel& kernel);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const LibraryKernel& kernel() const { return kernel_; }
  DevicePointer buffer(std::uint32_t i) const { return buffers_[i]; }
  /// As cuLaunchKernel takes them, room for one more at the end.
  std::vector<void*> parameters();

 private:
  Driver& driver_;
  const LibraryKernel& kernel_;
  std::vector<DevicePointer> buffers_;
  std::vector<std::uint64_t> values_;
};

class Workbench {
 public:
  Workbench(Driver& driver, Compiler& compiler);
  ~Workbench();

  Driver& driver() { return driver_; }
  const Plain& plain(const LibraryKernel& k);
  const Persistent& persistent(const LibraryKernel& k, const Taking& taking, bool logged = false);
  const Traits& traits(const LibraryKernel& k);
  /// A kernel of fill.cu.
  Function tool(const std::string& entry);

  /// Fills inputs, poisons outputs; done when it returns.
  void prepare(Instance& instance, std::uint32_t seed, Stream s);
  void poison(Instance& instance, std::uint8_t value, Stream s);
  /// Of all outputs, for comparing runs bit by bit.
  std::uint64_t digest(Instance& instance, Stream s);
  /// What is wrong with the outputs, by the host's reference, or empty.
  std::string check(Instance& instance, std::uint32_t seed, Stream s);

  void launch(Instance& instance, Stream s);
  /// `workers` blocks; parameters.control and the rest as given, the grid filled in.
  void launch(Instance& instance, const Persistent& how, std::uint32_t workers, LaunchParameters parameters,
              Stream s);

 private:
  struct Code {
    std::unique_ptr<Plain> plain;
    std::unique_ptr<Transformed> transformed;
    std::map<std::array<bool, 3>, std::unique_ptr<Persistent>> persistent;  // prefetch, chunked, logged
  };
  Driver& driver_;
  Compiler& compiler_;
  std::map<const LibraryKernel*, Code> code_;
  std::string tools_;
  DevicePointer sum_ = 0;
};

}  // namespace corun::hw
