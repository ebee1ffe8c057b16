#include "hw/kernels/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "hw/transform/embedded_device_code.h"
#include "hw/transform/padding.h"
#include "traces/model/error.h"

namespace corun::hw {

namespace {

double block_ns(std::uint64_t blocks, std::uint32_t workers, Time solo) {
  return to_ns(solo) * std::min<double>(workers, static_cast<double>(blocks)) / static_cast<double>(blocks);
}

// As measured on an H200 (experiments/h200/persistent_kernels): a counter gives 1.3 numbers a nanosecond, so
// that 1,056 workers wait 0.8 us each; chunks hide that where blocks are short.
std::uint32_t wanted_chunk(std::uint64_t blocks, std::uint32_t workers, Time solo) {
  constexpr double kShortNs = 5000, kVeryShortNs = 1250;
  constexpr std::uint32_t kChunk = 4, kLongChunk = 8;
  const double ns = block_ns(blocks, workers, solo);
  return ns >= kShortNs ? 1 : ns < kVeryShortNs ? kLongChunk : kChunk;
}

std::uint32_t chunk_for(std::uint64_t blocks, std::uint32_t workers, Time solo) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks / (std::uint64_t{workers} * 4), 1,
                                                              wanted_chunk(blocks, workers, solo)));
}

}  // namespace

std::vector<Taking> sized_takings_for(std::uint64_t blocks, std::uint32_t workers, Time solo, bool seated) {
  const std::uint32_t chunk = chunk_for(blocks, workers, solo);
  return {{chunk, chunk == 1, false, seated}, {chunk, chunk != 1, false, seated}};
}

std::vector<Taking> stoppable_takings_for(std::uint64_t blocks, std::uint32_t workers, Time solo) {
  constexpr std::uint64_t kMostOnce = 10'000;  // that a stop has to let pass, at 1.2 a nanosecond
  constexpr double kMostDelayNs = 25'000;      // of a stop, which waits for what is taken
  const std::uint32_t chunk = chunk_for(blocks, workers, solo);
  std::vector<Taking> all{{chunk, false}};
  // Where all are taken at once, nothing is ever taken ahead: it is other code for the same.
  if (blocks <= workers || (chunk > 1 && 2 * chunk * block_ns(blocks, workers, solo) <= kMostDelayNs))
    all.push_back({chunk, true});
  const std::uint64_t most =
      std::clamp<std::uint64_t>(blocks / workers, 1, wanted_chunk(blocks, workers, solo));
  for (std::uint64_t once : std::set{most, std::uint64_t{1}})
    if (blocks <= kMostOnce * once) all.push_back({static_cast<std::uint32_t>(once), false, true});
  return all;
}

LaunchParameters launch_parameters(std::uint32_t first, std::uint32_t end, const Taking& taking,
                                   std::uint32_t workers) {
  LaunchParameters p;
  p.first = first, p.end = end, p.chunk = taking.chunk;
  const std::uint32_t blocks = end - first,
                      singles = taking.chunk == 1 ? 0 : std::min(blocks, taking.once ? workers : 2 * workers);
  p.large = (blocks - singles) / taking.chunk;
  p.chunks = p.large + (blocks - p.large * taking.chunk);
  p.single = taking.once || p.chunks <= workers;
  p.progress_mask = std::bit_ceil(std::max(1u, p.chunks / 128)) - 1;
  return p;
}

std::uint32_t workers_of(const LaunchParameters& p, const Taking& taking, std::uint32_t workers) {
  return taking.once ? p.chunks : std::min(p.chunks, workers);
}

Instance::Instance(Driver& driver, const LibraryKernel& kernel) : driver_(driver), kernel_(kernel) {
  for (const Buffer& b : kernel.buffers) buffers_.push_back(driver.allocate(b.bytes()));
  set_arguments();
}
Instance::Instance(Driver& driver, const LibraryKernel& kernel, std::vector<DevicePointer> buffers)
    : driver_(driver), kernel_(kernel), owns_(false), buffers_(std::move(buffers)) {
  set_arguments();
}
void Instance::set_arguments() {
  for (const Argument& a : kernel_.arguments) {
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
  if (!owns_) return;
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

std::vector<char> Instance::packed() const {
  std::vector<char> all;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::size_t bytes = std::visit(
        [](const auto& v) -> std::size_t {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, BufferArgument>)
            return sizeof(DevicePointer);
          else
            return sizeof v;
        },
        kernel_.arguments[i]);
    all.resize((all.size() + bytes - 1) / bytes * bytes);
    const auto* from = reinterpret_cast<const char*>(&values_[i]);
    all.insert(all.end(), from, from + bytes);
  }
  all.resize((all.size() + 7) / 8 * 8 + 8);  // at least what the structure has
  return all;
}

