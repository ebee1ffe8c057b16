// Ways in which a graph may be captured for a green context: its edges, what a request takes, and on how many SMs its kernels run.
//   nvcc -O2 -std=c++17 -arch=sm_90 -o lanes lanes.cu && ./lanes SMS
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call)                                                    \
  do {                                                                 \
    if (const auto f = (call); f != 0) {                               \
      std::fprintf(stderr, "%s:%d: %d\n", __FILE__, __LINE__, (int)f); \
      std::exit(1);                                                    \
    }                                                                  \
  } while (0)
#define TRY(call)                                     \
  do {                                                \
    if (const auto f = (call); f != 0) {              \
      std::printf("  %s: error %d\n", #call, (int)f); \
      return;                                         \
    }                                                 \
  } while (0)
template <class F>
F driver(const char* n, int v = 13000) {
  void* p = nullptr;
  cudaDriverEntryPointQueryResult s;
  CHECK(cudaGetDriverEntryPointByVersion(n, &p, v, cudaEnableDefault, &s));
  if (!p) std::printf("no %s\n", n);
  return (F)p;
}
__global__ void work(int rounds, float* out, unsigned* top) {
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = fmaf(x, 1.0001f, 0.5f);
  if (x == 1.25f) *out = x;
  if (threadIdx.x == 0) {
    unsigned s;
    asm volatile("mov.u32 %0, %smid;" : "=r"(s));
    atomicOr(top + s / 32, 1u << s % 32);
  }
}
unsigned* top;
float* sink;
cudaStream_t plain, green;
CUgreenCtx gctx;
cudaEvent_t before, after;
void go(cudaStream_t s) {
  work<<<132, 128, 0, s>>>(2000, sink, top);
  CHECK(cudaGetLastError());
}
void measure(const char* name, cudaGraph_t g, cudaStream_t s) {
  cudaGraphExec_t e;
  TRY(cudaGraphInstantiateWithFlags(&e, g, 8 | 1));
  size_t nodes = 0, edges = 0;
  CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
  CHECK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  CHECK(cudaMemset(top, 0, 32));
  std::vector<double> w;
  for (int i = 0; i < 40; ++i) {
    const auto b = std::chrono::steady_clock::now();
    TRY(cudaGraphLaunch(e, s));
    TRY(cudaStreamSynchronize(s));
    w.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - b).count());
  }
  std::sort(w.begin(), w.end());
  unsigned m[8];
  CHECK(cudaMemcpy(m, top, 32, cudaMemcpyDeviceToHost));
  int sms = 0;
  for (unsigned x : m) sms += __builtin_popcount(x);
  std::printf("%-44s nodes %zu edges %zu  %.1f us  SMs %d\n", name, nodes, edges, w[20], sms);
  CHECK(cudaGraphExecDestroy(e));
}
template <class F>
cudaGraph_t capture(cudaStream_t s, F f) {
  cudaGraph_t g;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  f();
  CHECK(cudaStreamEndCapture(s, &g));
  return g;
}
void retarget(int n) {
  cudaGraph_t g = capture(plain, [&] {
    for (int i = 0; i < n; ++i) go(plain);
  });
  auto get = driver<CUresult (*)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>("cuGraphKernelNodeGetParams");
  auto set = driver<CUresult (*)(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*)>("cuGraphKernelNodeSetParams");
  auto ctx_of = driver<CUresult (*)(CUcontext*, CUgreenCtx)>("cuCtxFromGreenCtx");
  auto kern = driver<CUresult (*)(CUfunction*, CUkernel)>("cuKernelGetFunction");
  CUcontext c;
  TRY(ctx_of(&c, gctx));
  std::vector<cudaGraphNode_t> nodes(n);
  size_t count = n;
  CHECK(cudaGraphGetNodes(g, nodes.data(), &count));
  for (int i = 0; i < n; ++i) {
    CUDA_KERNEL_NODE_PARAMS p{};
    TRY(get((CUgraphNode)nodes[i], &p));
    if (i == 0)
      std::printf("  captured plain: func %p kern %p ctx %p, green %p\n", (void*)p.func, (void*)p.kern,
                  (void*)p.ctx, (void*)c);
    p.ctx = c;
    if (p.kern) p.func = nullptr;
    TRY(set((CUgraphNode)nodes[i], &p));
    if (i == 0) {
      TRY(get((CUgraphNode)nodes[i], &p));
      std::printf("  after: func %p kern %p ctx %p\n", (void*)p.func, (void*)p.kern, (void*)p.ctx);
    }
  }
  measure("retargeted, launched plain", g, plain);
}
void updated(int n) {  // the lane joins by what the own stream depends on, and hands it back
  using Info = CUresult (*)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                            const CUgraphEdgeData**, size_t*);
  using Update = CUresult (*)(CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned);
  auto info = driver<Info>("cuStreamGetCaptureInfo");
  auto update = driver<Update>("cuStreamUpdateCaptureDependencies");
  if (!info || !update) return;
  bool failed = false;
  cudaGraph_t g = capture(plain, [&] {
    CHECK(cudaEventRecord(before, plain));
    CHECK(cudaStreamWaitEvent(green, before, 0));
    for (int i = 0; i < n; ++i) {
      CUstreamCaptureStatus st;
      cuuint64_t id;
      CUgraph gr;
      const CUgraphNode* deps;
      const CUgraphEdgeData* ed;
      size_t count;
      if (auto r = info(plain, &st, &id, &gr, &deps, &ed, &count)) {
        std::printf("  info %d\n", (int)r);
        failed = true;
      }
      std::vector<CUgraphNode> d(deps, deps + count);
      if (auto r = update(green, d.data(), nullptr, count, 1)) {
        std::printf("  update %d\n", (int)r);
        failed = true;
      }
      go(green);
      if (auto r = info(green, &st, &id, &gr, &deps, &ed, &count)) {
        std::printf("  info %d\n", (int)r);
        failed = true;
      }
      d.assign(deps, deps + count);
      if (auto r = update(plain, d.data(), nullptr, count, 1)) {
        std::printf("  update %d\n", (int)r);
        failed = true;
      }
      if (failed) break;
    }
    CHECK(cudaEventRecord(after, green));
    CHECK(cudaStreamWaitEvent(plain, after, 0));
  });
  measure("lane by capture dependencies", g, plain);
}
int main(int argc, char** argv) {
  const unsigned want = argc > 1 ? atoi(argv[1]) : 40;
  CHECK(cudaFree(nullptr));
  CHECK(cudaMalloc(&top, 32));
  CHECK(cudaMalloc(&sink, 4));
  CHECK(cudaStreamCreateWithFlags(&plain, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
  CUdevResource all{}, rest{};
  unsigned count = 0, sms = 0;
  auto split = driver<CUresult (*)(CUdevResource*, unsigned*, const CUdevResource*, CUdevResource*, unsigned,
                                   unsigned)>("cuDevSmResourceSplitByCount");
  CHECK((driver<CUresult (*)(CUdevice, CUdevResource*, CUdevResourceType)>("cuDeviceGetDevResource")(
      0, &all, CU_DEV_RESOURCE_TYPE_SM)));
  CHECK(split(nullptr, &count, &all, nullptr, 0, 2));
  std::vector<CUdevResource> gs(count), mine;
  CHECK(split(gs.data(), &count, &all, &rest, 0, 2));
  gs.resize(count);
  if (rest.sm.smCount) gs.push_back(rest);
  for (size_t i = 0; i < gs.size() && sms < want; ++i) mine.push_back(gs[i]), sms += gs[i].sm.smCount;
  CUdevResourceDesc d;
  CHECK((driver<CUresult (*)(CUdevResourceDesc*, CUdevResource*, unsigned)>("cuDevResourceGenerateDesc")(
      &d, mine.data(), mine.size())));
  CHECK((driver<CUresult (*)(CUgreenCtx*, CUdevResourceDesc, CUdevice, unsigned)>("cuGreenCtxCreate")(
      &gctx, d, 0, CU_GREEN_CTX_DEFAULT_STREAM)));
  CUstream gsm;
  CHECK((driver<CUresult (*)(CUstream*, CUgreenCtx, unsigned, int)>("cuGreenCtxStreamCreate")(
      &gsm, gctx, CU_STREAM_NON_BLOCKING, 0)));
  green = gsm;
  for (const int n : {10, 100, 300}) {
    std::printf("n %d, green %u SMs\n", n, sms);
    measure("plain",
            capture(plain,
                    [&] {
                      for (int i = 0; i < n; ++i) go(plain);
                    }),
            plain);
    measure("green, launched green",
            capture(green,
                    [&] {
                      for (int i = 0; i < n; ++i) go(green);
                    }),
            green);
    measure("green, launched plain",
            capture(green,
                    [&] {
                      for (int i = 0; i < n; ++i) go(green);
                    }),
            plain);
    auto lane = [&](cudaStream_t to) {
      CHECK(cudaEventRecord(before, plain));
      CHECK(cudaStreamWaitEvent(to, before, 0));
      go(to);
      CHECK(cudaEventRecord(after, to));
      CHECK(cudaStreamWaitEvent(plain, after, 0));
    };
    measure("by lanes",
            capture(plain,
                    [&] {
                      for (int i = 0; i < n; ++i) lane(green);
                    }),
            plain);
    cudaStream_t other;
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    measure("by lanes of a plain stream",
            capture(plain,
                    [&] {
                      for (int i = 0; i < n; ++i) lane(other);
                    }),
            plain);
    measure("lane once",
            capture(plain,
                    [&] {
                      CHECK(cudaEventRecord(before, plain));
                      CHECK(cudaStreamWaitEvent(green, before, 0));
                      for (int i = 0; i < n; ++i) go(green);
                      CHECK(cudaEventRecord(after, green));
                      CHECK(cudaStreamWaitEvent(plain, after, 0));
                    }),
            plain);
    measure("lane once, join each",
            capture(plain,
                    [&] {
                      CHECK(cudaEventRecord(before, plain));
                      CHECK(cudaStreamWaitEvent(green, before, 0));
                      for (int i = 0; i < n; ++i) {
                        go(green);
                        CHECK(cudaEventRecord(after, green));
                        CHECK(cudaStreamWaitEvent(plain, after, 0));
                      }
                    }),
            plain);
    updated(n);
    retarget(n);
  }
}
