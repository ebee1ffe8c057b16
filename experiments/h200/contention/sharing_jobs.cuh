// How bandwidth and L2 are shared: by SMs, by pages, by kinds of access, by size.
#pragma once

#include "memory_jobs.cuh"

// Which SMs share a GPC: blocks of a cluster do.
__global__ void note_cluster(int* sm_of_block) { sm_of_block[blockIdx.x] = static_cast<int>(sm_id()); }
std::vector<std::vector<int>> find_gpcs() {
  std::vector<int> group(kSms);
  for (int i = 0; i < kSms; ++i) group[i] = i;
  const std::function<int(int)> root = [&](int i) { return group[i] == i ? i : group[i] = root(group[i]); };
  int* const sms = device_array<int>(kSms * 4);
  CHECK(cudaFuncSetAttribute(note_cluster, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024));
  for (int size : {2, 3, 4, 5, 6, 7, 8}) {
    const int blocks = kSms / size * size;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = 200 * 1024;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, note_cluster, sms));
    CHECK(cudaDeviceSynchronize());
    const std::vector<int> seen = read_back(sms, blocks);
    for (int i = 0; i < blocks; ++i) group[root(seen[i])] = root(seen[i / size * size]);
  }
  std::vector<std::vector<int>> gpcs;
  for (int i = 0; i < kSms; ++i) {
    std::vector<int> members;
    for (int k = 0; k < kSms; ++k)
      if (root(k) == i) members.push_back(k);
    if (!members.empty()) gpcs.push_back(members);
  }
  return gpcs;
}

void sm_scaling() {
  struct Set {
    std::string name;
    std::vector<int> sms;
  };
  std::vector<Set> sets;
  for (int n : {1, 2, 4, 8, 16, 32, 48, 66, 100, 132}) {
    sets.push_back({"spread", spread_sms(n)});
    if (n > 1 && n < 132) sets.push_back({"whole TPCs", sm_range(0, n)});
  }
  const auto gpcs = find_gpcs();
  for (const auto& g : gpcs) {
    std::string text;
    for (int sm : g) text += (text.empty() ? "" : " ") + std::to_string(sm);
    print_record({{"sms", text}, {"count", static_cast<int>(g.size())}}, "gpc", {});
  }
  // The SMs that share a cluster with no other: do they share a GPC's way to L2 with the incomplete one?
  std::vector<int> rest, alone;
  for (const auto& g : gpcs)
    if (g.size() <= 2) alone.insert(alone.end(), g.begin(), g.end());
  for (const auto& g : gpcs)
    if (g.size() > 2 && g.size() < 16) rest = g;
  if (!alone.empty()) sets.push_back({"SMs without a cluster", alone});
  if (!alone.empty() && !rest.empty()) {
    rest.insert(rest.end(), alone.begin(), alone.end());
    sets.push_back({"incomplete GPC and SMs without a cluster", rest});
  }
  for (size_t i = 0; i < gpcs.size(); ++i) {
    if (gpcs[i].size() < 8 || i > 2) continue;
    std::vector<int> half;
    for (size_t k = 0; k < gpcs[i].size(); k += 2) half.push_back(gpcs[i][k]);
    sets.push_back({"half the SMs of a GPC", half});
    sets.push_back({"one GPC", gpcs[i]});
  }
  for (const Set& s : sets)
    for (int per_sm : {2, 8})
      for (const Client& base :
           {memory<Read>("DRAM read", per_sm, 4 * kGiB), memory<Write>("DRAM write", per_sm, 4 * kGiB),
            memory<Read>("L2 read", per_sm, 12 * kMiB), memory<Write>("L2 write", per_sm, 12 * kMiB),
            memory<Gather>("DRAM gather", per_sm, 2 * kGiB),
            memory<Gather>("L2 gather", per_sm, 12 * kMiB)}) {
        const Rates r = rates({base.on(s.sms)}, 300, s.sms.size() < 8 ? 1500 : 500);
        print_record({{"access", base.name},
                      {"set", s.name},
                      {"sms", static_cast<int>(s.sms.size())},
                      {"per_sm", per_sm}},
                     "GB_per_s", scaled(r.per_us[0], kGBps));
      }
}

// Random accesses by how many pages they go to: translation is shared by TPC and GPC.
void footprints() {
  const auto gpcs = find_gpcs();
  const std::vector<std::pair<std::string, std::vector<int>>> sets = {
      {"1 SM", {2}}, {"1 TPC", {2, 3}}, {"1 GPC", gpcs[1]}, {"66 SMs", spread_sms(66)}, {"all", {}}};
  for (const auto& [name, sms] : sets)
    for (u64 mib : {12, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 16384})
      for (const Client& c : {memory<Gather>("gather", 8, mib * kMiB),
                              memory<Random<128, 8, false>>("random read 128", 8, mib * kMiB),
                              memory<Random<32, 8, true>>("random write 32", 8, mib * kMiB)})
        print_record({{"access", c.name}, {"set", name}, {"MiB", static_cast<double>(mib)}}, "GB_per_s",
                     scaled(rates({c.on(sms)}, 300, 600).per_us[0], kGBps));
}

