#include "sim/advise/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

constexpr const char* kPipe = "/tmp/nvidia-mps";
constexpr std::uint64_t kMiB = 1024 * 1024;

const std::vector<std::pair<std::string, Format>>& formats() {
  static const std::vector<std::pair<std::string, Format>> all = {
      {"k8s-device-plugin", Format::device_plugin}, {"dra", Format::dra},     {"kai", Format::kai},
      {"hami", Format::hami},                       {"gpu-operator", Format::gpu_operator},
      {"slurm", Format::slurm},                     {"nvidia-smi", Format::nvidia_smi}, {"mps", Format::mps}};
  return all;
}

/// One setting in one format.
class Configured {
 public:
  Configured(Format format, const Setting& setting, const Trace& trace) : format_(format), setting_(setting), trace_(trace) {}

  std::string text() {
    if (setting_.mode == SharingMode::green_contexts) refuse("green contexts are made by the program itself", "write them as `do` says");
    if (setting_.mode == SharingMode::streams && trace_.clients.size() > 1)
      refuse("streams of one process are the program's", "write them as `do` says");
    if (setting_.mode == SharingMode::priority && setting_.below.empty())
      // MPS has two priorities of clients; the trace's are of streams.
      comment("Streams have the priorities of the trace, by cudaStreamCreateWithPriority: MPS alone has two priorities of clients.");
    switch (format_) {
      case Format::device_plugin: return device_plugin("");
      case Format::gpu_operator: return gpu_operator();
      case Format::dra: return dra();
      case Format::kai: return kai();
      case Format::hami: return hami();
      case Format::slurm: return slurm();
      case Format::nvidia_smi: return nvidia_smi();
      case Format::mps: return mps();
    }
    return text_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const {
    for (const auto& [name, format] : formats())
      if (format == format_)
        throw InputError("", "--format", fmt::format("{} cannot express this setting ({}): {}", name, setting_.words, why), remedy);
    throw InputError("", "--format", why, remedy);
  }
  [[noreturn]] void refuse_beyond_plugin(const std::string& why) const {
    refuse(why, "write --format dra, kai, slurm or mps, or --modes time-slicing,mig");
  }

  template <typename... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    text_ += fmt::format(format, std::forward<T>(args)...) + '\n';
  }
  void comment(const std::string& words) { text_ += "# " + words + '\n'; }
  void next_document() {
    if (!text_.empty()) text_ += "---\n";
  }

