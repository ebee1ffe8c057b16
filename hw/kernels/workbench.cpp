#include "hw/kernels/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "hw/transform/embedded_device_code.h"
#include "traces/model/error.h"

namespace corun::hw {

Taking taking_for(std::uint64_t blocks, std::uint32_t workers, Time solo) {
  // As measured on an H200 (experiments/h200/persistent_kernels): a block's turn costs 0.4 us more than a
  // plain grid's, which chunks of four hide where blocks are short.
  constexpr double kShortNs = 5000;
  constexpr std::uint64_t kChunk = 4, kVeryShortNs = 1250, kLongChunk = 8;
  const double block_ns =
      to_ns(solo) * std::min<double>(workers, static_cast<double>(blocks)) / static_cast<double>(blocks);
  Taking t{1, true};
  if (block_ns >= kShortNs) return t;
  const std::uint64_t wanted = block_ns < kVeryShortNs ? kLongChunk : kChunk;
  t.chunk =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks / (std::uint64_t{workers} * 4), 1, wanted));
  t.prefetch = t.chunk == 1;
  return t;
}

LaunchParameters launch_parameters(std::uint32_t first, std::uint32_t end, const Taking& taking,
                                   std::uint32_t workers) {
  LaunchParameters p;
  p.first = first, p.end = end, p.chunk = taking.chunk;
  const std::uint32_t blocks = end - first, singles = taking.chunk == 1 ? 0 : std::min(blocks, 2 * workers);
  p.large = (blocks - singles) / taking.chunk;
  p.chunks = p.large + (blocks - p.large * taking.chunk);
  p.single = p.chunks <= workers;
  p.progress_mask = std::bit_ceil(std::max(1u, p.chunks / 128)) - 1;
  return p;
}

Instance::Instance(Driver& driver, const LibraryKernel& kernel) : driver_(driver), kernel_(kernel) {
  for (const Buffer& b : kernel.buffers) buffers_.push_back(driver.allocate(b.bytes()));
  for (const Argument& a : kernel.arguments) {
    std::uint64_t value = 0;
    std::visit(
        [&](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, BufferArgument>)
            value = buffers_[v.buffer];
          else
            std::memcpy(&value, &v, sizeof v);
        },
        a);
    values_.push_back(value);
  }
}
Instance::~Instance() {
  for (DevicePointer p : buffers_) {
    try {
      driver_.free(p);
    } catch (const DriverError&) {  // the context is lost: nothing is left to free
    }
  }
}
std::vector<void*> Instance::parameters() {
  std::vector<void*> p;
  p.reserve(values_.size() + 1);
  for (std::uint64_t& v : values_) p.push_back(&v);
  return p;
}

Workbench::Workbench(Driver& driver, Compiler& compiler) : driver_(driver), compiler_(compiler) {}
Workbench::~Workbench() {
  try {
    if (sum_ != 0) driver_.free(sum_);
  } catch (const DriverError&) {
  }
}

const Plain& Workbench::plain(const LibraryKernel& k) {
  std::unique_ptr<Plain>& p = code_[&k].plain;
  if (!p) {
    const std::string code = compiler_.compile(std::string(library_source(k.source)), k.source + ".cu", {});
    p = std::make_unique<Plain>();
    p->function = driver_.load(code, k.entry);
    p->facts = driver_.facts(p->function);
    if (k.dynamic_shared_bytes > 0) driver_.allow_shared_memory(p->function, k.dynamic_shared_bytes);
    p->blocks_per_sm = driver_.blocks_per_sm(p->function, k.threads(), k.dynamic_shared_bytes);
  }
  return *p;
}

const Traits& Workbench::traits(const LibraryKernel& k) {
  std::unique_ptr<Transformed>& t = code_[&k].transformed;
  if (!t)
    t = std::make_unique<Transformed>(make_persistent(library_source(k.source), k.source + ".cu", k.entry));
  return t->traits;
}

