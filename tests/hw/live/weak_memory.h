// Every execution of a few short threads under C++'s memory orders.  A load may find any write that nothing has told its thread to be
// older than another one it knows, so that what is missing between two words shows on every machine.
//
// Each thread has a view: of each word the oldest write that it may still find.  A release hands its view on with what it
// writes, and an acquire takes over the view of what it finds.  Writes and loads that are seq_cst find one another in the
// order of the execution.  A wait is over when some write that it may find ends it: writes come to be seen in the end.
//
// Leaves out: loads that find what is written later in the order of the program (those of plain words are held to happen before
// the write that takes their place), and two threads that write the same word at the same time.
#pragma once

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace corun::weak {

enum class Order { relaxed, acquire, release, seq_cst };

constexpr std::size_t kWords = 12, kThreads = 3;
using Value = std::int64_t;
using View = std::array<std::uint32_t, kWords + kThreads>;  // of threads: how far they are

inline void join(View& into, const View& other) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
}

/// What the threads make of an execution is wrong, or none of them can go on.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class World;

/// A thread's body.  It does one thing to a word each time that it goes on.
class Thread {
 public:
  struct promise_type {
    std::exception_ptr error;
    Thread get_return_object() { return Thread(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }
  };
  explicit Thread(std::coroutine_handle<promise_type> body) : body_(body) {}
  Thread(Thread&& other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
  ~Thread() {
    if (body_) body_.destroy();
  }
  bool over() const { return body_.done(); }
  void go_on() {
    body_.resume();
    if (body_.promise().error) std::rethrow_exception(body_.promise().error);
  }

 private:
  std::coroutine_handle<promise_type> body_;
};

class World {
 public:
  struct Write {
    Value value = 0;
    View view{};
  };
  /// What a thread is about to do; `ends`: of a wait, the values that end it.
  struct Act {
    enum class What { load, store, add, fence, plain_load, plain_store, sleep_if, wake } what;
    std::size_t word;
    Order order;
    Value value;
    std::function<bool(Value)> ends;
    World* world;
    Value result = 0;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) noexcept { world->about_to_.at(world->now_) = this; }
    Value await_resume() const noexcept { return result; }
  };
  using What = Act::What;

  Act load(std::size_t w, Order o) { return {What::load, w, o, 0, {}, this}; }
  /// Spins until it finds such a value.
  Act find(std::size_t w, Order o, std::function<bool(Value)> ends) { return {What::load, w, o, 0, std::move(ends), this}; }
  Act store(std::size_t w, Value v, Order o) { return {What::store, w, o, v, {}, this}; }
  Act add(std::size_t w, Value v, Order o) { return {What::add, w, o, v, {}, this}; }
  Act fence(Order o) { return {What::fence, 0, o, 0, {}, this}; }
  /// Of memory that is not atomic: wrong where another thread's access is not ordered with it.
  Act read(std::size_t w) { return {What::plain_load, w, Order::relaxed, 0, {}, this}; }
  Act write(std::size_t w, Value v) { return {What::plain_store, w, Order::relaxed, v, {}, this}; }
  /// FUTEX_WAIT without a time, and FUTEX_WAKE: each behind a full fence, as in the kernel.
  Act sleep_if(std::size_t w, Value v) { return {What::sleep_if, w, Order::seq_cst, v, {}, this}; }
  Act wake(std::size_t w) { return {What::wake, w, Order::seq_cst, 0, {}, this}; }

  /// The next of the ways to go on; `of`: how many there are.
  explicit World(std::function<std::size_t(std::size_t of)> choose) : choose_(std::move(choose)) {
    for (auto& history : histories_) history.push_back({});
  }

  void run(std::vector<Thread> threads) {
    about_to_.assign(threads.size(), nullptr);
    asleep_.assign(threads.size(), std::nullopt);
    for (now_ = 0; now_ < threads.size(); ++now_) threads[now_].go_on();
    for (;;) {
      std::vector<std::size_t> able;
      bool all_over = true;
      for (std::size_t t = 0; t < threads.size(); ++t) {
        all_over &= threads[t].over();
        if (!threads[t].over() && can(t)) able.push_back(t);
      }
      if (all_over) return;
      if (able.empty()) throw Wrong("nobody can go on");
      now_ = able[choose_(able.size())];
      act(*about_to_[now_]);
      threads[now_].go_on();
    }
  }