// Two memory clients of different kinds, on the same SMs and on halves.
void memory_pairs() {
  const auto kinds = [](int which, int per_sm) {
    return std::vector<Client>{memory<Read>("read", per_sm, 4 * kGiB, which),
                               memory<Write>("write", per_sm, 4 * kGiB, which),
                               memory<Copy>("copy", per_sm, 4 * kGiB, which),
                               memory<Gather>("gather", per_sm, 4 * kGiB, which),
                               memory<Random<128, 8, false>>("random read 128", per_sm, 4 * kGiB, which),
                               memory<Read>("L2 read", per_sm, 8 * kMiB, which),
                               memory<Write>("L2 write", per_sm, 8 * kMiB, which)};
  };
  for (int per_sm : {1, 2})
    for (bool halves : {false, true}) {
      const auto first = kinds(0, per_sm), second = kinds(1, per_sm);
      const auto place = [&](const Client& c, bool is_second) {
        return halves ? c.on(is_second ? sm_range(66, 132) : sm_range(0, 66)) : c;
      };
      std::vector<double> alone;
      for (const Client& c : first) {
        alone.push_back(median(rates({place(c, false)}, 300).per_us[0]));
        print_record({{"access", c.name}, {"per_sm", per_sm}, {"sms", halves ? "half" : "all"}},
                     "alone_GB_per_s", {alone.back() * kGBps});
      }
      for (size_t a = 0; a < first.size(); ++a)
        for (size_t b = a; b < second.size(); ++b) {
          const Rates r = rates({place(first[a], false), place(second[b], true)}, 400, 600);
          const Case c = {{"first", first[a].name},
                          {"second", second[b].name},
                          {"per_sm", per_sm},
                          {"sms", halves ? "half each" : "the same"},
                          {"second_places", r.last[1].places}};
          print_record(c, "first_over_alone", scaled(r.per_us[0], 1 / alone[a]));
          print_record(c, "second_over_alone", scaled(r.per_us[1], 1 / alone[b]));
        }
    }
}

// Reading or writing a set again and again.
void l2_capacity() {
  for (int mib : {2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72, 80, 100, 120, 200})
    for (const Client& c :
         {memory<Read>("read in turn", 8, mib * kMiB),
          memory<Random<512, 8, false>>("random read 512", 8, mib * kMiB),
          memory<Write>("write in turn", 8, mib * kMiB), memory<Copy>("copy", 8, mib * kMiB)})
      print_record({{"access", c.name}, {"MiB", mib}}, "GB_per_s",
                   scaled(rates({c}, 400, 600).per_us[0], kGBps));
}

// A re-reads a set on 66 SMs while B streams through DRAM on n others.
void l2_sharing() {
  struct Reuse {
    Client client;
    const char* intensity;
  };
  std::vector<Reuse> reuses = {
      {client_of<Random<512, 1, false>>("A", 1, 128), "4 warps an SM, 1 load each"},
      {client_of<Random<512, 2, false>>("A", 2, 256), "16 warps an SM, 2 loads each"},
      {client_of<Random<512, 8, false>>("A", 4, 256), "32 warps an SM, 8 loads each"}};
  for (const Reuse& reuse : reuses)
    for (int mib : {1, 5, 10, 20, 30, 40, 4096}) {
      const Client a = reuse.client.in(buffer(0), mib * kMiB).on(sm_range(0, 66));
      for (const char* kind : {"read", "write"})
        for (int sms : {0, 2, 4, 8, 16, 33, 66}) {
          if (kind[0] == 'w' && (sms == 0 || (mib != 10 && mib != 4096))) continue;
          std::vector<Client> clients = {a};
          if (sms > 0) {
            const Client b =
                kind[0] == 'r' ? memory<Read>("B", 8, 4 * kGiB, 1) : memory<Write>("B", 8, 4 * kGiB, 1);
            clients.push_back(b.on(sm_range(66, 66 + sms)));
          }
          const Rates r = rates(clients, 400, reuse.client.per_sm == 1 ? 3000 : 1200, 2);
          const double b_rate = sms > 0 ? median(r.per_us[1]) * kGBps : 0;
          print_record({{"intensity", reuse.intensity},
                        {"MiB", mib},
                        {"b_access", kind},
                        {"b_sms", sms},
                        {"b_GB_per_s", b_rate}},
                       "a_GB_per_s", scaled(r.per_us[0], kGBps));
        }
    }
}
