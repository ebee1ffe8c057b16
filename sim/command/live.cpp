#include "sim/command/live.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "hw/live/beside.h"
#include "hw/live/cards.h"
#include "hw/live/log.h"
#include "hw/live/metrics.h"
#include "hw/live/recording.h"
#include "hw/live/service.h"
#include "hw/process/mps_daemon.h"
#include "hw/run/signal_guard.h"
#include "sim/command/beside.h"
#include "sim/forecast/forecast.h"
#include "traces/json/gpu_document.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

namespace files = std::filesystem;

files::path folder_of(const LiveArguments& a) { return a.at.empty() ? live::Folder::by_default() : files::path(a.at); }

constexpr double kMpsPatience_s = 10;

/// Where on the bus the GPU is that is decided about; empty: nothing says it.
std::string device_here(const std::string& named) {
  if (!named.empty()) return named;
  const std::vector<live::Card> all = live::cards();
  const char* order = std::getenv("CUDA_DEVICE_ORDER");
  const bool by_place = order != nullptr && std::strcmp(order, "PCI_BUS_ID") == 0;
  const bool alike = std::ranges::all_of(all, [&](const live::Card& card) { return card.model == all.front().model; });
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool by_uuid = visible != nullptr && std::strncmp(visible, "GPU-", 4) == 0;
  if (!alike && !by_place && !by_uuid) return "";  // CUDA puts the fastest first, and nothing here says which that is
  const auto card = live::first_visible(all, visible);
  return card ? card->bus : "";
}

/// The GPU in this machine, without opening it.
Gpu gpu_here(const std::string& named, const std::string& device) {
  if (!named.empty()) return read_gpu(named);
  for (const live::Card& card : live::cards())
    if (device.empty() || live::same_place(card.bus, device))
      if (const std::string name = find_gpu(card.model); !name.empty()) return read_gpu(name);
  throw InputError("", "--gpu", "which GPU this machine has is not to be found out", "name it, or a description of it, with --gpu");
}

std::unique_ptr<live::ServiceForecast> forecast_unknown(const Gpu& gpu, const Requirements& needed) {
  return std::make_unique<live::ForecastBeside>(make_forecast(gpu, needed));
}