  bool alone() const { return trace_.clients.size() == 1; }
  bool mig() const { return setting_.mode == SharingMode::mig; }
  bool under_mps() const { return setting_.mode == SharingMode::mps || setting_.mode == SharingMode::priority || !setting_.percent.empty(); }
  std::uint32_t percent(std::size_t client) const { return setting_.percent.empty() ? 100 : setting_.percent[client]; }
  bool equal_shares() const {
    const std::uint32_t share = 100 / static_cast<std::uint32_t>(trace_.clients.size());
    return !setting_.percent.empty() && !ranked() && std::ranges::all_of(setting_.percent, [&](std::uint32_t p) { return p == share; });
  }
  bool ranked() const { return std::any_of(setting_.below.begin(), setting_.below.end(), [](bool below) { return below; }); }
  /// Clients of an instance.
  std::size_t sharing(std::uint32_t instance) const { return static_cast<std::size_t>(std::ranges::count(setting_.instance_of, instance)); }
  bool shares_an_instance() const {
    for (std::uint32_t k = 0; k < setting_.profiles.size(); ++k)
      if (sharing(k) > 1) return true;
    return false;
  }
  std::uint64_t mebibytes(std::size_t client) const {
    return (trace_.clients[client].memory_bytes + kMiB - 1) / kMiB;
  }
  /// Name as Kubernetes wants it: lower case, digits, dashes, not at the ends, at most 63; unlike the others'.
  std::string name(std::size_t client) const {
    std::string made;
    for (const char c : trace_.clients[client].name) made += std::isalnum(static_cast<unsigned char>(c)) != 0 ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
    while (made.starts_with('-')) made.erase(0, 1);
    made.resize(std::min<std::size_t>(made.size(), 50));
    while (made.ends_with('-')) made.pop_back();
    if (made.empty()) made = "client";
    for (std::size_t other = 0; other < client; ++other)
      if (name(other) == made) return fmt::format("{}-{}", made, client);
    return made;
  }
  /// Variables that MPS reads of a client.
  std::vector<std::pair<std::string, std::string>> environment(std::size_t client) const {
    std::vector<std::pair<std::string, std::string>> all;
    if (percent(client) < 100) all.emplace_back("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percent(client)));
    if (!setting_.below.empty() && setting_.below[client]) all.emplace_back("CUDA_MPS_CLIENT_PRIORITY", "1");
    return all;
  }

  // Kubernetes.

  std::string device_plugin(const std::string& indent) {
    std::string config = "version: v1\n";
    const auto shared = [&](const char* how) {
      config += fmt::format("sharing:\n  {}:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: {}\n", how, trace_.clients.size());
    };
    if (mig()) {
      if (shares_an_instance()) refuse("the device plugin shares no instance of MIG by MPS", "write --format dra");
      config += "flags:\n  migStrategy: mixed\n";
    } else if (setting_.mode == SharingMode::time_slicing) {
      shared("timeSlicing");
    } else if (equal_shares()) {
      shared("mps");
    } else if (!alone()) {
      refuse_beyond_plugin(ranked() ? "the device plugin sets no priorities"
                                    : fmt::format("of {} clients the device plugin gives each {} % of the threads", trace_.clients.size(), 100 / trace_.clients.size()));
    }
    for (std::size_t at = 0; at < config.size();) {
      const std::size_t end = config.find('\n', at);
      text_ += indent + config.substr(at, end - at + 1);
      at = end + 1;
    }
    if (indent.empty()) requested();
    return text_;
  }
  void requested() {
    for (std::size_t i = 0; i < trace_.clients.size(); ++i)
      comment(fmt::format("{} requests {}: 1", trace_.clients[i].name, mig() ? "nvidia.com/mig-" + setting_.profiles[setting_.instance_of[i]] : "nvidia.com/gpu"));
  }
  void config_map(const char* name, const char* key) {
    next_document();
    line("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: gpu-operator\ndata:\n  {}: |", name, key);
  }
  std::string gpu_operator() {
    config_map("corun-device-plugin", "shared");
    device_plugin("    ");
    std::string patch = "\"devicePlugin\": {\"config\": {\"name\": \"corun-device-plugin\", \"default\": \"shared\"}}";
    if (mig()) {
      config_map("corun-mig-parted", "config.yaml");
      line("    version: v1\n    mig-configs:\n      corun:\n      - devices: [0]\n        mig-enabled: true\n        mig-devices:");
      for (const std::string& profile : std::set<std::string>(setting_.profiles.begin(), setting_.profiles.end()))
        line("          \"{}\": {}", profile, std::ranges::count(setting_.profiles, profile));
      patch += ", \"mig\": {\"strategy\": \"mixed\"}, \"migManager\": {\"config\": {\"name\": \"corun-mig-parted\"}}";
    }
    comment(fmt::format("kubectl patch clusterpolicies.nvidia.com/cluster-policy --type merge -p '{{\"spec\": {{{}}}}}'", patch));
    if (mig()) comment("kubectl label node <node> nvidia.com/mig.config=corun --overwrite");
    requested();
    return text_;
  }

  void begin_pod(std::size_t client) {
    next_document();
    line("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}", name(client));
  }
  /// From the containers' first line on, without what they ask of the GPU.
  void container(std::size_t client) {
    line("  containers:\n  - name: {}\n    image: \"<image of {}>\"", name(client), name(client));
    const auto variables = environment(client);
    if (!variables.empty()) line("    env:");
    for (const auto& [key, value] : variables) line("    - name: {}\n      value: \"{}\"", key, value);
  }

  std::string dra() {
    line("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: corun\nspec:\n  devices:\n    requests:");
    std::vector<std::string> requests;
    if (mig()) {
      for (std::size_t k = 0; k < setting_.profiles.size(); ++k) {
        requests.push_back(fmt::format("instance-{}", k));
        line("    - name: {}\n      exactly:\n        deviceClassName: mig.nvidia.com\n        selectors:\n        - cel:\n"
             "            expression: \"device.attributes['gpu.nvidia.com'].profile == '{}'\"",
             requests.back(), setting_.profiles[k]);
      }
      line("    constraints:\n    - requests: []\n      matchAttribute: gpu.nvidia.com/parentUUID");
      if (shares_an_instance()) {
        line("    config:");
        for (std::uint32_t k = 0; k < setting_.profiles.size(); ++k)
          if (sharing(k) > 1) config(requests[k], "MigDeviceConfig", "          sharing:\n            strategy: MPS\n");
      }
    } else {
      requests.emplace_back("gpu");
      line("    - name: gpu\n      exactly:\n        deviceClassName: gpu.nvidia.com");
      if (under_mps()) {
        std::string sharing = "          sharing:\n            strategy: MPS\n";
        // A client's own percentage can only lower that of the daemon.
        const std::uint32_t most = setting_.percent.empty() ? 100 : *std::ranges::max_element(setting_.percent);
        if (most < 100) sharing += fmt::format("            mpsConfig:\n              defaultActiveThreadPercentage: {}\n", most);
        line("    config:");
        config("gpu", "GpuConfig", sharing);
      } else if (setting_.mode == SharingMode::time_slicing) {
        line("    config:");
        config("gpu", "GpuConfig", "          sharing:\n            strategy: TimeSlicing\n            timeSlicingConfig:\n              interval: Default\n");
      }
    }
    for (std::size_t i = 0; i < trace_.clients.size(); ++i) {
      begin_pod(i);
      line("spec:");
      container(i);
      line("    resources:\n      claims:\n      - name: gpu\n        request: {}", requests[mig() ? setting_.instance_of[i] : 0]);
      line("  resourceClaims:\n  - name: gpu\n    resourceClaimName: corun");
    }
    return text_;
  }
  void config(const std::string& request, const char* kind, const std::string& sharing) {
    line("    - requests: [\"{}\"]\n      opaque:\n        driver: gpu.nvidia.com\n        parameters:\n"
         "          apiVersion: resource.nvidia.com/v1beta1\n          kind: {}\n{}",
         request, kind, sharing);
    text_.pop_back();  // the end of `sharing` has one
  }

  std::string kai() {
    if (mig() && shares_an_instance()) refuse("KAI divides whole GPUs only", "write --format dra");
    if (under_mps()) comment(fmt::format("Each node runs nvidia-cuda-mps-control -d, with CUDA_MPS_PIPE_DIRECTORY={}.", kPipe));
    if (!mig() && !alone()) comment("gpu-fraction and gpu-memory reserve memory: KAI limits neither memory nor SMs.");
    const std::string head = text_;
    text_.clear();
    for (std::size_t i = 0; i < trace_.clients.size(); ++i) {
      begin_pod(i);
      line("  labels:\n    kai.scheduler/queue: default-queue");
      if (!mig() && !alone()) {
        if (trace_.clients[i].memory_bytes != 0)
          line("  annotations:\n    gpu-memory: \"{}\"", mebibytes(i));
        else
          line("  annotations:\n    gpu-fraction: \"{:.2f}\"", static_cast<double>(100 / trace_.clients.size()) / 100);
      }
      line("spec:\n  schedulerName: kai-scheduler");
      container(i);
      if (mig() || alone()) line("    resources:\n      limits:\n        {}: 1", mig() ? "nvidia.com/mig-" + setting_.profiles[setting_.instance_of[i]] : "nvidia.com/gpu");
      if (under_mps()) {
        line("    volumeMounts:\n    - name: mps\n      mountPath: {}", kPipe);
        line("  volumes:\n  - name: mps\n    hostPath:\n      path: {}\n      type: DirectoryOrCreate", kPipe);
      }
    }
    return head + text_;
  }

  std::string hami() {
    if (under_mps())
      refuse("HAMi's gpucores limits time over seconds, not SMs, and its clients do not share a context",
             "write --format dra, kai, slurm or mps; `sim --policy=token-bucket:percentages=...` simulates gpucores");
    if (mig() && shares_an_instance()) refuse("HAMi shares no instance of MIG", "write --format dra");
    for (std::size_t i = 0; i < trace_.clients.size(); ++i) {
      begin_pod(i);
      line("spec:");
      container(i);
      line("    resources:\n      limits:");
      if (mig()) {
        line("        nvidia.com/mig-{}: 1", setting_.profiles[setting_.instance_of[i]]);
        continue;
      }
      line("        nvidia.com/gpu: 1");
      if (trace_.clients[i].memory_bytes != 0)
        line("        nvidia.com/gpumem: {}", mebibytes(i));
      else
        line("        nvidia.com/gpumem-percentage: {}", 100 / trace_.clients.size());
    }
    return text_;
  }

  // Machines.

  std::string slurm() {
    const std::size_t n = trace_.clients.size();
    comment("gres.conf");
    if (mig()) {
      line("AutoDetect=nvml");
    } else if (alone()) {
      line("Name=gpu File=/dev/nvidia0");
    } else {
      line("Name=gpu File=/dev/nvidia0\nName=shard Count={} File=/dev/nvidia0", n);
    }
    comment("slurm.conf; the node's line also needs its CPUs and memory");
    line("SelectType=select/cons_tres\nGresTypes={}", mig() || alone() ? "gpu" : "gpu,shard");
    if (mig()) {
      std::vector<std::string> gres;
      for (const std::string& profile : std::set<std::string>(setting_.profiles.begin(), setting_.profiles.end()))
        gres.push_back(fmt::format("gpu:{}:{}", profile, std::ranges::count(setting_.profiles, profile)));
      line("NodeName=<node> Gres={}", fmt::join(gres, ","));
    } else {
      line("NodeName=<node> Gres=gpu:1{}", alone() ? "" : fmt::format(",shard:{}", n));
    }
    if (mig() && shares_an_instance()) refuse("an instance of MIG is given to one job", "write --format dra, or mps by hand");
    if (under_mps()) {
      comment("on the node, as the user of the jobs, before them (Prolog): Slurm's own gres/mps gives out no more than 100 % and no priorities");
      line("nvidia-cuda-mps-control -d");
    } else if (mig()) {
      comment("on the node, once");
      instances();
    }
    comment("jobs");
    for (std::size_t i = 0; i < n; ++i) {
      std::string variables = "ALL";
      for (const auto& [key, value] : environment(i)) variables += fmt::format(",{}={}", key, value);
      line("sbatch --job-name={} --gres={} --export={} <script of {}>", name(i),
           mig() ? fmt::format("gpu:{}:1", setting_.profiles[setting_.instance_of[i]]) : alone() ? "gpu:1" : "shard:1", variables, name(i));
    }
    return text_;
  }

  void instances() {
    line("nvidia-smi -i 0 -mig 1");
    line("nvidia-smi mig -i 0 -cgi {} -C", fmt::join(setting_.profiles, ","));
  }
  std::string nvidia_smi() {
    if (under_mps() || (mig() && shares_an_instance())) refuse("nvidia-smi starts no MPS", "write --format mps");
    if (mig()) {
      instances();
      comment("nvidia-smi -L lists the UUIDs");
      for (std::size_t i = 0; i < trace_.clients.size(); ++i)
        comment(fmt::format("{}: CUDA_VISIBLE_DEVICES=<UUID of a {}>", trace_.clients[i].name, setting_.profiles[setting_.instance_of[i]]));
      return text_;
    }
    line("nvidia-smi -i 0 -c DEFAULT");
    if (!alone()) line("nvidia-smi compute-policy -i 0 --set-timeslice=default");
    return text_;
  }

  std::string mps() {
    if (!under_mps() && !(mig() && shares_an_instance()))
      refuse("it runs without MPS", mig() || setting_.mode == SharingMode::time_slicing ? "write --format nvidia-smi" : "there is nothing to set");
    if (mig()) {
      instances();
      for (std::uint32_t k = 0; k < setting_.profiles.size(); ++k) {
        comment(fmt::format("instance {}, {}", k, setting_.profiles[k]));
        line("export CUDA_VISIBLE_DEVICES='<UUID of a {}>'", setting_.profiles[k]);
        if (sharing(k) > 1)
          line("export CUDA_MPS_PIPE_DIRECTORY={0}-{1} CUDA_MPS_LOG_DIRECTORY={0}-log-{1}\nnvidia-cuda-mps-control -d", kPipe, k);
        else
          line("unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY");
        for (std::size_t i = 0; i < trace_.clients.size(); ++i)
          if (setting_.instance_of[i] == k) start(i);
      }
      return text_;
    }
    line("nvidia-smi -i 0 -c EXCLUSIVE_PROCESS\nnvidia-cuda-mps-control -d");
    if (!setting_.percent.empty() && std::ranges::all_of(setting_.percent, [&](std::uint32_t p) { return p == setting_.percent.front(); }) && setting_.percent.front() < 100)
      line("echo set_default_active_thread_percentage {} | nvidia-cuda-mps-control", setting_.percent.front());
    for (std::size_t i = 0; i < trace_.clients.size(); ++i) start(i);
    return text_;
  }
  void start(std::size_t client) {
    std::string variables;
    for (const auto& [key, value] : environment(client)) variables += fmt::format("{}={} ", key, value);
    line("{}'<command of {}>' &", variables, name(client));
  }

  Format format_;
  const Setting& setting_;
  const Trace& trace_;
  std::string text_{};
};

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& [name, format] : formats()) names.push_back(name);
  return names;
}

Format parse_format(const std::string& name) {
  for (const auto& [known, format] : formats())
    if (known == name) return format;
  throw InputError("", "--format", fmt::format("unknown format {}{}", in_quotes(name), did_you_mean(name, format_names())),
                   fmt::format("use one of {}", list_names(format_names())));
}

std::string configuration(Format format, const Setting& setting, const Trace& trace) { return Configured(format, setting, trace).text(); }

}  // namespace corun::sim
