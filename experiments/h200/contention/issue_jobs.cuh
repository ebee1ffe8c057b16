// What the pipes of an SM do, and who gets its issue slots.
#pragma once

#include "clients.cuh"

struct Sized {
  Client client;
  const char* per;  // what its amount counts
};
std::vector<Sized> pipe_units(int per_sm, int threads) {
  const auto unit = [&](Client c, const char* per) {
    c.per_sm = per_sm;
    c.threads = threads;
    c.shared = c.kernel == client<Wgmma> ? 12288 : 4096;
    return Sized{c.in(buffer(0), kGiB), per};
  };
  return {unit(client_of<Fma<1>>("fma, 1 chain", 1, 32), "instructions"),
          unit(client_of<Fma<2>>("fma, 2 chains", 1, 32), "instructions"),
          unit(client_of<Fma<4>>("fma, 4 chains", 1, 32), "instructions"),
          unit(client_of<Fma<8>>("fma, 8 chains", 1, 32), "instructions"),
          unit(client_of<Fma3Registers>("fma of 3 registers, 4 chains", 1, 32), "instructions"),
          unit(client_of<FmaLogic>("fma and logic, 8 chains", 1, 32), "instructions"),
          unit(client_of<Logic>("logic", 1, 32), "instructions"),
          unit(client_of<Imad>("imad", 1, 32), "instructions"),
          unit(client_of<Mufu>("mufu", 1, 32), "instructions"),
          unit(client_of<Fp64>("fp64", 1, 32), "instructions"),
          unit(client_of<Mma>("mma_sync", 1, 32), "multiply-adds"),
          unit(client_of<Wgmma>("wgmma", 1, 32), "multiply-adds"),
          unit(client_of<Shared4>("shared 4 B", 1, 32), "bytes"),
          unit(client_of<Shared16>("shared 16 B", 1, 32), "bytes"),
          unit(client_of<Cached4>("L1 4 B", 1, 32), "bytes"),
          unit(client_of<Cached16>("L1 16 B", 1, 32), "bytes"),
          unit(client_of<GemmLike>("gemm-like", 1, 32), "instructions"),
          unit(client_of<Pointwise<10>>("pointwise, 10 FMA", 1, 32), "bytes"),
          unit(client_of<Pointwise<40>>("pointwise, 40 FMA", 1, 32), "bytes")};
}

void pipes() {
  for (int per_sm : {1, 2, 4, 8, 16})
    for (Sized& s : pipe_units(per_sm, 128)) {
      if (s.client.resident() < per_sm) continue;
      const Rates r = rates({s.client}, 200);
      const double mhz = median(r.mhz[0]);
      print_record(
          {{"unit", s.client.name}, {"warps_per_sm", 4 * per_sm}, {"amount", s.per}, {"sm_mhz", mhz}},
          "per_cycle_and_sm", scaled(r.per_us[0], 1 / (kSms * mhz)));
    }
}

// The clock after each 100 ms of a load on the whole GPU.
void clocks() {
  std::vector<Client> loads = {client_of<Fma4>("fma", 4, 256), client_of<Wgmma>("wgmma", 2, 256),
                               client_of<Mma>("mma_sync", 2, 256),
                               client_of<Read>("dram_read", 8, 256).in(buffer(0), 4 * kGiB)};
  loads[1].shared = 12288;
  for (const Client& c : loads) {
    Samples mhz, rate;
    for (int i = 0; i < 8; ++i) {
      const Outcome o = run_together({c}, 100e3)[0];
      mhz.push_back(o.mhz);
      rate.push_back(o.per_us);
    }
    print_record({{"load", c.name}}, "sm_mhz", mhz);
    print_record({{"load", c.name}}, "amount_per_us", rate);
  }
}

