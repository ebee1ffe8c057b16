// What the host does on its own, without CUDA: ns of three loops of fixed work.  gcc -O2 -shared -fPIC -o pace.so pace.c
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { kCells = 1 << 16 };  // 4 MiB: beyond a core's L2
static struct { uint32_t next, pad[15]; } cells[kCells];
static volatile uint64_t sink;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}

/// A chain of multiplications (the clock alone), four independent chains of additions (a thread beside it on the core takes part of their
/// slots), and loads that wait for each other beyond L2.
void pace(double ns[3]) {
  if (cells[0].next == 0)
    for (uint32_t i = 0, at = 0; i < kCells; ++i) at = cells[at].next = (at * 5u + 12345u) % kCells;
  double begin = now_ns();
  uint64_t x = 3;
  for (int i = 0; i < 40000; ++i) x = x * 6364136223846793005u + 1;
  double end = now_ns();
  ns[0] = end - begin, begin = end, sink = x;
  uint64_t a = x, b = x + 1, c = x + 2, d = x + 3;
  for (int i = 0; i < 60000; ++i) {
    a += i ^ b, b += i, c ^= d + i, d += a;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  end = now_ns();
  ns[1] = end - begin, begin = end, sink = a + b + c + d;
  uint32_t at = (uint32_t)x % kCells;
  for (int i = 0; i < 4000; ++i) at = cells[at].next;
  ns[2] = now_ns() - begin, sink = at;
}
