// Library kernels on a device: compiled in the variants that are asked for, with buffers of their own for
// each user, launched plainly or as persistent workers, and checked.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
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
  bool once = false;        // each worker takes one chunk: as many workers as chunks
  bool seated = false;      // an SM may be given a number of workers
  bool operator==(const Taking&) const = default;
};

/// Of workers that stay, blocks of 5 us or more are taken one at a time, shorter ones up to eight.  The same
/// body is compiled better one time with the next chunk taken ahead, one time without: both are to be tried.
std::vector<Taking> sized_takings_for(std::uint64_t blocks, std::uint32_t workers, Time solo,
                                      bool seated = false);
/// What may be fastest where nobody asks for a number of workers: workers that stay, and those that do not. A
/// stop waits for one block, of short ones for 25 us at most.
std::vector<Taking> stoppable_takings_for(std::uint64_t blocks, std::uint32_t workers, Time solo);

/// Of a launch that is to do the blocks [first, end): the last ones singly, so that all workers end together.
LaunchParameters launch_parameters(std::uint32_t first, std::uint32_t end, const Taking& taking,
                                   std::uint32_t workers);

/// Workers to launch where `workers` fit.
std::uint32_t workers_of(const LaunchParameters& p, const Taking& taking, std::uint32_t workers);

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

/// Two kernels as one grid (hw/transform/padding.h).
struct Padded {
  Function function;
  FunctionFacts facts;
  std::uint32_t threads = 0, dynamic_shared_bytes = 0, workers_per_sm = 0;
};

struct Way {
  Taking taking;
  const Persistent* code = nullptr;
};

/// A kernel's buffers and arguments.
class Instance {
 public:
  Instance(Driver& driver, const LibraryKernel& kernel);
  /// With its buffers in memory of others.
  Instance(Driver& driver, const LibraryKernel& kernel, std::vector<DevicePointer> buffers);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const LibraryKernel& kernel() const { return kernel_; }
  DevicePointer buffer(std::uint32_t i) const { return buffers_[i]; }
  /// As cuLaunchKernel takes them, room for one more at the end.
  std::vector<void*> parameters();
  /// As one structure of them in order.
  std::vector<char> packed() const;

 private:
  Driver& driver_;
  const LibraryKernel& kernel_;
  void set_arguments();
  bool owns_ = true;
  std::vector<DevicePointer> buffers_;
  std::vector<std::uint64_t> values_;
};

class Workbench {
 public:
  Workbench(Driver& driver, Compiler& compiler);
  ~Workbench();

  Driver& driver() { return driver_; }
  /// Device code for a trace's kernel: the library's of that name, or what the trace names.  Throws
  /// InputError where there is none, or it does not fit.
  const LibraryKernel& device_kernel(const Kernel& kernel);
  const Plain& plain(const LibraryKernel& k);
  const Persistent& persistent(const LibraryKernel& k, const Taking& taking, bool logged = false);
  const Traits& traits(const LibraryKernel& k);
  /// `once`: a worker takes one block of the first, so that there must be one for each.  Throws InputError
  /// where one of them cannot be rewritten.
  const Padded& padded(const LibraryKernel& first, const LibraryKernel& second, bool once);
  /// Whether the kernel is faster without a loop around its body; tried at first use.
  bool faster_once(Instance& instance, std::uint32_t sms, Stream s);
  /// A kernel of fill.cu.
  Function tool(const std::string& entry);

  /// Fills inputs, poisons outputs; done when it returns.
  void prepare(Instance& instance, std::uint32_t seed, Stream s);
  void poison(Instance& instance, std::uint8_t value, Stream s);
  /// One buffer: its input, or poison; when the stream gets there.
  void fill(Instance& instance, std::uint32_t buffer, std::uint32_t seed, Stream s);
  void fill_words(DevicePointer at, std::uint64_t words, std::uint32_t seed, Stream s);
  /// Of all outputs, for comparing runs bit by bit.
  std::uint64_t digest(Instance& instance, Stream s);
  std::uint64_t digest(DevicePointer at, std::uint64_t bytes, Stream s);
  /// What is wrong with the outputs, by the host's reference, or empty.
  std::string check(Instance& instance, std::uint32_t seed, Stream s);

  /// Of these, the one that is fastest here.
  Way fastest(Instance& instance, std::span<const Taking> takings, std::uint32_t sms, Stream s);
  /// A kernel's buffers for one user, with inputs of this seed and what a plain launch makes of them.  Made
  /// and checked at first use; outputs are poisoned at each.  Throws DriverError if the host finds them
  /// wrong.
  struct Prepared {
    std::unique_ptr<Instance> instance;
    std::uint64_t expected = 0;
  };
  Prepared& prepared(const LibraryKernel& k, std::uint32_t seed, Stream s);
  /// Gives back the buffers of all of them.
  void forget_prepared() { prepared_.clear(); }

  /// The SMs of these groups; kept, since making one takes a millisecond.
  Partition partition(const std::vector<std::uint32_t>& groups);
  /// By TPC: the driver's group of its SMs, asked of a block in each.
  const std::vector<std::uint32_t>& group_of_tpc(std::uint32_t tpcs, std::uint32_t sms_per_tpc);

  void launch(Instance& instance, Stream s);
  /// `workers` blocks; parameters.control and the rest as given, the grid filled in.
  void launch(Instance& instance, const Persistent& how, std::uint32_t workers, LaunchParameters parameters,
              Stream s);
  void launch(Instance& first, Instance& second, const Padded& how, std::uint32_t workers,
              PaddedParameters parameters, Stream s);

 private:
  struct Code {
    std::unique_ptr<Plain> plain;
    std::unique_ptr<Transformed> transformed;
    // By prefetch, chunked, logged, once, seated.
    std::map<std::array<bool, 5>, std::unique_ptr<Persistent>> persistent;
  };
  const std::string& compiled(const std::string& text, const std::string& file,
                              const std::vector<std::string>& options);

  Function loaded(const std::string& code, const std::string& entry, std::uint32_t dynamic_bytes);
  void add_digest(DevicePointer at, std::uint64_t bytes, Stream s);
  std::uint64_t read_digest(Stream s);

  Driver& driver_;
  Compiler& compiler_;
  std::map<const LibraryKernel*, Code> code_;
  std::map<std::tuple<const std::string*, std::string, std::uint32_t>, Function> loaded_;  // by code, entry
  std::map<std::pair<std::string, std::vector<std::string>>, std::string> compiled_;
  std::map<std::string, std::unique_ptr<LibraryKernel>> named_by_traces_;
  std::map<std::string, Padded> padded_;
  std::map<const LibraryKernel*, bool> faster_once_;
  std::map<std::pair<const LibraryKernel*, std::uint32_t>, Prepared> prepared_;
  std::map<std::vector<std::uint32_t>, Partition> partitions_;
  std::vector<std::uint32_t> group_of_tpc_;
  std::string tools_;
  DevicePointer sum_ = 0;
  HostMemory published_;
  bool summing_ = false;
};

}  // namespace corun::hw