 private:
  View& view(std::size_t t) { return views_[t]; }
  /// The writes that a load of this thread may find.
  std::vector<std::uint32_t> found(std::size_t t, const Act& a) {
    std::uint32_t oldest = view(t)[a.word];
    if (a.order == Order::seq_cst) oldest = std::max(oldest, seq_cst_[a.word]);
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = oldest; i < histories_[a.word].size(); ++i)
      if (!a.ends || a.ends(histories_[a.word][i].value)) all.push_back(i);
    return all;
  }
  bool can(std::size_t t) {
    const Act& a = *about_to_[t];
    return !asleep_[t] && (a.what != What::load || !found(t, a).empty());
  }
  void take(const Write& w, std::uint32_t at, const Act& a) {
    View& v = view(now_);
    v[a.word] = std::max(v[a.word], at);
    join(acquirable_[now_], w.view);
    if (a.order == Order::acquire || a.order == Order::seq_cst) join(v, w.view);
  }
  void put(const Act& a, Value value) {
    auto& history = histories_[a.word];
    View& v = view(now_);
    v[a.word] = static_cast<std::uint32_t>(history.size());
    const bool releases = a.order == Order::release || a.order == Order::seq_cst;
    View handed = releases ? v : View{};
    if (a.what == What::add) join(handed, history.back().view);  // what the one before released
    handed[a.word] = v[a.word];
    history.push_back({value, handed});
    if (a.order == Order::seq_cst) seq_cst_[a.word] = v[a.word];
  }
  void full_fence() {
    View& v = view(now_);
    join(v, acquirable_[now_]), join(v, fences_);
    join(v, seq_cst_);
    fences_ = v;
  }
  void ordered_with(const std::array<std::uint32_t, kThreads>& accesses, const char* what) {
    for (std::size_t t = 0; t < kThreads; ++t)
      if (t != now_ && view(now_)[kWords + t] < accesses[t]) throw Wrong(what);
  }

  void act(Act& a) {
    View& v = view(now_);
    const std::uint32_t clock = ++v[kWords + now_];
    auto& history = histories_[a.word];
    switch (a.what) {
      case What::load: {
        const std::vector<std::uint32_t> all = found(now_, a);
        const std::uint32_t at = all[choose_(all.size())];
        take(history[at], at, a), a.result = history[at].value;
        break;
      }
      case What::store: put(a, a.value); break;
      case What::add:
        a.result = history.back().value;
        take(Write(history.back()), static_cast<std::uint32_t>(history.size()) - 1, a), put(a, a.result + a.value);
        break;
      case What::fence:
        if (a.order != Order::relaxed) join(v, acquirable_[now_]);
        break;
      case What::plain_load:
        ordered_with(written_[a.word], "a read beside a write"), read_[a.word][now_] = clock;
        a.result = history.back().value;
        break;
      case What::plain_store:
        ordered_with(written_[a.word], "a write beside a write"), ordered_with(read_[a.word], "a write beside a read");
        written_[a.word][now_] = clock;
        put(a, a.value);
        break;
      case What::sleep_if: {
        full_fence();
        const std::vector<std::uint32_t> all = found(now_, a);
        const std::uint32_t at = all[choose_(all.size())];
        take(history[at], at, {.what = a.what, .word = a.word, .order = Order::relaxed, .value = 0, .ends = {}, .world = this});
        if (history[at].value == a.value) asleep_[now_] = a.word;
        break;  // and goes on when it is woken
      }
      case What::wake:
        full_fence();
        for (std::size_t t = 0; t < asleep_.size(); ++t)
          if (asleep_[t] == a.word) asleep_[t].reset(), join(views_[t], v);  // the kernel's lock
        break;
    }
  }

  friend struct Act;
  std::function<std::size_t(std::size_t)> choose_;
  std::array<std::vector<Write>, kWords> histories_;
  std::array<View, kThreads> views_{}, acquirable_{};
  View seq_cst_{}, fences_{};
  std::array<std::array<std::uint32_t, kThreads>, kWords> read_{}, written_{};
  std::vector<Act*> about_to_;
  std::vector<std::optional<std::size_t>> asleep_;
  std::size_t now_ = 0;
};

struct Outcome {
  std::size_t executions = 0;
  std::string wrong;  // the first that was
};

/// Each execution of what `make` makes once.
inline Outcome every_execution(const std::function<std::vector<Thread>(World&)>& make, std::size_t most = 5'000'000) {
  Outcome outcome;
  std::vector<std::pair<std::size_t, std::size_t>> path;  // what was chosen, of how many
  for (;;) {
    std::size_t depth = 0;
    World world([&](std::size_t of) -> std::size_t {
      if (of == 1) return 0;
      if (depth == path.size()) path.emplace_back(0, of);
      return path[depth++].first;
    });
    try {
      ++outcome.executions;
      world.run(make(world));
    } catch (const Wrong& wrong) {
      outcome.wrong = wrong.what();
      return outcome;
    }
    while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
    if (path.empty()) return outcome;
    ++path.back().first;
    if (outcome.executions == most) throw std::runtime_error("too many executions");
  }
}

}  // namespace corun::weak
