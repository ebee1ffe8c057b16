// What a run on a GPU asks of a backend beside decisions: CudaBackend in this process, ProcessBackend in
// several.
#pragma once

#include <string>
#include <vector>

#include "policies/api/backend.h"

namespace corun::hw {

class MeasuredBackend : public Backend {
 public:
  void start() override = 0;
  /// Takes everything off the GPU and waits until it is.
  void close() override = 0;
  /// After close(): what is wrong with the results of kernels that ended, one line each.
  virtual std::vector<std::string> verify() = 0;
  virtual std::uint64_t kernels_verified() const = 0;
  virtual std::uint64_t moves_verified() const { return 0; }
  virtual std::uint64_t blocks_run() const = 0;
  /// Why a client was told to be lost, as far as is known beyond that.
  virtual std::string why_lost(ClientId) const { return {}; }
};

}  // namespace corun::hw