Workbench::Workbench(Driver& driver, Compiler& compiler) : driver_(driver), compiler_(compiler) {}
Workbench::~Workbench() {
  prepared_.clear();
  try {
    for (const auto& [groups, p] : partitions_) driver_.destroy(p);
    if (sum_ != 0) driver_.free(sum_);
    if (published_.host != nullptr) driver_.free(published_);
  } catch (const DriverError&) {
  }
}

Workbench::Prepared& Workbench::prepared(const LibraryKernel& k, std::uint32_t seed, Stream s) {
  Prepared& p = prepared_[{&k, seed}];
  if (p.instance) {
    poison(*p.instance, 0xa5, s);
    return p;
  }
  auto instance = std::make_unique<Instance>(driver_, k);
  prepare(*instance, seed, s);
  launch(*instance, s);
  p.expected = digest(*instance, s);
  if (const std::string wrong = check(*instance, seed, s); !wrong.empty())
    throw DriverError(fmt::format("kernel {}, alone and plain, gives wrong results: {}", k.name, wrong));
  poison(*instance, 0xa5, s);
  p.instance = std::move(instance);
  return p;
}

Partition Workbench::partition(const std::vector<std::uint32_t>& groups) {
  Partition& p = partitions_[groups];
  if (!p) p = driver_.partition(groups);
  return p;
}

const std::vector<std::uint32_t>& Workbench::group_of_tpc(std::uint32_t tpcs, std::uint32_t sms_per_tpc) {
  if (!group_of_tpc_.empty()) return group_of_tpc_;
  const std::uint32_t groups = driver_.sm_groups();
  group_of_tpc_.assign(tpcs, groups);
  const HostMemory word = driver_.allocate_host(4);
  for (std::uint32_t g = 0; g < groups; ++g) {
    const Partition p = driver_.partition(std::span(&g, 1));
    const Stream s = driver_.stream(0, p);
    DevicePointer to = word.device;
    void* parameters[] = {&to};
    driver_.launch(tool("where"), {1, 1, 1}, {32, 1, 1}, 0, s, parameters);
    driver_.synchronize(s);
    const std::uint32_t tpc = *static_cast<volatile std::uint32_t*>(word.host) / sms_per_tpc;
    driver_.destroy(s);
    driver_.destroy(p);
    if (tpc < group_of_tpc_.size()) group_of_tpc_[tpc] = g;
  }
  driver_.free(word);
  return group_of_tpc_;
}

const std::string& Workbench::compiled(const std::string& text, const std::string& file,
                                       const std::vector<std::string>& options) {
  std::string& code = compiled_[{text, options}];
  if (code.empty()) code = compiler_.compile(text, file, options);
  return code;
}

/// Kernels of one code share it, but not what they allow it.
Function Workbench::loaded(const std::string& code, const std::string& entry, std::uint32_t dynamic_bytes) {
  Function& f = loaded_[{&code, entry, dynamic_bytes}];
  if (!f) f = driver_.load(code, entry);
  return f;
}

const Plain& Workbench::plain(const LibraryKernel& k) {
  std::unique_ptr<Plain>& p = code_[&k].plain;
  if (!p) {
    const std::string& code = compiled(std::string(k.code()), k.file(), {});
    p = std::make_unique<Plain>();
    try {
      p->function = loaded(code, k.entry, k.dynamic_shared_bytes);
    } catch (const DriverError& e) {
      if (k.text.empty()) throw;
      p.reset();
      throw InputError(k.file(), "",
                       fmt::format("the compiled code has no function {} ({})", k.entry, e.what()),
                       "declare it extern \"C\"");
    }
    p->facts = driver_.facts(p->function);
    if (k.dynamic_shared_bytes > 0) driver_.allow_shared_memory(p->function, k.dynamic_shared_bytes);
    p->blocks_per_sm = driver_.blocks_per_sm(p->function, k.threads(), k.dynamic_shared_bytes);
  }
  return *p;
}

const Traits& Workbench::traits(const LibraryKernel& k) {
  std::unique_ptr<Transformed>& t = code_[&k].transformed;
  if (!t) t = std::make_unique<Transformed>(make_persistent(k.code(), k.file(), k.entry));
  return t->traits;
}

