// A listener hears what books are told and decide; a recording is one.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/api/decision.h"
#include "policies/api/notice.h"
#include "traces/model/kernel.h"
#include "traces/model/time.h"

namespace corun::live {

struct ClientOptions;
struct Granted;

class BooksListener {
 public:
  enum class What : std::uint8_t {
    kernel,
    join,
    leave,
    asked,
    ended,
    failed,
    waits,
    standing,
    decide,
    granted,
    foretold,
    stop,
    stopped,
    resize
  };
  /// A program's message about its memory; touched: by calls.
  struct OfMemory {
    enum class What : std::uint8_t { allocates, frees, moved, wants, has, touched } what;
    std::uint32_t client = 0, block = 0, generation = 0;  // block: of wants and has the number
    std::uint64_t bytes = 0;                              // of moved: whether it was done
  };

  virtual ~BooksListener() = default;
  virtual void joined(const ClientOptions& client_options) = 0;
  virtual void asked(std::uint32_t client, std::uint32_t stream, std::uint32_t number, const Kernel& kernel, Time now,
                     std::uint32_t attempts) = 0;
  virtual void stopped(std::uint32_t client, std::uint32_t stream, std::uint32_t number, std::uint32_t blocks, Time now) = 0;
  virtual void happened(What what, std::uint32_t client, std::uint32_t stream = 0, std::uint32_t number = 0, Time now = {}) = 0;
  virtual void memory(const OfMemory& event, Time now) = 0;
  virtual void told(Time now, const std::vector<Notice>& notices) = 0;
  virtual void decided(const Decision& decision) = 0;
  virtual void granted(const Granted& launch, Time now) = 0;
};

}  // namespace corun::live
