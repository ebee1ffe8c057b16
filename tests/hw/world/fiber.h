// A thread that is played: it runs until it yields, on a stack of its own, and all of them in one thread of the system.
//
// Leaves out: who runs next (machine.h).
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace corun::world {

class Fiber {
 public:
  explicit Fiber(std::function<void()> run);
  /// It has ended, or was never begun: what is on its stack is not unwound.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Until it yields or ends.  Not from within another.
  void resume();
  /// From within: whoever resumed it goes on.
  void yield();
  bool begun() const { return begun_; }
  bool ended() const { return ended_; }

 private:
  static void enter();
  void tell_sanitizer_before(void** kept, const void* to, std::size_t bytes) const;
  void tell_sanitizer_after(void* kept, const void** from, std::size_t* bytes) const;

  std::function<void()> run_;
  char* stack_ = nullptr;
  bool begun_ = false, ended_ = false;
  jmp_buf here_{}, back_{};
  const void* back_stack_ = nullptr;  // for sanitizers
  std::size_t back_bytes_ = 0;
  void *kept_ = nullptr, *back_kept_ = nullptr;
};

}  // namespace corun::world
