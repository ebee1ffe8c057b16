// What launches lose to each other, by resource: of each SM it knows which blocks share it since when, and what
// share of their time each resource costs them (`lost_shares`).  It looks only; rates are as without it.
//
// A launch's shares are means over the time of its blocks.  Its own time, from the first block's start to the last
// one's end, is divided by them.  What a slower clock and an L2 that others have filled cost it from its start on
// is a share of what is left.  Of the rest the time that it takes alone is its own, and what is beyond was for
// want of places.
//
// Leaves out: that the slowest blocks, not the mean, set a launch's end.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "sim/engine/latest_table.h"
#include "sim/model/lost_time.h"
#include "sim/stages/task.h"
#include "traces/model/gpu.h"
#include "traces/timeline/timeline.h"

namespace corun::sim {

class LossMeter {
 public:
  /// Blocks of one launch on an SM.
  struct Row {
    WorkId work;
    std::uint32_t count;
    bool judged;  // under the pressure that was judged last; else as alone
  };

  explicit LossMeter(const Gpu& gpu);

  void began(WorkId id, const Work& work);
  void first_block(WorkId id, Time now);
  /// The pressure of these launches on the memory, which is as follows from their blocks, holds from now on.
  void judged(std::span<const WorkId> works, std::span<const Contender> contenders);
  /// From now on the SM has these blocks, the oldest first, so far `apart`; or none.  `contended` false: they take
  /// as long as alone.
  void rated(std::uint32_t sm, std::int64_t now, std::span<const Row> rows, std::uint32_t apart, bool contended);
  /// Where its time went: from its first block on, in time of its context.
  RunningParts ended(WorkId id, const Work& work, Time now);

 private:
  struct Launch {
    BlockLoad load;
    Time started{};
    Met whole;                // alone with all its blocks
    Met alone, beside;        // with those that it has now: by itself, and as it is
    std::uint32_t serial = 0;  // of these and the load; that of `whole` is one less
    double time = 0;          // of all its blocks, ps
    LostShares lost{};        // ps
  };
  struct Resident {
    WorkId work;
    std::uint32_t count;
    LostShares shares;
  };
  struct Sm {
    std::int64_t since = 0;
    boost::container::small_vector<Resident, 4> residents;
  };
  /// Two launches, or one.
  struct Company {
    std::array<std::uint32_t, 2> serials{}, counts{};
    std::uint32_t apart = 0;
    bool operator==(const Company&) const = default;
  };

  void number(Launch& launch);
  void pass(Sm& sm, std::int64_t now);

  MemoryLimits limits_;
  std::vector<Launch> launches_;  // by WorkId
  std::vector<Sm> sms_;
  std::uint32_t last_serial_ = 0;
  LatestTable<Company, std::array<LostShares, 2>> known_{12};
};

}  // namespace corun::sim
