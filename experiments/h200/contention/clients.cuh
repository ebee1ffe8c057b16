// The host side of clients: launches them one after the other, lets them run together for a window of the
// GPU's timer and counts what each did in it.
#pragma once

#include "../launch_path/support.cuh"
#include "../../../hw/calibrate/client_kernel.cuh"

// A record is a line of JSON, printed at once so that a job that is killed keeps what it has measured.
using Case = std::vector<Field>;
void print_record(const Case& fields, const char* metric, Samples samples) {
  std::string line;
  for (const Field& f : fields) line += f.text + ", ";
  line += std::string("\"metric\": \"") + metric + "\"";
  const auto number = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", v);
    return std::string(text);
  };
  if (samples.size() == 1) line += ", \"value\": " + number(samples[0]);
  if (samples.size() > 1) {
    std::string raw;
    const size_t step = (samples.size() + 99) / 100;
    for (size_t i = 0; i < samples.size(); i += step) raw += (i ? ", " : "") + number(samples[i]);
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double p) { return number(samples[std::lround(p * (samples.size() - 1))]); };
    double sum = 0;
    for (double s : samples) sum += s;
    const bool many = samples.size() >= 10;
    line += ", \"n\": " + std::to_string(samples.size()) + ", \"min\": " + at(0);
    if (many) line += ", \"p10\": " + at(.1);
    line += ", \"value\": " + at(.5);
    if (many) line += ", \"p90\": " + at(.9);
    line += ", \"max\": " + at(1) + ", \"mean\": " + number(sum / samples.size()) + ", \"samples\": [" + raw +
            "]";
  }
  std::printf("{%s}\n", line.c_str());
  std::fflush(stdout);
}
double median(Samples samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

constexpr int kSms = 132, kTimeline = 200;  // us between two launches
constexpr u64 kMiB = u64{1} << 20, kGiB = u64{1} << 30;

struct Client {
  const char* name;
  void (*kernel)(Work);
  double amount;
  int per_sm, threads;
  int shared = 4096;
  char* data = nullptr;
  u64 bytes = 0;
  unsigned stride = 128;
  std::vector<int> sms = {};  // empty: all
  int idle_cycles = 0;
  int block_units = 0;        // with it the grid is of many blocks that come and go
  bool urgent = false;        // a stream of the highest priority
  bool leaves_early = false;  // when the last client is about to come
  bool all_shared = false;    // the L1 cache's memory given to shared memory, as much as can be

  int resident() const {
    int blocks = 0;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
    CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, all_shared ? 100 : -1));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared));
    return blocks;
  }
  int sm_count() const { return sms.empty() ? kSms : static_cast<int>(sms.size()); }
  Client on(std::vector<int> which) const {
    Client c = *this;
    c.sms = std::move(which);
    return c;
  }
  Client in(char* buffer, u64 size) const {
    Client c = *this;
    c.data = buffer;
    c.bytes = size;
    return c;
  }
};
template <class Unit>
Client client_of(const char* name, int per_sm, int threads) {
  return {name, client<Unit>, Unit::kAmount, per_sm, threads};
}

struct Outcome {
  double per_us = 0;  // amount
  double mhz = 0;
  int places = 0;
  std::vector<WarpLog> logs;
};

__global__ void read_timer(u64* out) { *out = globaltimer(); }