void print_table(const std::string& state) {
  const auto s = nlohmann::json::parse(state);
  fmt::print("policy {}, up {:.0f} s; {}\n", s["policy"].get<std::string>(), s["up_s"].get<double>(),
             s["waits_for_grants"].get<bool>()
                 ? fmt::format("a decision takes {:.1f} us, {:.1f} at p99", s["decision_us"]["p50"].get<double>(),
                               s["decision_us"]["p99"].get<double>())
                 : "launches go at once");
  if (s.contains("looks"))
    fmt::print("what was foretold came {:.0f} us after it was asked for in the mean, {:.0f} at most, {} times\n", s["looks"]["mean_us"].get<double>(),
               s["looks"]["max_us"].get<double>(), s["looks"]["heard"].get<std::uint64_t>());
  if (s.contains("unfit"))
    fmt::print("not applied, launches go as they come: {}\n", s["unfit"].get<std::string>());
  if (s["programs"].empty()) return fmt::print("no program has joined: sim run -- PROGRAM\n");
  fmt::print("{:24}{:>12}{:>12}{:>10}{:>11}{:>10}{:>8}{:>8}{:>12}{:>9}\n", "program", "class", "launches", "graphs", "unsteered",
             "requests", "held", "on GPU", "mean wait", "busy");
  for (const auto& p : s["programs"])
    fmt::print("{:24}{:>12}{:>12}{:>10}{:>11}{:>10}{:>8}{:>8}{:>9.1f} us{:>7.1f} s\n", p["name"].get<std::string>(),
               p["class"].get<std::string>(), p["launches"].get<std::uint64_t>(), p["graphs"].get<std::uint64_t>(),
               p["unsteered"].get<std::uint64_t>(), p["requests"].get<std::uint64_t>(), p["waiting"].get<std::uint64_t>(),
               p["on_gpu"].get<std::uint64_t>(), p["mean_wait_us"].get<double>(), p["busy_s"].get<double>());
  for (const auto& p : s["programs"])
    if (p.contains("sms")) fmt::print("{} runs on {} SMs\n", p["name"].get<std::string>(), p["sms"].get<std::uint32_t>());
  for (const auto& p : s["programs"]) {
    const auto counted = p["counted"].get<std::uint64_t>(), crowded = p["crowded"].get<std::uint64_t>();
    if (counted != 0) fmt::print("{}: {} driver calls launched or accessed memory unsteered\n", p["name"].get<std::string>(), counted);
    if (crowded != 0) fmt::print("{}: {} launches were of kernels beyond the first {}, whose times are not told apart\n", p["name"].get<std::string>(), crowded, live::kKernels - 1);
  }
  for (const auto& p : s["programs"]) {
    if (!p.contains("stoppable") || p["stoppable"]["of"].get<std::uint64_t>() == 0) continue;
    const auto& is = p["stoppable"];
    const double time = is["of_s"].get<double>();
    fmt::print("{}: plain, so that they run to their ends, were {:.1f} % of its launches and {:.1f} % of their time; {} stops, {} resizes\n",
               p["name"].get<std::string>(),
               100 * (1 - is["launches"].get<double>() / is["of"].get<double>()),
               time > 0 ? 100 * (1 - is["s"].get<double>() / time) : 100, is["stops"].get<std::uint64_t>(),
               is["resizes"].get<std::uint64_t>());
  }
  if (!s.contains("memory")) return;
  const auto mib = [](const auto& bytes) { return bytes.template get<double>() / (1 << 20); };
  const auto& all = s["memory"];
  fmt::print("\n{:24}{:>12}{:>12}{:>10}{:>14}{:>14}\n", "memory", "on GPU", "on host", "passed", "to the host", "and back");
  for (const auto& p : s["programs"])
    fmt::print("{:24}{:>8.0f} MiB{:>8.0f} MiB{:>10}{:>10.0f} MiB{:>10.0f} MiB\n", p["name"].get<std::string>(), mib(p["memory"]["gpu_bytes"]),
               mib(p["memory"]["host_bytes"]), p["memory"]["passed"].get<std::uint64_t>(), mib(p["memory"]["out_bytes"]),
               mib(p["memory"]["in_bytes"]));
  fmt::print("{:.0f} MiB of {:.0f} are in use, at most {:.0f} were\n", mib(all["used_bytes"]), mib(all["cap_bytes"]), mib(all["peak_bytes"]));
}

}  // namespace

