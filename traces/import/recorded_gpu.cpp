#include "traces/import/recorded_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <tuple>
#include <vector>

#include "traces/json/gpu_document.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

/// "NVIDIA A100-SXM4-80GB" -> A100, SXM4, 80GB
std::vector<std::string> product_words(std::string_view product) {
  std::vector<std::string> words(1);
  for (const char c : product) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      words.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    } else {
      words.emplace_back();
    }
  }
  std::erase_if(words, [](const std::string& w) {
    return w.empty() || w == "NVIDIA" || w == "TESLA" || w == "GEFORCE" || w == "AMD" || w == "RADEON" ||
           w == "INSTINCT";
  });
  return words;
}

/// The description of the same model and number of SMs; empty if there is none.  Memory size and board may
/// differ.
std::string description_of(const kineto::Device& device) {
  if (const std::string same = find_gpu(device.name);
      !same.empty() && (device.sms == 0 || read_gpu(same).sms == device.sms))
    return same;
  const std::vector<std::string> words = product_words(device.name);
  std::string best;
  std::ptrdiff_t most_common = 0;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = read_gpu(name);
    const std::vector<std::string> wanted = product_words(gpu.product);
    const auto has = [&](const std::string& w) {
      return std::find(words.begin(), words.end(), w) != words.end();
    };
    if (device.sms != gpu.sms || wanted.empty() || !has(wanted.front())) continue;
    const std::ptrdiff_t common = std::count_if(wanted.begin(), wanted.end(), has);
    if (common <= most_common) continue;
    best = name;
    most_common = common;
  }
  return best;
}

/// The described card of the same maker that is nearest: by compute capability, then SMs, then memory, as far as they are recorded.
std::string nearest_to(const kineto::Device& device) {
  const auto amd = [](std::string_view product) { return product.starts_with("AMD") || product.starts_with("gfx"); };
  const auto apart = [](double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 0; };
  std::string best;
  std::tuple<int, double, double> least{};
  if (device.sms == 0 && device.compute_capability == 0) return best;
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = read_gpu(name);
    if (amd(gpu.product) != amd(device.name)) continue;
    const auto capability = static_cast<int>(10 * gpu.compute_capability_major + gpu.compute_capability_minor);
    const std::tuple off{device.compute_capability == 0 ? 0 : std::abs(capability - static_cast<int>(device.compute_capability)), apart(device.sms, gpu.sms),
                         apart(double(device.memory_bytes), double(gpu.memory_bytes))};
    if (!best.empty() && off >= least) continue;
    best = name;
    least = off;
  }
  return best;
}

}  // namespace

RecordedGpu recorded_gpu(const kineto::Records& records, std::int64_t device, const std::string& wanted,
                         std::uint32_t sms_given, const std::string& file, Notes& notes) {
  RecordedGpu gpu;
  gpu.sms = sms_given;
  auto recorded = std::find_if(records.devices.begin(), records.devices.end(),
                               [&](const kineto::Device& d) { return d.id == device; });
  // Kernels may count devices otherwise than the list of devices does.
  if (recorded == records.devices.end() && !records.devices.empty() &&
      std::all_of(records.devices.begin(), records.devices.end(), [&](const kineto::Device& d) {
        return d.name == records.devices.front().name && d.sms == records.devices.front().sms;
      })) {
    recorded = records.devices.begin();
    notes.push_back(fmt::format(
        "Its kernels are of device {}, which is not in its list: taken as \"{}\", like all there.", device,
        recorded->name));
  }
  const bool known = recorded != records.devices.end();
  kineto::Device card = known ? *recorded : kineto::Device{};
  // "NVIDIA A100-SXM4-40GB MIG 3g.20gb" has the SMs of its instance.
  if (const std::size_t mig = card.name.find(" MIG "); mig != std::string::npos) {
    kineto::Device whole = card;
    whole.name = card.name.substr(0, mig), whole.sms = 0;
    if (!description_of(whole).empty()) {
      notes.push_back(fmt::format("Recorded in an instance of MIG, {}, with {} SMs: times are those on so many, and with its part of L2 and DRAM.",
                                  card.name.substr(mig + 5), card.sms));
      if (gpu.sms == 0) gpu.sms = card.sms;
      card = whole;
    }
  }
  const std::uint32_t sms = card.sms != 0 ? card.sms : records.implied_sms;
  gpu.name = !wanted.empty() ? wanted : known ? description_of(card) : "";
  if (gpu.name.empty()) {
    std::string had = "no device properties";
    if (known) had = fmt::format("\"{}\" without a description here", card.name);
    if (sms != 0) had += fmt::format(", {} SMs", sms);
    kineto::Device unknown = card;
    unknown.sms = sms;
    gpu.nearest = nearest_to(unknown);
    if (!gpu.nearest.empty()) {
      const Gpu description = read_gpu(gpu.nearest);
      had += fmt::format("; the nearest described one is {}: {}, {} SMs, compute capability {}.{}", gpu.nearest, description.product, description.sms,
                         description.compute_capability_major, description.compute_capability_minor);
    }
    notes.push_back(fmt::format(
        "The GPU is not known ({}): pass --gpu with a name from `sim gpus` or a description's path; launch "
        "calls of {:.0f} us and a latency of {:.0f} us are assumed.",
        had, to_ns(gpu.launch_call) / 1e3, to_ns(gpu.launch_latency) / 1e3));
    return gpu;
  }
  const Gpu description = read_gpu(gpu.name);
  const bool same = known && product_words(card.name) == product_words(description.product);
  if (wanted.empty() && !same)
    notes.push_back(fmt::format("\"{}\" is simulated as {}: its clocks and memory may differ.",
                                card.name, description.product));
  gpu.launch_call = description.launch_call;
  gpu.launch_latency = description.launch_latency;
  gpu.completion_notice = description.completion_notice;
  if (gpu.sms != 0) {
    if (gpu.sms > description.sms)
      throw InputError(
          file, "--sms",
          fmt::format("{} SMs are more than the {} that {} has", gpu.sms, description.sms, gpu.name),
          "give the SMs of the program's part of the GPU, or leave the option out");
  } else if (same && sms != 0 && sms < description.sms) {
    gpu.sms = sms, gpu.mps_kernel = description.mps_kernel;
    notes.push_back(fmt::format(
        "Recorded on {} of the GPU's {} SMs, so under MPS: {:.2f} us that it adds to a kernel are "
        "taken off; libraries may have chosen other kernels than on the whole GPU.",
        sms, description.sms, to_ns(gpu.mps_kernel) / 1e3));
  } else if (sms != 0 && sms != description.sms)
    notes.push_back(
        fmt::format("Recorded on a GPU of {} SMs, {} has {}: times stay those of the recording GPU.", sms,
                    gpu.name, description.sms));
  return gpu;
}

}  // namespace corun