// Clients start in the given order, 200 us apart, with settle_us between the last launch and the window.
// `meanwhile` is called when the last client has settled for half of that.
std::vector<Outcome> run_together(const std::vector<Client>& clients, double window_us,
                                  double settle_us = 400, const std::function<void()>& meanwhile = {}) {
  constexpr int kMost = 4, kMostWarps = kSms * 64;
  static u64* const timer = mapped_array<u64>(1);
  static std::vector<cudaStream_t> streams, urgent;
  static unsigned char* wanted[kMost];
  static unsigned* claimed[kMost];
  static u64* units[kMost];
  static WarpLog* logs[kMost];
  if (streams.empty())
    for (int i = 0; i < kMost; ++i) {
      streams.push_back(make_stream());
      urgent.push_back(make_stream(-5));
      wanted[i] = device_array<unsigned char>(kMaxSms);
      claimed[i] = device_array<unsigned>(kMaxSms + 1);
      units[i] = device_array<u64>(2);
      logs[i] = device_array<WarpLog>(kMostWarps);
    }
  const int count = static_cast<int>(clients.size());
  REQUIRE(count <= kMost);
  std::vector<int> grids;
  for (int i = 0; i < count; ++i) {
    const Client& c = clients[i];
    std::vector<unsigned char> w(kMaxSms, c.sms.empty());
    for (int sm : c.sms) w[sm] = 1;
    CHECK(cudaMemcpy(wanted[i], w.data(), kMaxSms, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(claimed[i], 0, (kMaxSms + 1) * sizeof(unsigned)));
    CHECK(cudaMemset(units[i], 0, 2 * sizeof(u64)));
    CHECK(cudaMemset(logs[i], 0, kMostWarps * sizeof(WarpLog)));
    const int resident = c.resident();  // also lets the kernel have its shared memory
    grids.push_back(c.block_units > 0 ? 400'000 : resident * kSms);
  }
  read_timer<<<1, 1, 0, streams[0]>>>(timer);
  CHECK(cudaStreamSynchronize(streams[0]));
  const u64 zero = *const_cast<volatile u64*>(timer);
  const double host_zero = now_us();
  const auto at = [&](double us) { return zero + static_cast<u64>(us * 1e3); };
  const double begin = kTimeline * count + settle_us;
  for (int i = 0; i < count; ++i) {
    const Client& c = clients[i];
    Work w{};
    w.release = at(kTimeline * i + 140);
    w.begin = at(begin);
    w.end = at(begin + window_us);
    w.leave = c.leaves_early ? at(std::max(0, kTimeline * (count - 1) - 30)) : at(begin + window_us + 10);
    w.data = c.data;
    w.bytes = c.bytes;
    w.warps = c.per_sm * c.sm_count() * c.threads / 32;
    w.stride = c.stride;
    w.idle_cycles = c.idle_cycles;
    w.block_units = c.block_units;
    w.wanted = wanted[i];
    w.per_sm = c.per_sm;
    w.claimed = claimed[i];
    w.units = units[i];
    w.logs = c.block_units > 0 ? nullptr : logs[i];
    while (now_us() < host_zero + kTimeline * i) {
    }
    c.kernel<<<grids[i], c.threads, c.shared, (c.urgent ? urgent : streams)[i]>>>(w);
    CHECK(cudaGetLastError());
  }
  if (meanwhile) {
    while (now_us() < host_zero + kTimeline * count + settle_us / 2) {
    }
    meanwhile();
  }
  CHECK(cudaDeviceSynchronize());
  std::vector<Outcome> outcomes;
  for (int i = 0; i < count; ++i) {
    const Client& c = clients[i];
    Outcome o;
    o.per_us = read_back(units[i], 1)[0] * c.amount / window_us;
    o.places = static_cast<int>(read_back(claimed[i], kMaxSms + 1)[kMaxSms]);
    if (c.block_units == 0) {
      o.logs = read_back(logs[i], o.places * (c.threads / 32));
      int seen = 0;
      for (const WarpLog& l : o.logs)
        if (l.last > l.first + 50'000)
          o.mhz += 1e3 * (l.last_cycle - l.first_cycle) / (l.last - l.first), ++seen;
      if (seen > 0) o.mhz /= seen;
      if (o.places != c.per_sm * c.sm_count())
        std::fprintf(stderr, "%s: %d of %d places\n", c.name, o.places, c.per_sm * c.sm_count());
    }
    outcomes.push_back(std::move(o));
  }
  return outcomes;
}

// Rates of each client over several repeats: [client][repeat], in amount per us.
struct Rates {
  std::vector<Samples> per_us, mhz;
  std::vector<Outcome> last;
};
Rates rates(const std::vector<Client>& clients, double window_us, double settle_us = 400, int repeats = 3) {
  Rates r;
  r.per_us.resize(clients.size());
  r.mhz.resize(clients.size());
  for (int k = 0; k < repeats; ++k) {
    r.last = run_together(clients, window_us, settle_us);
    for (size_t i = 0; i < clients.size(); ++i) {
      r.per_us[i].push_back(r.last[i].per_us);
      r.mhz[i].push_back(r.last[i].mhz);
    }
  }
  return r;
}
Samples scaled(Samples samples, double factor) {
  for (double& s : samples) s *= factor;
  return samples;
}

// Two buffers of device memory, one for each of two clients that must not share lines.
constexpr u64 kBuffer = 16 * kGiB;
char* buffer(int which) {
  static char* const b[2] = {device_array<char>(kBuffer), device_array<char>(kBuffer)};
  return b[which];
}
void make_chain(char* data, unsigned count, unsigned stride) {
  fill_chain<<<1056, 256>>>(data, count, stride);
  CHECK(cudaDeviceSynchronize());
}
std::vector<int> sm_range(int first, int last) {
  std::vector<int> v;
  for (int sm = first; sm < last; ++sm) v.push_back(sm);
  return v;
}
// One SM of each TPC before the second ones; TPCs of one GPC are 7 or 8 apart in number.
std::vector<int> spread_sms(int count) {
  std::vector<int> v;
  for (int i = 0; i < count; ++i) v.push_back(i < kSms / 2 ? 2 * i : 2 * (i - kSms / 2) + 1);
  return v;
}
