#include "sim/command/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "hw/backend/cuda_backend.h"
#include "hw/calibrate/calibrate.h"
#include "hw/driver/card.h"
#include "hw/driver/cuda_driver.h"
#include "hw/process/mps_sms.h"
#include "hw/run/signal_guard.h"
#include "sim/command/progress.h"
#include "traces/json/gpu_document.h"
#include "traces/json/output_file.h"
#include "traces/json/trace_json.h"
#include "traces/json/write_gpu.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace files = std::filesystem;

[[noreturn]] void in_use(const std::string& why) {
  throw InputError("", "calibrate", "the GPU is in use, so nothing is written: " + why,
                   "end what runs on it (nvidia-smi lists it), or wait, and calibrate again");
}

/// To five digits: no measurement here has more.
double rounded(double value) {
  if (value == 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 4);
  return std::abs(value) >= 1e5 ? std::round(value / unit) * std::round(unit)
                                : std::round(value / unit) / std::round(1 / unit);
}

void check_writable(const std::string& path, const char* option) {
  if (path.empty()) throw InputError("", option, "it names no file", fmt::format("write {} my-gpu.json", option));
  if (const files::path folder = files::absolute(path).parent_path();
      access(folder.c_str(), W_OK) != 0 || files::is_directory(path))
    throw InputError(path, "", "it cannot be written", fmt::format("choose another place with {}", option));
}

void write_samples(const std::string& path, const std::string& about, const hw::Constants& found) {
  nlohmann::ordered_json document = {{"about", about}};
  for (const hw::Record& record : found.records()) {
    nlohmann::ordered_json row;
    for (const auto& [name, value] : record.fields) row[name] = rounded(value);
    document[record.job].push_back(row);
  }
  for (const auto& [place, samples] : found.taken()) {
    document["constants"][place] = nlohmann::json::array();
    for (const double sample : samples) document["constants"][place].push_back(rounded(sample));
  }
  OutputFile out(path);
  out.stream() << document.dump(1, ' ') << '\n';
  out.close();
}

/// The described GPU of that product, else of the nearest compute capability, number of SMs and memory.
Gpu nearest(const hw::DeviceFacts& card) {
  if (const std::string same = find_gpu(card.name); !same.empty()) return read_gpu(same);
  std::optional<Gpu> best;
  const auto distance = [&](const Gpu& g) {
    const auto apart = [](double a, double b) { return std::abs(a - b); };
    return std::tuple{apart(10.0 * g.compute_capability_major + g.compute_capability_minor,
                            10.0 * card.capability_major + card.capability_minor),
                      apart(g.sms, card.sms),
                      apart(static_cast<double>(g.memory_bytes), static_cast<double>(card.memory_bytes))};
  };
  for (const std::string& name : gpu_names())
    if (Gpu g = read_gpu(name); g.compute_capability_major != 0 && (!best || distance(g) < distance(*best)))
      best = std::move(g);
  return *best;
}

std::string architecture(const hw::DeviceFacts& card) {
  switch (10 * card.capability_major + card.capability_minor) {
    case 75: return "turing";
    case 89: return "ada";
    case 90: return "hopper";
    default: break;
  }
  return card.capability_major == 8 ? "ampere" : card.capability_major >= 10 ? "blackwell" : "other";
}

void print_table(const hw::Constants& found, const Gpu& like, bool is_described) {
  fmt::print("{:<44}{:>14}{:>9}", "constant", "value", "spread");
  if (is_described) fmt::print("{:>14}{:>9}", like.name, "off by");
  fmt::print("\n");
  for (const hw::Constant& k : found.all()) {
    const std::string value = k.is_list ? fmt::format("{} numbers", k.value.size()) : fmt::format("{:.5g}", k.value[0]);
    const std::string spread = k.samples > 1 ? fmt::format("{:.1f} %", 100 * k.spread) : "";
    fmt::print("{:<44}{:>14}{:>9}", k.group + "/" + k.key, value, spread);
    const std::vector<double> was = is_described ? described_value(like.name, k.group, k.key) : std::vector<double>{};
    if (!was.empty() && k.is_list)
      fmt::print("{:>14}", was == k.value ? "the same" : "another");
    else if (!was.empty() && was[0] != 0)
      fmt::print("{:>14.5g}{:>7.1f} %", was[0], 100 * (k.value[0] / was[0] - 1));
    fmt::print("\n");
  }
}

}  // namespace