const Persistent& Workbench::persistent(const LibraryKernel& k, const Taking& taking, bool logged) {
  const Plain& as = plain(k);
  traits(k);
  const Transformed& t = *code_[&k].transformed;
  std::unique_ptr<Persistent>& p =
      code_[&k].persistent[{taking.prefetch, taking.chunk > 1, logged, taking.once, taking.seated}];
  if (!p) {
    const int block_dimensions = k.block.z > 1 ? 3 : k.block.y > 1 ? 2 : 1;
    const int dimensions = k.grid.z > 1 ? 3 : k.grid.y > 1 ? 2 : 1;
    const std::string& code = compiled(
        t.text, k.file(),
        {fmt::format("-DCORUN_THREADS={}", k.threads()), fmt::format("-DCORUN_RESIDENT={}", as.blocks_per_sm),
         fmt::format("-DCORUN_DIMENSIONS={}", dimensions),
         fmt::format("-DCORUN_BLOCK_DIMENSIONS={}", block_dimensions),
         fmt::format("-DCORUN_PREFETCH={:d}", taking.prefetch),
         fmt::format("-DCORUN_CHUNKED={:d}", taking.chunk > 1), fmt::format("-DCORUN_LOGGED={:d}", logged),
         fmt::format("-DCORUN_ONCE={:d}", taking.once), fmt::format("-DCORUN_SEATED={:d}", taking.seated)});
    p = std::make_unique<Persistent>();
    p->function = loaded(code, t.entry, k.dynamic_shared_bytes);
    if (logged) p->located = loaded(code, k.entry + "__located", k.dynamic_shared_bytes);
    p->facts = driver_.facts(p->function);
    if (k.dynamic_shared_bytes > 0) driver_.allow_shared_memory(p->function, k.dynamic_shared_bytes);
    p->workers_per_sm = driver_.blocks_per_sm(p->function, k.threads(), k.dynamic_shared_bytes);
  }
  return *p;
}

bool Workbench::faster_once(Instance& instance, std::uint32_t sms, Stream s) {
  const LibraryKernel& k = instance.kernel();
  const auto [known, is_new] = faster_once_.emplace(&k, false);
  if (!is_new) return known->second;
  if (k.blocks() > std::uint64_t{sms} * plain(k).blocks_per_sm) return false;  // they would not run at once
  const Taking takings[] = {{}, {1, false, true}};
  return known->second = fastest(instance, takings, sms, s).taking.once;
}

const Padded& Workbench::padded(const LibraryKernel& first, const LibraryKernel& second, bool once) {
  const Plain &a = plain(first), &b = plain(second);
  const auto name = [](const LibraryKernel& k) {
    return fmt::format("{} {} {} {} {} {}", k.file(), k.entry, k.block.x, k.block.y, k.block.z,
                       k.dynamic_shared_bytes);
  };
  Padded& p = padded_[fmt::format("{} and {}{}", name(first), name(second), once ? ", once" : "")];
  if (p.function) return p;
  // What the larger of them needs, so that neither spills.
  constexpr std::uint32_t kRegisters = 65536, kThreads = 2048, kMost = 32, kWarpUnit = 256;
  const std::uint32_t threads = std::max(first.threads(), second.threads()), warps = (threads + 31) / 32,
                      of_warp = (std::max(a.facts.registers, b.facts.registers) * 32 + kWarpUnit - 1) /
                                kWarpUnit * kWarpUnit;
  const std::uint32_t resident =
      std::max(1u, std::min({kMost, kThreads / (warps * 32), kRegisters / (warps * of_warp)}));
  const std::string text = make_padded({first.code(), first.file(), first.entry, first.block},
                                       {second.code(), second.file(), second.entry, second.block});
  const std::string& code =
      compiled(text, "padded.cu",
               {fmt::format("-DCORUN_THREADS={}", threads), fmt::format("-DCORUN_RESIDENT={}", resident),
                fmt::format("-DCORUN_FIRST_ONCE={:d}", once)});
  const Function function = driver_.load(code, kPaddedEntry);
  p.facts = driver_.facts(function);
  p.threads = threads;
  p.dynamic_shared_bytes = std::max(first.dynamic_shared_bytes, second.dynamic_shared_bytes);
  if (p.dynamic_shared_bytes > 0) driver_.allow_shared_memory(function, p.dynamic_shared_bytes);
  p.workers_per_sm = driver_.blocks_per_sm(function, threads, p.dynamic_shared_bytes);
  p.function = function;
  return p;
}

Function Workbench::tool(const std::string& entry) {
  if (tools_.empty()) tools_ = compiler_.compile(std::string(library_source("fill")), "fill.cu", {});
  return loaded(tools_, entry, 0);
}

void Workbench::prepare(Instance& instance, std::uint32_t seed, Stream s) {
  for (std::uint32_t i = 0; i < instance.kernel().buffers.size(); ++i) fill(instance, i, seed, s);
  driver_.synchronize(s);
}

