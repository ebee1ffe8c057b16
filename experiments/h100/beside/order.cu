// A launch of many waves and, 60 us after its first block, one of few blocks: from another stream, or from another client of MPS.
// When does the second start, beside the first's last start and end?  hol PIPE_FOLDER?; prints a line of JSON a case.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <algorithm>
#include <vector>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
__device__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
__global__ void spin(unsigned long long* at, int ns) {
  extern __shared__ char room[];
  const unsigned long long begin = now();
  if (threadIdx.x == 0) at[2 * blockIdx.x] = begin;
  while (now() - begin < (unsigned long long)ns) {}
  if (threadIdx.x == 0) at[2 * blockIdx.x + 1] = now();
}
struct Shape { int blocks, threads, shared, ns; };
struct Shared { volatile int go, ready, done; };
static void run(cudaStream_t s, Shape h, unsigned long long* at) {
  CHECK(cudaFuncSetAttribute(spin, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  spin<<<h.blocks, h.threads, h.shared, s>>>(at, h.ns);
}
struct Seen { unsigned long long first, last_start, end; };
static Seen seen(unsigned long long* at, int blocks) {
  std::vector<unsigned long long> v(2 * blocks);
  CHECK(cudaMemcpy(v.data(), at, v.size() * 8, cudaMemcpyDeviceToHost));
  Seen s{~0ull, 0, 0};
  for (int i = 0; i < blocks; ++i) { s.first = std::min(s.first, v[2 * i]); s.last_start = std::max(s.last_start, v[2 * i]); s.end = std::max(s.end, v[2 * i + 1]); }
  return s;
}
int main(int argc, char** argv) {
  const bool two = argc > 1 && !strcmp(argv[1], "two");
  const char* how = argc > 2 ? argv[2] : "?";
  const int priority = argc > 3 ? atoi(argv[3]) : 0;
  auto* m = (Shared*)mmap(nullptr, 4096 + 65536 * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* out = (Seen*)((char*)m + 4096);
  struct Case { const char* name; Shape a, b; } cases[] = {
      {"room for b beside a", {132 * 16, 512, 100 * 1024, 20000}, {1, 128, 0, 2000}},          // two a SM, threads for two more
      {"a fills the threads", {132 * 4 * 8, 512, 0, 20000}, {1, 128, 0, 2000}},
      {"a fills, b is large", {132 * 4 * 8, 512, 0, 20000}, {66, 1024, 0, 2000}},
      {"a fills, short blocks", {132 * 16 * 20, 128, 0, 4000}, {64, 256, 0, 2000}},
      {"a fills, short blocks, b is small", {132 * 16 * 20, 128, 0, 4000}, {1, 128, 0, 2000}},
      {"room for b's smaller blocks only", {132 * 16, 1024, 0, 20000}, {1, 128, 0, 2000}}};
  const int repeats = 15, n = sizeof(cases) / sizeof(*cases);
  auto side_b = [&](cudaStream_t s, int c, unsigned long long* at) { run(s, cases[c].b, at); CHECK(cudaStreamSynchronize(s)); };
  const pid_t child = two ? fork() : -1;
  unsigned long long *a, *b;
  if (two && child == 0) {
    int least, most; CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
    cudaStream_t s; CHECK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, priority));
    CHECK(cudaMalloc(&b, 1 << 20));
    for (int c = 0; c < n; ++c) side_b(s, c, b);
    m->ready = 1;
    for (int i = 1; i <= n * repeats; ++i) {
      while (m->go < i) {}
      side_b(s, (i - 1) / repeats, b);
      out[i] = seen(b, cases[(i - 1) / repeats].b.blocks);
      m->done = i;
    }
    return 0;
  }
  cudaStream_t sa, sb;
  CHECK(cudaStreamCreateWithPriority(&sa, cudaStreamNonBlocking, 0));
  CHECK(cudaStreamCreateWithPriority(&sb, cudaStreamNonBlocking, priority));
  CHECK(cudaMalloc(&a, 4 << 20)); CHECK(cudaMalloc(&b, 1 << 20));
  volatile int* began; CHECK(cudaHostAlloc((void**)&began, 4, cudaHostAllocMapped));
  for (int c = 0; c < n; ++c) { run(sa, cases[c].a, a); CHECK(cudaStreamSynchronize(sa)); side_b(sb, c, b); }
  if (two) while (!m->ready) usleep(100);
  int i = 0;
  for (int c = 0; c < n; ++c) {
    std::vector<double> at, last, end;
    for (int r = 0; r < repeats; ++r) {
      ++i;
      run(sa, cases[c].a, a);
      timespec t{0, 60000}; nanosleep(&t, nullptr);
      if (two) m->go = i; else run(sb, cases[c].b, b);
      CHECK(cudaStreamSynchronize(sa));
      if (two) while (m->done < i) {} else { CHECK(cudaStreamSynchronize(sb)); out[i] = seen(b, cases[c].b.blocks); }
      const Seen s = seen(a, cases[c].a.blocks);
      at.push_back((double)out[i].first - s.first); last.push_back((double)s.last_start - s.first); end.push_back((double)s.end - s.first);
    }
    auto med = [](std::vector<double> v) { std::sort(v.begin(), v.end()); return v[v.size() / 2] / 1e3; };
    std::string each;
    for (double x : at) each += (each.empty() ? "" : ", ") + std::to_string((int)(x / 1e3));
    printf("{\"how\": \"%s\", \"case\": \"%s\", \"b_starts_us\": %.1f, \"a_last_start_us\": %.1f, \"a_end_us\": %.1f, \"each\": [%s]}\n", how, cases[c].name, med(at), med(last), med(end), each.c_str());
  }
  if (two) { int st; waitpid(child, &st, 0); }
}