// How equal warps share a scheduler, by age: blocks of one warp a scheduler, in order of their start.
void age_ranks() {
  for (int per_sm : {2, 3, 4, 6, 8, 12, 16})
    for (const Sized& s : pipe_units(per_sm, 128)) {
      if (s.client.resident() < per_sm) continue;
      std::vector<double> share(per_sm, 0.0);
      double total = 0;
      for (int repeat = 0; repeat < 3; ++repeat) {
        struct Place {
          u64 start;
          unsigned block, units;
        };
        std::vector<std::vector<Place>> by_sm(kSms);
        const Outcome o = run_together({s.client}, 300)[0];
        for (size_t i = 0; i < o.logs.size(); i += 4) {
          unsigned units = 0;
          for (size_t k = i; k < i + 4; ++k) units += o.logs[k].units;
          by_sm[o.logs[i].sm].push_back({o.logs[i].start, o.logs[i].block, units});
        }
        for (auto& places : by_sm) {
          std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
            return a.start != b.start ? a.start < b.start : a.block < b.block;
          });
          for (size_t rank = 0; rank < places.size(); ++rank) {
            share[rank] += places[rank].units;
            total += places[rank].units;
          }
        }
      }
      std::string list;
      for (double v : share) {
        char text[16];
        std::snprintf(text, sizeof text, "%s%.4f", list.empty() ? "" : " ", v / total);
        list += text;
      }
      print_record({{"unit", s.client.name}, {"warps_per_scheduler", per_sm}, {"shares_oldest_first", list}},
                   "share_of_oldest", {share[0] / total});
    }
}

// Order.

// Runs the clients together and each alone; a record for each client that is there in the window.
void print_together(const Case& fields, const std::vector<Client>& clients, double window_us = 500) {
  const Rates together = rates(clients, window_us, 700);
  for (size_t i = 0; i < clients.size(); ++i) {
    if (clients[i].leaves_early) continue;
    const double alone = median(rates({clients[i]}, window_us).per_us[0]);
    Case c = fields;
    c.push_back({"client", clients[i].name});
    c.push_back({"place_in_order", static_cast<int>(i)});
    c.push_back({"per_sm", clients[i].per_sm});
    c.push_back({"threads", clients[i].threads});
    c.push_back({"urgent", clients[i].urgent ? 1 : 0});
    if (!together.last[i].logs.empty()) {
      double slot = 0, least = 64, most = 0;
      for (const WarpLog& l : together.last[i].logs) {
        slot += l.slot;
        least = std::min(least, 1.0 * l.slot);
        most = std::max(most, 1.0 * l.slot);
      }
      c.push_back({"warp_slot_mean", slot / together.last[i].logs.size()});
      c.push_back({"warp_slot_least", least});
      c.push_back({"warp_slot_most", most});
    }
    print_record(c, "rate_over_rate_alone", scaled(together.per_us[i], 1 / alone));
  }
}

void issue_order() {
  const auto fma = [](const char* name, int per_sm) { return client_of<Fma4>(name, per_sm, 256); };
  const auto lower = [](Client c) {
    c.leaves_early = true;
    return c;
  };
  const auto urgent = [](Client c) {
    c.urgent = true;
    return c;
  };
  for (int n : {1, 2}) {
    print_together({{"case", "A, then B"}}, {fma("A", n), fma("B", n)});
    print_together({{"case", "low slots taken, A, low slots freed, B"}},
                   {lower(fma("D", 4)), fma("A", n), fma("B", n)});
    print_together({{"case", "A, then urgent B"}}, {fma("A", n), urgent(fma("B", n))});
    print_together({{"case", "urgent B, then A"}}, {urgent(fma("B", n)), fma("A", n)});
  }
  print_together({{"case", "A, B, C in turn"}}, {fma("A", 1), fma("B", 1), fma("C", 1)});
  print_together({{"case", "A, B, C in turn, dependent"}},
                 {client_of<Fma1>("A", 1, 256), client_of<Fma1>("B", 1, 256), client_of<Fma1>("C", 1, 256)});
  print_together({{"case", "A, then B, dependent"}},
                 {client_of<Fma1>("A", 2, 256), client_of<Fma1>("B", 2, 256)});
  print_together({{"case", "low slots taken, A, low slots freed, B, dependent"}},
                 {lower(fma("D", 4)), client_of<Fma1>("A", 2, 256), client_of<Fma1>("B", 2, 256)});
  // Blocks of a few us that come and go (100 KiB of shared memory: two an SM) beside lasting ones.
  for (int block_units : {1, 2, 10, 50}) {
    Client passing = fma("passing", 2), lasting = fma("lasting", 2);
    // An SM divides L1 and shared memory in one way at a time: the lasting blocks must not hold it in
    // another.
    passing.all_shared = lasting.all_shared = true;
    passing.block_units = block_units;
    passing.shared = 100 * 1024;
    const Case c = {{"block_units", block_units}};
    const auto with = [&](const char* name) {
      Case all = c;
      all.push_back({"case", name});
      return all;
    };
    print_together(with("lasting, then passing"), {lasting, passing});
    print_together(with("lasting, then urgent passing"), {lasting, urgent(passing)});
    print_together(with("passing, then urgent lasting"), {passing, urgent(lasting)});
    print_together(with("passing, then urgent passing"), {passing, urgent(passing)});
    lasting.per_sm = 1;
    print_together(with("lasting 1, then passing"), {lasting, passing});
  }
}

