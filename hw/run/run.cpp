#include "hw/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <optional>

#include "hw/backend/cuda_backend.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/process_backend.h"
#include "hw/record/recording.h"
#include "hw/run/profile.h"
#include "hw/run/signal_guard.h"
#include "policies/api/registry.h"
#include "traces/json/output_file.h"

namespace corun::hw {
namespace {

bool allocates(const Trace& trace) {
  return std::any_of(trace.programs.begin(), trace.programs.end(),
                     [](const Program& p) { return !p.buffers.empty(); });
}

constexpr Time kRehearsal = std::chrono::milliseconds(20);

/// What is known of a run beside its requests.
struct Found {
  std::vector<std::string> wrong;  // results
  std::uint64_t kernels_verified = 0, moves_verified = 0, blocks = 0;
};

}  // namespace

Runner::Runner(std::unique_ptr<Driver> driver, std::unique_ptr<Compiler> compiler)
    : driver_(std::move(driver)),
      compiler_(std::move(compiler)),
      work_(std::make_unique<Workbench>(*driver_, *compiler_)) {}

Runner::Runner(const std::string& store) : driver_(open_cuda()) {
  const DeviceFacts facts = driver_->facts();
  compiler_ = open_nvrtc(fmt::format("sm_{}{}", facts.capability_major, facts.capability_minor), store);
  work_ = std::make_unique<Workbench>(*driver_, *compiler_);
}
Runner::~Runner() = default;

DeviceFacts Runner::facts() const { return driver_->facts(); }

void Runner::forget() {
  alone_.clear();
  work_->forget_prepared();
}

const Profile& Runner::profile_of(const Kernel& kernel, const Gpu& gpu, bool by_sm,
                                  const Profiles* profiles) {
  Profile& p = profiles_[{kernel.name, by_sm}];
  if (!p.empty()) return p;
  if (profiles != nullptr) return p = points_for(profiles->of(kernel.name), gpu.sms, by_sm);
  return p = measure_points(work_->device_kernel(kernel), kernel.solo_time.value_or(Time{}), gpu, *work_,
                            by_sm ? Points::by_sm : Points::by_total);
}

/// Where a run takes place: this process or one for each client, under a recording or not.
class Runner::GpuSetup final : public Setup {
 public:
  GpuSetup(Runner& runner, const Setting& s, const Gpu& gpu, const RunOptions& options, Found& found)
      : runner_(runner),
        trace_(s.trace),
        gpu_(gpu),
        options_(options),
        by_sm_(s.needed.capabilities.has(Capability::sm_quota)),
        found_(found) {
    if (s.needed.profiles)  // measured before the clock runs
      for (const Client& client : trace_.clients)
        for (const Op& op : trace_.programs[client.program.value].ops)
          if (const auto* launch = std::get_if<corun::Launch>(&op.what)) measured(launch->kernel);
    CudaOptions cuda;
    cuda.interrupted = &SignalGuard::flag();
    cuda.verify = options.verify;
    if (wants_processes(s.needed))
      backend_ = std::make_unique<ProcessBackend>(trace_, gpu, s.needed, s.timeline,
                                                  ProcessOptions{cuda, options.store, {}});
    else
      backend_ = rehearsed(s, cuda);
    if (options.record.empty() || !s.together) return;
    out_.emplace(options.record);
    recorder_.emplace(*backend_, s.policy, trace_, out_->stream());
  }

  Backend& backend() override { return recorder_ ? static_cast<Backend&>(*recorder_) : *backend_; }
  Profile profile(KernelId kernel) override {
    return recorder_ ? recorder_->profile(kernel, measured(kernel)) : measured(kernel);
  }
  void ended(SessionOutcome& outcome) override {
    recorder_.reset();
    if (out_) out_->close();
    if (!outcome.stuck.empty()) return;
    for (std::uint32_t c = 0; c < trace_.clients.size(); ++c)
      if (const std::string why = backend_->why_lost(ClientId{c}); !why.empty())
        outcome.failed[c] = "its process " + why;
    found_.blocks = backend_->blocks_run();
    if (!options_.verify) return;
    found_.wrong = backend_->verify();
    found_.kernels_verified = backend_->kernels_verified();
    found_.moves_verified = backend_->moves_verified();
  }

