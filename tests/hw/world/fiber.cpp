// A fiber begins by ucontext; after that _longjmp switches, which unlike swapcontext asks the system for nothing.
#include "tests/hw/world/fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace corun::world {
namespace {

constexpr std::size_t kStack = 256 << 10;

/// Those that were used before, whose pages are there.
std::vector<char*>& stacks() {
  static std::vector<char*> all;
  return all;
}

char* new_stack() {
  if (!stacks().empty()) {
    char* stack = stacks().back();
    stacks().pop_back();
    return stack;
  }
  void* at = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || mprotect(at, 4096, PROT_NONE) != 0) std::abort();  // whoever needs more is told
  return static_cast<char*>(at);
}

Fiber* begins = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)) {}

Fiber::~Fiber() {
  if (stack_ != nullptr) stacks().push_back(stack_);
}

void Fiber::tell_sanitizer_before([[maybe_unused]] void** kept, [[maybe_unused]] const void* to, [[maybe_unused]] std::size_t bytes) const {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(kept, to, bytes);
#endif
}
void Fiber::tell_sanitizer_after([[maybe_unused]] void* kept, [[maybe_unused]] const void** from, [[maybe_unused]] std::size_t* bytes) const {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(kept, from, bytes);
#endif
}

void Fiber::enter() {
  Fiber* self = begins;
  self->tell_sanitizer_after(nullptr, &self->back_stack_, &self->back_bytes_);
  self->run_();
  self->ended_ = true;
  self->tell_sanitizer_before(nullptr, self->back_stack_, self->back_bytes_);
  _longjmp(self->back_, 1);
}

void Fiber::resume() {
  if (_setjmp(back_) == 0) {
    if (begun_) {
      tell_sanitizer_before(&back_kept_, stack_, kStack);
      _longjmp(here_, 1);
    }
    begun_ = true;
    stack_ = new_stack();
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_, context.uc_stack.ss_size = kStack, context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    begins = this;
    tell_sanitizer_before(&back_kept_, stack_, kStack);
    setcontext(&context);
  }
  tell_sanitizer_after(back_kept_, nullptr, nullptr);
}

void Fiber::yield() {
  if (_setjmp(here_) == 0) {
    tell_sanitizer_before(&kept_, back_stack_, back_bytes_);
    _longjmp(back_, 1);
  }
  tell_sanitizer_after(kept_, &back_stack_, &back_bytes_);
}

}  // namespace corun::world
