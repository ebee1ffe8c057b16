// Bandwidth and latency of DRAM and L2.
#pragma once

#include "clients.cuh"

template <class Unit>
Client memory(const char* name, int per_sm, u64 bytes, int which = 0) {
  return client_of<Unit>(name, per_sm, 256).in(buffer(which), bytes);
}
constexpr double kGBps = 1e-3;  // bytes per us

void dram() {
  for (int per_sm : {1, 2, 4, 8})
    for (const Client& c :
         {memory<Read>("read", per_sm, 4 * kGiB), memory<Write>("write", per_sm, 4 * kGiB),
          memory<Copy>("copy", per_sm, 4 * kGiB), memory<Copy21>("two read, one written", per_sm, 4 * kGiB)})
      print_record({{"access", c.name}, {"per_sm", per_sm}}, "GB_per_s",
                   scaled(rates({c}, 600).per_us[0], kGBps));
  for (u64 bytes : {256 * kMiB, 2 * kGiB, 16 * kGiB})
    for (const Client& c : {memory<Gather>("gather 4 B, counted as 32", 8, bytes),
                            memory<Random<32, 8, false>>("random read 32", 8, bytes),
                            memory<Random<64, 8, false>>("random read 64", 8, bytes),
                            memory<Random<128, 8, false>>("random read 128", 8, bytes),
                            memory<Random<256, 8, false>>("random read 256", 8, bytes),
                            memory<Random<512, 8, false>>("random read 512", 8, bytes),
                            memory<Random<32, 8, true>>("random write 32", 8, bytes),
                            memory<Random<64, 8, true>>("random write 64", 8, bytes),
                            memory<Random<128, 8, true>>("random write 128", 8, bytes)})
      print_record({{"access", c.name}, {"MiB", static_cast<double>(bytes / kMiB)}}, "GB_per_s",
                   scaled(rates({c}, 600).per_us[0], kGBps));
}

// Fixed work: every chunk, or as many random ones, a few times.
__global__ void sweep(char* data, unsigned chunks, int passes, int random, int write, unsigned* sink) {
  const unsigned warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
  unsigned mix = 0, state = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 2654435761u;
  for (int pass = 0; pass < passes; ++pass)
    for (unsigned c = (blockIdx.x * blockDim.x + threadIdx.x) / 32; c < chunks; c += warps) {
      state = state * 1664525u + 1013904223u;
      const unsigned which = random ? __umulhi((state ^ state >> 15) * 2246822519u, chunks) : c;
      char* p = data + u64{which} * kChunk + lane * 16;
      Quad q[8];
      for (int i = 0; i < 8; ++i) q[i] = write ? Quad{state, lane, 0, 0} : load_l2(p + i * 512);
      for (int i = 0; i < 8; ++i)
        if (write)
          store(p + i * 512, q[i]);
        else
          mix ^= q[i].mix();
    }
  if (mix == 0x12345678u) *sink = mix;
}
// Cycles of single dependent loads by one thread, after a round that warms the caches if the chain is short.
__global__ void time_loads(const char* at, int skip, int count, unsigned* cycles) {
  for (int i = 0; i < skip; ++i) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
  for (int i = 0; i < count; ++i) {
    const long long start = cycle_count();
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
    if (at == nullptr) break;
    cycles[i] = static_cast<unsigned>(cycle_count() - start);
  }
}

void latency() {
  const auto chase = [](unsigned count, unsigned stride, bool cached) {
    make_chain(buffer(0), count, stride);
    // Writing part of a sector does not bring the rest of it.
    const u64 bytes = u64{count} * stride;
    if (bytes <= 64 * kMiB)
      sweep<<<1056, 256>>>(buffer(0), bytes / kChunk, 3, 0, 0, reinterpret_cast<unsigned*>(buffer(1)));
    Client c = cached ? client_of<Chase<true>>("chase", 1, 32) : client_of<Chase<false>>("chase", 1, 32);
    c = c.in(buffer(0), u64{count} * stride).on({0});
    c.stride = stride;
    return c;
  };
  struct Level {
    const char* level;
    unsigned count, stride;
    bool cached;
  };
  const Level levels[] = {{"L1", 64, 128, true},
                          {"L2, 256 KiB", 1u << 11, 128, false},
                          {"L2, 4 MiB", 1u << 15, 128, false},
                          {"L2, 16 MiB", 1u << 17, 128, false},
                          {"32 MiB", 1u << 18, 128, false},
                          {"64 MiB", 1u << 19, 128, false},
                          {"256 MiB", 1u << 21, 128, false},
                          {"2 GiB", 1u << 24, 128, false},
                          {"16 GiB", 1u << 27, 128, false},
                          {"16 GiB, a line of each 8 KiB", 1u << 21, 8192, false},
                          {"2 GiB, a line of each 2 MiB", 1u << 10, 2u << 20, false},
                          {"16 GiB, a line of each 2 MiB", 1u << 13, 2u << 20, false}};
  unsigned* const cycles = device_array<unsigned>(2000);
  for (const Level& l : levels) {
    const Client c = chase(l.count, l.stride, l.cached);
    const bool warm = l.count <= 1u << 15;
    const Rates r = rates({c}, 2000, warm ? 20e3 : 400, 5);
    Samples ns;
    for (double per_us : r.per_us[0]) ns.push_back(1e3 / per_us);
    print_record({{"level", l.level}, {"sm_mhz", median(r.mhz[0])}}, "load_ns", ns);
    if (l.cached) continue;
    time_loads<<<1, 1>>>(buffer(0), warm ? 2 * l.count : 100, 2000, cycles);
    CHECK(cudaDeviceSynchronize());
    Samples each;
    for (unsigned v : read_back(cycles, 2000)) each.push_back(v);
    print_record({{"level", l.level}}, "single_load_cycles", each);
  }
}