LiveCommands add_live(CLI::App& app, LiveArguments& a) {
  LiveCommands all;
  const auto add_at = [&](CLI::App& command) {
    command.add_option("--at", a.at, "folder of the service, yours alone (default: corun below XDG_RUNTIME_DIR, or /tmp/corun-UID)");
  };
  all.serve = app.add_subcommand("serve", "decide for programs started by sim run what reaches the GPU when, by a policy");
  all.serve->add_option("--policy", a.policy, "as of a run: fcfs, priority, timeslice, tpc-mask, static-split, wait, reef-n, smguard, lookahead, memory-wait, flexgpu")
      ->capture_default_str();
  all.serve->add_option("--programs", a.programs, "names of those that will come, in the order of the policy's shares: cam,training")
      ->delimiter(',')
      ->allow_extra_args(false);
  all.serve->add_option("--ahead-us", a.ahead_us, "a launch that a policy may hold back goes this long before those before it end")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  all.serve
      ->add_option("--in-flight", a.in_flight,
                   "launches of a stream that such a program's host makes before they may go; 0: it waits for each")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  all.serve
      ->add_option("--memory", a.memory,
                   "under flexgpu: device memory that programs share, as 24GiB (default: nine tenths of what the GPU has)")
      ->transform(CLI::AsSizeValue(true));
  all.serve->add_option("--gpu", a.gpu.kind, "the GPU in this machine (default: as the driver says)");
  all.serve->add_option("--device", a.gpu.place,
                        "where on the bus the GPU is, of several, as nvidia-smi says it: 0000:81:00.0 (default: the first that CUDA_VISIBLE_DEVICES names)");
  all.serve->add_flag("--no-mps", a.no_mps, "start no MPS server: programs then take turns, unless one of yours is there");
  all.serve->add_flag("--persistent", a.persistent,
                      "stop or size long best-effort kernels, where the program brings their PTX: under wait, reef-n and smguard");
  all.serve->add_option("--metrics", a.metrics, "file that has the state each second, in Prometheus's text format");
  all.serve->add_option("--record", a.record, "file that gets what the policy was told and what it decided");
  add_at(*all.serve);
  all.run = app.add_subcommand("run", "run a program whose launches sim serve decides about");
  all.run->add_option("program", a.program, "the program and its arguments, after --: -- python serve.py")->required();
  all.run->add_option("--name", a.name, "of the program, for policies and sim top (default: the program's)");
  all.run->add_option("--class", a.service_class, "how it is served")
      ->check(CLI::IsMember({"real_time", "best_effort"}))
      ->capture_default_str();
  all.run->add_option("--priority", a.priority, "CUDA's: 0 lowest, -5 highest")->check(CLI::Range(-5, 0))->capture_default_str();
  all.run->add_option("--quota", a.quota, "under smguard: the most of the GPU that a best-effort program gets, as 0.5")
      ->check(CLI::Range(0.001, 1.0));
  all.run->add_option("--reservation", a.reservation, "under smguard: the least that a real-time program gets")
      ->check(CLI::Range(0.001, 1.0));
  all.run->add_option("--slo-us", a.slo_us, "a request is to take no longer, for a policy that minds it (default: none)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{86'400'000'000}));
  all.run->add_flag("--own-memory", a.own_memory,
                    "its memory stays on the GPU, as it must of a program that shares it with others (CUDA IPC, RDMA)");
  add_at(*all.run);
  all.top = app.add_subcommand("top", "print what the programs of sim serve have done");
  all.top->add_flag("--json", a.json, "for machines");
  add_at(*all.top);
  return all;
}

int serve(const LiveArguments& a) {
  const std::string device = device_here(a.gpu.place);
  const Gpu gpu = gpu_here(a.gpu.kind, device);
  live::Service service(a.policy, gpu, folder_of(a),
                        {from_ns(1e3 * a.ahead_us), a.in_flight, a.programs, forecast_unknown, a.memory, a.persistent});
  service.of_gpu(device);
  std::optional<live::RecordingFile> recorded;
  if (!a.record.empty()) {
    service.record();
    recorded.emplace(*service.recording(), a.record);
  }
  live::MetricsFile metrics(a.metrics);
  const auto write_metrics = [&](const std::string& state) {
    if (a.metrics.empty()) return;
    if (const std::string says = metrics.write(live::metrics_of(state), service.now()); !says.empty()) service.say(live::Level::warning, says);
  };
  write_metrics(service.state());
  if (metrics.error() != 0 && metrics.error() != ENOSPC && metrics.error() != EDQUOT)  // a disk has room again by itself
    throw InputError(a.metrics, "--metrics", "cannot be written", "name a file in a folder that exists and has room");
  std::optional<hw::MpsDaemon> mps;
  if (service.books().one_context() && !a.no_mps) mps.emplace(kMpsPatience_s, service.folder().path());
  service.invite(mps ? mps->environment() : std::vector<std::string>{});
  const hw::SignalGuard guard;
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads what is said may end
  service.say(live::Level::notice, fmt::format("{} on {}: sim run{} -- PROGRAM joins; Ctrl-C ends", a.policy, gpu.name,
                                               a.at.empty() ? "" : fmt::format(" --at {}", a.at)));
  live::notify("READY=1");
  bool unrecorded = false;
  bool lost = false;  // the MPS server's daemon: programs that are there go on, and no further one can come
  const auto stop = [&] { return (lost && service.programs() == 0) || hw::SignalGuard::flag().load(std::memory_order_relaxed); };
  if (mps) service.watch(mps->descriptor());
  try {
    service.run(stop, [&](const std::string& state) {
      write_metrics(state);
      if (recorded && recorded->error() != 0 && !std::exchange(unrecorded, true))
        service.say(live::Level::warning, fmt::format("{}: nothing more is written ({})", a.record, std::strerror(recorded->error())));
      if (lost || !mps || !mps->ended()) return;
      lost = true;
      service.uninvite();
      service.say(live::Level::error, "the MPS server's control daemon has ended: no further program can join, and the service ends with those that are there");
    });
  } catch (...) {
    if (mps) mps->let_go();  // programs go on unsteered, as where the service is killed
    throw;
  }
  live::notify("STOPPING=1");
  if (lost) mps->let_go();
  const std::string state = service.state();
  write_metrics(state);
  (void)std::fwrite(state.data(), 1, state.size(), stdout);  // that it cannot be written is no fault of what was served
  if (recorded) {
    const live::Recording& recording = *service.recording();
    if (recording.full()) service.say(live::Level::notice, fmt::format("{}: only the first {} lines were kept", a.record, recording.size()));
    if (recorded->finish() != 0) throw InputError(a.record, "--record", "cannot be written", "name a file in a folder that exists and has room");
  }
  if (lost)
    throw InputError("", "serve", "the MPS server's control daemon has ended", "start sim serve anew, and the programs that have failed");
  return 0;
}

int run_steered(const LiveArguments& a) {
  // Without the socket's name the program would run unsteered and say nothing.
  const auto none = [&] { return InputError(folder_of(a).string(), "run", "no service is there", "start one with sim serve, or name its folder with --at"); };
  const std::optional<live::Folder> folder = live::Folder::of_program(folder_of(a));
  if (!folder) throw none();
  const auto invitation = folder->invitation();
  if (std::ranges::find(invitation, live::kSocketVariable, &std::pair<std::string, std::string>::first) == invitation.end()) throw none();
  for (const auto& [name, value] : invitation) setenv(name.c_str(), value.c_str(), 1);
  const char* before = std::getenv("LD_PRELOAD");
  const std::string library = beside_this("libcorun_steer.so", "build with the CUDA Toolkit").string();
  setenv("LD_PRELOAD", before != nullptr && *before != '\0' ? (library + ":" + before).c_str() : library.c_str(), 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 0);  // as without MPS, whose 2 make streams wait for each other
  setenv("CORUN_NAME", a.name.empty() ? files::path(a.program.front()).filename().c_str() : a.name.c_str(), 1);
  if (a.own_memory) setenv("CORUN_OWN_MEMORY", "1", 1);
  setenv("CORUN_CLASS", a.service_class.c_str(), 1);
  setenv("CORUN_PRIORITY", fmt::format("{}", a.priority).c_str(), 1);
  if (a.quota != 0) setenv("CORUN_QUOTA", fmt::format("{}", a.quota).c_str(), 1);
  if (a.reservation != 0) setenv("CORUN_RESERVATION", fmt::format("{}", a.reservation).c_str(), 1);
  if (a.slo_us != 0) setenv("CORUN_SLO_US", fmt::format("{}", a.slo_us).c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : a.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw InputError("", a.program.front(), std::strerror(errno), "check the program's name after --");
}

int top(const LiveArguments& a) {
  const files::path path = folder_of(a) / "socket";
  const std::optional<live::Folder> folder = live::Folder::of_program(folder_of(a));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (folder) std::strncpy(address.sun_path, folder->opened("socket").c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  live::Hello hello;
  hello.wish = live::Hello::Wish::state;
  if (!folder || connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
    close(fd);
    throw InputError(path.string(), "top", "no service answers there", "start one with sim serve, or name its folder with --at");
  }
  std::string text;
  char part[4096];
  for (ssize_t n; (n = recv(fd, part, sizeof part, 0)) > 0;) text.append(part, static_cast<std::size_t>(n));
  close(fd);
  if (!text.starts_with("{")) {
    live::Welcome refusal;
    if (text.size() == sizeof refusal) std::memcpy(&refusal, text.data(), sizeof refusal);
    refusal.reason[sizeof refusal.reason - 1] = '\0';
    throw InputError(path.string(), "top", fmt::format("the service refuses: {}", refusal.reason), "ask as the user who started it");
  }
  if (a.json)
    fmt::print("{}", text);
  else
    print_table(text);
  return 0;
}

}  // namespace corun::sim