 private:
  const Profile& measured(KernelId kernel) {
    return runner_.profile_of(trace_.kernels[kernel.value], gpu_, by_sm_, options_.profiles);
  }

  /// What a first launch waits for (streams, partitions, code on its way to the GPU) is no policy's doing: a
  /// short run goes before the one that counts.
  std::unique_ptr<MeasuredBackend> rehearsed(const Setting& s, const CudaOptions& cuda) {
    Timeline nobody;
    auto backend = std::make_unique<CudaBackend>(trace_, gpu_, s.needed, nobody, *runner_.work_, cuda);
    if (!allocates(trace_)) {
      Trace rehearsal = trace_;
      rehearsal.run.duration = std::min(kRehearsal, trace_.run.duration.value_or(kRehearsal));
      if (options_.verify) backend->check_each_launch();
      play(rehearsal, *make_policy(s.policy), *backend, nobody, [this](KernelId k) { return measured(k); });
      backend->reset();
    }
    backend->record_to(s.timeline);
    return backend;
  }

  Runner& runner_;
  const Trace& trace_;
  const Gpu& gpu_;
  const RunOptions& options_;
  const bool by_sm_;
  Found& found_;
  std::unique_ptr<MeasuredBackend> backend_;
  std::optional<OutputFile> out_;
  std::optional<RecordingBackend> recorder_;
};

class Runner::OnGpu final : public Testbed {
 public:
  OnGpu(Runner& runner, const Gpu& gpu, const RunOptions& options)
      : runner_(runner), gpu_(gpu), options_(options) {}

  std::unique_ptr<Setup> set_up(const Setting& s) override {
    Found& found = s.together ? together : alone_.emplace_back();
    return std::make_unique<GpuSetup>(runner_, s, gpu_, options_, found);
  }
  Requests alone(std::size_t, const Trace& trace, const Requests*, const std::function<void(Time)>&,
                 const std::function<Requests()>& run) override {
    const std::string key = fmt::format("{}\n{}\n{}", trace.name, trace.clients.front().name,
                                        trace.run.duration.value_or(kNever).count());
    const auto known = runner_.alone_.find(key);
    return known != runner_.alone_.end() ? known->second : runner_.alone_.emplace(key, run()).first->second;
  }

  /// Of all runs.
  std::uint64_t kernels_verified() const {
    std::uint64_t all = together.kernels_verified;
    for (const Found& one : alone_) all += one.kernels_verified;
    return all;
  }
  std::vector<std::string> wrong() const {
    std::vector<std::string> all = together.wrong;
    for (const Found& one : alone_) all.insert(all.end(), one.wrong.begin(), one.wrong.end());
    return all;
  }

  Found together;

 private:
  Runner& runner_;
  const Gpu& gpu_;
  const RunOptions& options_;
  std::deque<Found> alone_;  // of those that were not known
};

RunResult Runner::run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  const SignalGuard guard;
  const DeviceFacts facts = driver_->facts();
  OnGpu testbed(*this, gpu, options);
  const auto began = std::chrono::steady_clock::now();
  Ran ran = corun::run(trace, gpu, options, testbed);
  requests_ = std::move(ran.requests);
  RunResult result = std::move(ran.result);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (const std::uint64_t moves = testbed.together.moves_verified; moves != 0)
    add_note(result, NoteKind::moved, fmt::format("{} buffers came back from the host as they had left, bit by bit", moves));
  result.alone =
      fmt::format("each client alone on the same {} under fcfs, with the same arrivals and seed", facts.name);
  add_note(result, NoteKind::measured, fmt::format("measured on {} ({})", facts.name, facts.driver));
  const std::vector<std::string> wrong = testbed.wrong();
  if (options.verify && wrong.empty())
    add_note(result, NoteKind::verified, fmt::format("{} results of clients' kernels are those of the plain kernels, bit by bit",
                                                     testbed.kernels_verified()));
  result.sm_busy = result.occupancy = std::nan("");  // not measured
  result.blocks = testbed.together.blocks;
  if (!wrong.empty())
    throw DriverError(fmt::format("{}{}", wrong.front(),
                                  wrong.size() > 1 ? fmt::format(" (and {} more)", wrong.size() - 1) : ""));
  return result;
}

RunResult run(const Trace& trace, const Gpu& gpu, const RunOptions& options) {
  return Runner(options.store).run(trace, gpu, options);
}

}  // namespace corun::hw