const Persistent& Workbench::persistent(const LibraryKernel& k, const Taking& taking, bool logged) {
  const Plain& as = plain(k);
  traits(k);
  const Transformed& t = *code_[&k].transformed;
  std::unique_ptr<Persistent>& p = code_[&k].persistent[{taking.prefetch, taking.chunk > 1, logged}];
  if (!p) {
    const int block_dimensions = k.block.z > 1 ? 3 : k.block.y > 1 ? 2 : 1;
    const int dimensions = k.grid.z > 1 ? 3 : k.grid.y > 1 ? 2 : 1;
    const std::string code = compiler_.compile(
        t.text, k.source + ".cu",
        {fmt::format("-DCORUN_THREADS={}", k.threads()), fmt::format("-DCORUN_RESIDENT={}", as.blocks_per_sm),
         fmt::format("-DCORUN_DIMENSIONS={}", dimensions),
         fmt::format("-DCORUN_BLOCK_DIMENSIONS={}", block_dimensions),
         fmt::format("-DCORUN_PREFETCH={:d}", taking.prefetch),
         fmt::format("-DCORUN_CHUNKED={:d}", taking.chunk > 1), fmt::format("-DCORUN_LOGGED={:d}", logged)});
    p = std::make_unique<Persistent>();
    p->function = driver_.load(code, t.entry);
    if (logged) p->located = driver_.load(code, k.entry + "__located");
    p->facts = driver_.facts(p->function);
    if (k.dynamic_shared_bytes > 0) driver_.allow_shared_memory(p->function, k.dynamic_shared_bytes);
    p->workers_per_sm = driver_.blocks_per_sm(p->function, k.threads(), k.dynamic_shared_bytes);
    // Workers never make room for one another, so all must fit at once: the driver's own division may hold
    // fewer.
    constexpr std::uint32_t kReserved = 1024, kUnit = 128;
    const std::uint32_t of_one =
        (p->facts.static_shared_bytes + k.dynamic_shared_bytes + kReserved + kUnit) / kUnit * kUnit;
    driver_.prefer_shared_memory(p->function, p->workers_per_sm * of_one);
  }
  return *p;
}

Function Workbench::tool(const std::string& entry) {
  if (tools_.empty()) tools_ = compiler_.compile(std::string(library_source("fill")), "fill.cu", {});
  return driver_.load(tools_, entry);
}

void Workbench::prepare(Instance& instance, std::uint32_t seed, Stream s) {
  const LibraryKernel& k = instance.kernel();
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i) {
    const Buffer& b = k.buffers[i];
    if (!b.input) continue;
    DevicePointer at = instance.buffer(i);
    auto n = static_cast<std::uint32_t>(b.elements);
    std::uint32_t of_buffer = seed * 64 + i, modulus = b.modulus;
    float low = b.low, range = b.range;
    void* numbers[] = {&at, &n, &of_buffer, &low, &range};
    void* integers[] = {&at, &n, &of_buffer, &modulus};
    const bool whole = b.type == Type::u32;
    const char* entry = whole                 ? "fill_u32"
                        : b.type == Type::f64 ? "fill_f64"
                        : b.type == Type::f16 ? "fill_f16"
                                              : "fill_f32";
    driver_.launch(tool(entry), {1024, 1, 1}, {256, 1, 1}, 0, s,
                   whole ? std::span<void* const>(integers) : std::span<void* const>(numbers));
  }
  poison(instance, 0xa5, s);
}

void Workbench::poison(Instance& instance, std::uint8_t value, Stream s) {
  const LibraryKernel& k = instance.kernel();
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i)
    if (!k.buffers[i].input) driver_.fill(s, instance.buffer(i), value, k.buffers[i].bytes());
  driver_.synchronize(s);
}

std::uint64_t Workbench::digest(Instance& instance, Stream s) {
  if (sum_ == 0) sum_ = driver_.allocate(8);
  driver_.fill(s, sum_, 0, 8);
  const LibraryKernel& k = instance.kernel();
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i) {
    if (k.buffers[i].input) continue;
    DevicePointer at = instance.buffer(i), to = sum_;
    auto words = static_cast<std::uint32_t>(k.buffers[i].bytes() / 4);
    void* parameters[] = {&at, &words, &to};
    driver_.launch(tool("digest"), {1024, 1, 1}, {256, 1, 1}, 0, s, parameters);
  }
  std::uint64_t sum = 0;
  driver_.copy_to_host(s, &sum, sum_, 8);
  driver_.synchronize(s);
  return sum;
}

namespace {
class HostOutputs final : public Outputs {
 public:
  const void* at(std::uint32_t buffer) const override { return data.at(buffer).data(); }
  std::map<std::uint32_t, std::vector<char>> data;
};
}  // namespace

std::string Workbench::check(Instance& instance, std::uint32_t seed, Stream s) {
  const LibraryKernel& k = instance.kernel();
  HostOutputs outputs;
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i) {
    if (k.buffers[i].input) continue;
    std::vector<char>& to = outputs.data[i];
    to.resize(k.buffers[i].bytes());
    driver_.copy_to_host(s, to.data(), instance.buffer(i), to.size());
  }
  driver_.synchronize(s);
  return k.check(seed, outputs);
}

void Workbench::launch(Instance& instance, Stream s) {
  const LibraryKernel& k = instance.kernel();
  driver_.launch(plain(k).function, k.grid, k.block, k.dynamic_shared_bytes, s, instance.parameters());
}

void Workbench::launch(Instance& instance, const Persistent& how, std::uint32_t workers,
                       LaunchParameters parameters, Stream s) {
  const LibraryKernel& k = instance.kernel();
  parameters.grid_x = k.grid.x, parameters.grid_y = k.grid.y, parameters.grid_z = k.grid.z;
  std::vector<void*> all = instance.parameters();
  all.push_back(&parameters);
  driver_.launch(how.function, {workers, 1, 1}, k.block, k.dynamic_shared_bytes, s, all);
}

}  // namespace corun::hw