CLI::App* add_calibrate(CLI::App& app, CalibrateArguments& a) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "measure the GPU of this machine and write its description, for --gpu (some ten seconds)");
  command->add_option("-o,--output", a.output, "description to write, as my-gpu.json")->required();
  command->add_option("--store", a.store, "folder that keeps compiled kernels between runs");
  command->add_option("--samples", a.samples,
                      "file for the curves and samples that some constants are found from, as JSON");
  return command;
}

int calibrate(const CalibrateArguments& a) {
  check_writable(a.output, "-o");
  if (!a.samples.empty()) check_writable(a.samples, "--samples");
  const hw::SignalGuard guard;
  const std::optional<hw::Card> before = hw::ask_card();
  if (before && !before->processes.empty())
    in_use(fmt::format("{} process{} hold{} it", before->processes.size(),
                       before->processes.size() == 1 ? "" : "es", before->processes.size() == 1 ? "s" : ""));
  if (before && before->busy_percent > 5) in_use(fmt::format("it is busy for {} % of the time", before->busy_percent));

  const std::unique_ptr<hw::Driver> driver = hw::open_cuda(0, hw::OpenAs::with_defaults);
  const hw::DeviceFacts card = driver->facts();
  if (10 * card.capability_major + card.capability_minor < 75)
    throw InputError("", "calibrate",
                     fmt::format("{} has compute capability {}.{}; 7.5 is the least", card.name,
                                 card.capability_major, card.capability_minor),
                     "`sim gpus` lists described GPUs that are older");
  const std::unique_ptr<hw::Compiler> compiler =
      hw::open_nvrtc(fmt::format("sm_{}{}", card.capability_major, card.capability_minor), a.store);
  const Gpu like = nearest(card);
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  const std::string measured = fmt::format("measured {} on an {} ({}{}) by sim calibrate", date, card.name,
                                           before ? "driver " + before->driver + ", " : "", card.driver);
  const std::string about =
      fmt::format("Made by sim calibrate on {}{}.", date, before ? ", card " + before->uuid : "");
  hw::Constants found;
  const auto keep_samples = [&](const std::string& end) {
    if (!a.samples.empty()) write_samples(a.samples, measured + "; " + about + end, found);
  };
  {
    ProgressBar bar;
    hw::CalibrationOptions options;
    options.progress = [&](const char* job, double done) { bar.show(job, done); };
    options.further_context = [] { return hw::open_cuda(0, hw::OpenAs::further_context); };
    options.sms_under_mps = hw::sms_under_mps;
    options.interrupted = &hw::SignalGuard::flag();
    try {
      hw::calibrate(*driver, *compiler, like, options, found);
    } catch (const hw::CardInUse& e) {
      in_use(e.what());
    } catch (const hw::Interrupted&) {
      throw;
    } catch (const std::exception& e) {
      keep_samples(std::string("  It failed: ") + e.what());
      throw;
    }
  }
  if (const auto after = hw::ask_card(); after && after->processes.size() > 1)
    in_use("another process has come meanwhile");
  if (hw::SignalGuard::flag()) throw hw::Interrupted("interrupted");  // since the last job looked

  keep_samples("");
  MeasuredGpu gpu;
  gpu.name = files::path(a.output).stem().string();
  gpu.product = card.name;
  gpu.architecture = architecture(card);
  gpu.like = like.name;
  gpu.measured = measured, gpu.about = about;
  found.drop([](const hw::Constant& k) { return refused_value({k.group, k.key, k.value, k.is_list, ""}); });
  for (const hw::Constant& k : found.all()) {
    const bool exact = k.samples == 1 && k.method == "device attribute";
    MeasuredValue v{k.group, k.key, k.value, k.is_list, k.method};
    if (!exact && !k.is_list)
      for (double& value : v.values) value = rounded(value);
    if (k.samples > 1)
      v.source += fmt::format("; {} repetitions, spread {:.1f} %", k.samples, 100 * k.spread);
    gpu.values.push_back(std::move(v));
  }
  OutputFile out(a.output);
  const std::vector<std::string> inherited = write_gpu(gpu, out.stream());
  out.close([](const files::path& written) { (void)read_gpu(files::absolute(written).string()); });  // as `--gpu` would

  print_table(found, like, like.product == card.name);
  for (const auto& [place, why] : found.failed()) fmt::print("not measured: {}: {}\n", place, why);
  fmt::print("inherited from {}: {}\n", like.name, fmt::join(inherited, ", "));
  fmt::print("wrote {}; use it with --gpu={}\n", a.output, a.output);
  return 0;
}

}  // namespace corun::sim
