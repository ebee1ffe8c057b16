// Values by key, each made once, whoever asks for it at once.  May be used from threads.
#pragma once

#include <algorithm>
#include <functional>
#include <future>
#include <list>
#include <mutex>
#include <utility>

namespace corun {

template <class Key, class Value>
class MadeOnce {
 public:
  /// Made by `make` if nobody asked yet; who asks meanwhile waits.  What `make` throws comes through, and the
  /// next who asks makes it.
  Value of(const Key& key, const std::function<Value()>& make) {
    std::promise<Value> promise;
    std::shared_future<Value> value;
    bool mine = false;
    {
      const std::scoped_lock lock(mutex_);
      auto found = find(key);
      mine = found == known_.end();
      if (mine) found = known_.emplace(found, key, promise.get_future().share());
      value = found->second;
    }
    if (!mine) try {
        return value.get();
      } catch (...) {
        return of(key, make);  // who made it may have been ended
      }
    try {
      promise.set_value(make());
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        known_.erase(find(key));
      }
      promise.set_exception(std::current_exception());
    }
    return value.get();
  }
  void clear() { known_.clear(); }

 private:
  auto find(const Key& key) {
    return std::ranges::find(known_, key, [](const auto& known) -> const Key& { return known.first; });
  }
  std::mutex mutex_;
  std::list<std::pair<Key, std::shared_future<Value>>> known_;
};

}  // namespace corun