void Workbench::fill(Instance& instance, std::uint32_t i, std::uint32_t seed, Stream s) {
  const Buffer& b = instance.kernel().buffers[i];
  if (!b.input) return driver_.fill(s, instance.buffer(i), 0xa5, b.bytes());
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

void Workbench::fill_words(DevicePointer at, std::uint64_t words, std::uint32_t seed, Stream s) {
  auto n = static_cast<std::uint32_t>(words);
  std::uint32_t modulus = 0;
  void* parameters[] = {&at, &n, &seed, &modulus};
  driver_.launch(tool("fill_u32"), {1024, 1, 1}, {256, 1, 1}, 0, s, parameters);
}

void Workbench::poison(Instance& instance, std::uint8_t value, Stream s) {
  const LibraryKernel& k = instance.kernel();
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i)
    if (!k.buffers[i].input) driver_.fill(s, instance.buffer(i), value, k.buffers[i].bytes());
  driver_.synchronize(s);
}

std::uint64_t Workbench::digest(Instance& instance, Stream s) {
  const LibraryKernel& k = instance.kernel();
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i)
    if (!k.buffers[i].input) add_digest(instance.buffer(i), k.buffers[i].bytes(), s);
  return read_digest(s);
}

std::uint64_t Workbench::digest(DevicePointer at, std::uint64_t bytes, Stream s) {
  add_digest(at, bytes, s);
  return read_digest(s);
}

void Workbench::add_digest(DevicePointer at, std::uint64_t bytes, Stream s) {
  if (sum_ == 0) sum_ = driver_.allocate(8);
  if (!summing_) driver_.fill(s, sum_, 0, 8);
  summing_ = true;
  DevicePointer to = sum_;
  auto words = static_cast<std::uint32_t>(bytes / 4);
  void* parameters[] = {&at, &words, &to};
  driver_.launch(tool("digest"), {1024, 1, 1}, {256, 1, 1}, 0, s, parameters);
}

std::uint64_t Workbench::read_digest(Stream s) {
  summing_ = false;
  if (published_.host == nullptr) published_ = driver_.allocate_host(8);
  DevicePointer from = sum_, to = published_.device;
  void* parameters[] = {&from, &to};
  driver_.launch(tool("publish"), {1, 1, 1}, {1, 1, 1}, 0, s, parameters);
  driver_.synchronize(s);
  return *static_cast<volatile std::uint64_t*>(published_.host);
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
  if (!k.check) return {};
  HostOutputs outputs;
  for (std::uint32_t i = 0; i < k.buffers.size(); ++i) {
    if (k.buffers[i].input) continue;
    std::vector<char>& to = outputs.data[i];
    to.resize(k.buffers[i].bytes());
    driver_.copy_to_host(s, to.data(), instance.buffer(i), to.size());
  }
  driver_.synchronize(s);
  return k.check ? k.check(seed, outputs) : std::string();
}

Way Workbench::fastest(Instance& instance, std::span<const Taking> takings, std::uint32_t sms, Stream s) {
  constexpr int kRepeats = 5;
  const LibraryKernel& k = instance.kernel();
  const auto blocks = static_cast<std::uint32_t>(k.blocks());
  std::vector<Way> ways;
  for (const Taking& t : takings) ways.push_back({t, &persistent(k, t)});
  if (ways.size() == 1) return ways[0];
  const Event from = driver_.event(), to = driver_.event();
  const DevicePointer control = driver_.allocate(sizeof(Control));
  const HostMemory progress = driver_.allocate_host(sizeof(Progress));
  std::vector<double> best(ways.size(), 1e30);
  for (int repeat = 0; repeat < kRepeats; ++repeat)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      LaunchParameters p = launch_parameters(0, blocks, ways[i].taking, sms * ways[i].code->workers_per_sm);
      p.control = control, p.progress = progress.device;
      driver_.fill(s, control, 0, sizeof(Control));
      driver_.record(from, s);
      launch(instance, *ways[i].code, workers_of(p, ways[i].taking, sms * ways[i].code->workers_per_sm), p,
             s);
      driver_.record(to, s);
      driver_.synchronize(s);
      best[i] = std::min(best[i], driver_.milliseconds(from, to));
    }
  driver_.free(control), driver_.free(progress);
  driver_.destroy(from), driver_.destroy(to);
  return ways[static_cast<std::size_t>(std::min_element(best.begin(), best.end()) - best.begin())];
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

void Workbench::launch(Instance& first, Instance& second, const Padded& how, std::uint32_t workers,
                       PaddedParameters parameters, Stream s) {
  const auto grid = [](LaunchParameters& p, Dim3 of) { p.grid_x = of.x, p.grid_y = of.y, p.grid_z = of.z; };
  grid(parameters.first, first.kernel().grid);
  grid(parameters.second, second.kernel().grid);
  std::vector<char> a = first.packed(), b = second.packed();
  void* all[] = {a.data(), b.data(), &parameters};
  driver_.launch(how.function, {workers, 1, 1}, {how.threads, 1, 1}, how.dynamic_shared_bytes, s, all);
}

}  // namespace corun::hw