// By how many warps of each age there are: blocks of 128 threads, so a block is one warp a scheduler.
void shares() {
  const char* const names[] = {"fma, 1 chain",      "fma, 2 chains",     "fma, 4 chains", "gemm-like",
                               "pointwise, 10 FMA", "pointwise, 40 FMA", "shared 16 B",   "mma_sync"};
  const int counts[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}, {4, 1}, {4, 4}, {2, 6}, {6, 2}};
  for (const char* name : names)
    for (const auto& [older, younger] : counts) {
      std::vector<Client> clients;
      for (int n : {older, younger})
        for (const Sized& s : pipe_units(n, 128))
          if (std::strcmp(s.client.name, name) == 0) clients.push_back(s.client);
      clients[1].data = buffer(1);
      print_together({{"older_warps_per_scheduler", older}, {"younger_warps_per_scheduler", younger}},
                     clients, 300);
    }
}

// Pairs of units on the same SMs.

void pairs() {
  std::vector<Sized> all = pipe_units(2, 256);
  all.push_back({client_of<Read>("L2 read", 2, 256).in(buffer(0), 8 * kMiB), "bytes"});
  all.push_back({client_of<Read>("DRAM read", 2, 256).in(buffer(0), 2 * kGiB), "bytes"});
  std::vector<double> alone;
  for (const Sized& s : all) {
    const Rates r = rates({s.client}, 200);
    alone.push_back(median(r.per_us[0]));
    print_record({{"unit", s.client.name}, {"amount", s.per}}, "alone_per_cycle_and_sm",
                 scaled(r.per_us[0], 1 / (kSms * median(r.mhz[0]))));
  }
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < all.size(); ++b) {
      Client first = all[a].client, second = all[b].client;
      second.data = buffer(1);
      const Rates r = rates({first, second}, 200, 500);
      const Case c = {{"first", first.name}, {"second", second.name}};
      print_record(c, "first_over_alone", scaled(r.per_us[0], 1 / alone[a]));
      print_record(c, "second_over_alone", scaled(r.per_us[1], 1 / alone[b]));
    }
}

void barriers() {
  struct Variant {
    Client client;
    int between;
  };
  const auto variants = [](int per_sm, int threads) {
    return std::vector<Variant>{{client_of<Sync<8>>("barrier", per_sm, threads), 8},
                                {client_of<Sync<32>>("barrier", per_sm, threads), 32},
                                {client_of<Sync<128>>("barrier", per_sm, threads), 128},
                                {client_of<Sync<512>>("barrier", per_sm, threads), 512}};
  };
  for (int threads : {64, 256, 1024})
    for (int per_sm : {1, 2, 4, 8}) {
      if (per_sm * threads > 2048) continue;
      for (const Variant& v : variants(per_sm, threads)) {
        const Rates r = rates({v.client}, 200);
        print_record({{"threads", threads}, {"per_sm", per_sm}, {"fma_between", v.between}},
                     "instructions_per_cycle_and_sm", scaled(r.per_us[0], 1 / (kSms * median(r.mhz[0]))));
      }
    }
  for (int fma_per_sm : {1, 2})
    for (const Variant& v : variants(2, 256)) {
      const Client fma = client_of<Fma4>("fma", fma_per_sm, 256);
      const Case c = {{"fma_between", v.between}, {"fma_per_sm", fma_per_sm}};
      print_together(c, {fma, v.client}, 300);
      print_together(c, {v.client, fma}, 300);
    }
}
