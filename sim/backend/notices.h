// Facts on their way to the host: of the GPU, a completion's time later; of what the host finds in its own queues, at once, and before those.
#pragma once

#include <deque>

#include "policies/api/notice.h"
#include "traces/model/time.h"

namespace corun::sim {

class Notices {
 public:
  /// In the order of their times.
  void tell(Time at, const Notice& notice) { later_.push_back({at, notice}); }
  void tell_now(const Notice& notice) { now_.push_back(notice); }

  bool empty() const { return now_.empty() && later_.empty(); }
  /// When the next one is there, of which there is one; `now`: at the latest.
  Time next_time(Time now) const { return now_.empty() ? later_.front().at : now; }
  bool any_due(Time now) const { return !empty() && next_time(now) <= now; }
  Notice take() {
    Notice notice;
    if (!now_.empty()) {
      notice = now_.front();
      now_.pop_front();
    } else {
      notice = later_.front().what;
      later_.pop_front();
    }
    return notice;
  }

 private:
  struct Later {
    Time at;
    Notice what;
  };
  std::deque<Notice> now_;
  std::deque<Later> later_;
};

}  // namespace corun::sim
