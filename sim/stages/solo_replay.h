// A launch that comes when nothing else is there, and ends undisturbed, goes as it did the last time.  This
// remembers how it went, exact to the tick.
#pragma once

#include <cstdint>

#include "sim/engine/kept_table.h"
#include "sim/stages/pipeline.h"
#include "sim/stages/sm_mask.h"
#include "sim/stages/task.h"
#include "traces/model/expects.h"

namespace corun::sim {

class SoloMemory {
 public:
  /// What decides how it goes.
  struct Key {
    std::uint32_t kernel, ctas;
    std::int64_t block_alone;
    double load;  // its block time alone tells launches of different shares apart
    SmMask allowed;
    bool operator==(const Key&) const = default;
    std::uint64_t hash() const {
      const std::uint64_t h = static_cast<std::uint64_t>(block_alone) * 0x9e3779b97f4a7c15u;
      return h ^ (std::uint64_t{kernel} << 32 | ctas) * 0xff51afd7ed558ccdu;
    }
  };
  static Key key_of(const Work& work, const SmMask& allowed) {
    return {work.record.kernel.value, work.ctas, work.block_alone.count(), work.load.alone_ps, allowed};
  }

  /// Null: it has not been seen.  Valid as long as this.
  const UndisturbedRun* find(const Key& key) const { return runs_.find(key, key.hash()); }
  void learn(const Key& key, const UndisturbedRun& run) {
    CORUN_EXPECTS(run.started >= Time{} && run.last_block >= run.started && run.end >= run.last_block);
    CORUN_EXPECTS(run.sm_ps >= 0 && run.warp_ps >= 0);
    if (UndisturbedRun* known = runs_.find(key, key.hash()))
      *known = run;
    else
      runs_.add(key, key.hash(), run);
  }

 private:
  KeptTable<Key, UndisturbedRun> runs_;
};

}  // namespace corun::sim