// A few dependent loads beside a stream of a given intensity: the mean of what a load takes.
void loaded_latency() {
  make_chain(buffer(1), 1u << 24, 128);
  char* const hot = buffer(1) + 8 * kGiB;
  constexpr unsigned kHotStride = (1u << 20) + 384;
  make_chain(hot, 16, kHotStride);
  Client dram =
      client_of<Chase<false>>("DRAM", 1, 32).in(buffer(1), 2 * kGiB).on({0, 17, 34, 51, 68, 85, 102, 119});
  Client l2 = dram.in(hot, 16 * kHotStride);
  l2.name = "L2";
  l2.stride = kHotStride;
  std::vector<Client> loads;
  const auto add = [&](const Client& base) {
    for (int per_sm : {1, 2, 4, 6}) {
      Client c = base;
      c.per_sm = per_sm;
      loads.push_back(c);
    }
    for (int idle_cycles : {100, 200, 400, 800, 1500, 3000, 6000, 12000}) {
      Client c = base;
      c.idle_cycles = idle_cycles;
      loads.push_back(c);
    }
  };
  add(memory<Read>("read", 2, 4 * kGiB));
  add(memory<Write>("write", 2, 4 * kGiB));
  add(memory<Copy>("copy", 2, 4 * kGiB));
  add(memory<Random<32, 8, false>>("random read 32", 2, 4 * kGiB));
  add(memory<Read>("L2 read", 2, 8 * kMiB));
  for (const Client& load : loads)
    for (const Client& probe : {dram, l2}) {
      const Rates r = rates({probe, load}, 2000, 500);
      Samples ns;
      for (double per_us : r.per_us[0]) ns.push_back(1e3 * 8 / per_us);
      print_record({{"load", load.name},
                    {"per_sm", load.per_sm},
                    {"idle_cycles", load.idle_cycles},
                    {"load_GB_per_s", median(r.per_us[1]) * kGBps},
                    {"probe", probe.name}},
                   "load_ns", ns);
    }
}

// The same loads where they do not share an SM with the load: what waits in the memory, and not before it.
void loaded_latency_apart() {
  make_chain(buffer(1), 1u << 24, 128);
  char* const hot = buffer(1) + 8 * kGiB;
  constexpr unsigned kHotStride = (1u << 20) + 384;
  make_chain(hot, 16, kHotStride);
  const std::vector<int> probes = {0, 16, 34, 50, 68, 84, 102, 118};
  std::vector<int> others;
  for (int sm = 0; sm < kSms; ++sm)
    if (std::none_of(probes.begin(), probes.end(), [&](int p) { return p / 2 == sm / 2; })) others.push_back(sm);
  const std::vector<int> half(others.begin(), others.begin() + 58);
  Client dram = client_of<Chase<false>>("DRAM", 1, 32).in(buffer(1), 2 * kGiB).on(probes);
  Client l2 = dram.in(hot, 16 * kHotStride);
  l2.name = "L2";
  l2.stride = kHotStride;
  std::vector<Client> loads;
  for (int per_sm : {1, 2, 4, 8})
    for (const Client& load :
         {memory<Read>("read", per_sm, 4 * kGiB), memory<Write>("write", per_sm, 4 * kGiB),
          memory<Copy>("copy", per_sm, 4 * kGiB), memory<Gather>("gather", per_sm, 4 * kGiB),
          memory<Gather>("gather in 256 MiB", per_sm, 256 * kMiB), memory<Gather>("L2 gather", per_sm, 8 * kMiB),
          memory<Read>("L2 read", per_sm, 8 * kMiB)})
      for (const auto& sms : {others, half}) loads.push_back(load.on(sms));
  for (const Client& load : loads)
    for (const Client& probe : {dram, l2}) {
      const Rates r = rates({probe, load}, 1000, 400);
      Samples ns;
      for (double per_us : r.per_us[0]) ns.push_back(1e3 * 8 / per_us);
      print_record({{"load", load.name},
                    {"per_sm", load.per_sm},
                    {"sms", load.sm_count()},
                    {"load_GB_per_s", median(r.per_us[1]) * kGBps},
                    {"probe", probe.name}},
                   "load_ns", ns);
    }
}
