// measure_gpu: the measurements of jobs.h, by name.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <fstream>
#include <map>

#include "hw/driver/cuda_driver.h"
#include "hw/measure/jobs.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

std::string shell(const char* command) {
  std::string text;
  if (FILE* pipe = popen(command, "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
    pclose(pipe);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Json machine(Driver& driver) {
  const DeviceFacts f = driver.facts();
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", std::gmtime(&now));
  return {
      {"gpu", f.name},
      {"sms", f.sms},
      {"cuda", f.driver},
      {"driver", shell("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null")},
      {"clocks",
       shell("nvidia-smi --query-gpu=clocks.sm,clocks.mem,clocks.max.sm --format=csv,noheader 2>/dev/null")},
      {"date", date}};
}

/// Arrays of numbers on one line.
std::string compact(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if (text[at] != '[') continue;
    const std::size_t end = text.find_first_not_of(" \n,.+-eE0123456789", at + 1);
    if (end == std::string::npos || text[end] != ']') continue;
    for (++at; at < end; ++at)
      if (text[at] != ' ' && text[at] != '\n') out += text[at];
    out += ']';
  }
  return out;
}

int command(int argc, char** argv) {
  using Job = Json (*)(Bench&);
  const std::map<std::string, Job> jobs{{"overhead", measure_overhead},
                                        {"identity", measure_identity},
                                        {"preemption", measure_preemption},
                                        {"partitions", measure_partitions},
                                        {"backend", measure_backend},
                                        {"padding", measure_padding},
                                        {"solo", measure_solo},
                                        {"ptx", measure_ptx}};
  std::vector<std::string> wanted, kernels;
  std::string store, out = ".", architecture = "sm_90";
  std::uint32_t scale = 1;
  CLI::App app{"Measures the mechanisms of the CUDA backend."};
  app.add_option("jobs", wanted, "overhead, identity, preemption, partitions, backend, padding, solo, ptx")
      ->check(
          CLI::IsMember({"overhead", "identity", "preemption", "partitions", "backend", "padding", "solo", "ptx"}));
  app.add_option("--store", store, "folder that keeps compiled kernels");
  app.add_option("--out", out, "folder for JOB.json")->capture_default_str();
  app.add_option("--kernels", kernels, "only these kernels")->delimiter(',');
  std::string trace;
  app.add_option("--trace", trace, "solo and ptx: the trace whose kernels are measured");
  app.add_option("--scale", scale, "factor on the number of repeats")->check(CLI::Range(1, 100));
  app.add_option("--architecture", architecture, "what to compile for")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const std::unique_ptr<Compiler> compiler = open_nvrtc(architecture, store);
  const std::unique_ptr<Driver> driver = open_cuda();
  Workbench work(*driver, *compiler);
  Bench bench{*driver, work, scale, kernels, trace, out};
  for (const std::string& name : wanted) {
    fmt::print("== {}\n", name);
    Json document{
        {"job", name}, {"command", fmt::format("measure_gpu {}", name)}, {"machine", machine(*driver)}};
    const Time begin = driver->now();
    document["results"] = jobs.at(name)(bench);
    document["machine_afterwards"] = machine(*driver);
    fmt::print("{} took {:.1f} s\n", name, to_seconds(driver->now() - begin));
    std::fflush(stdout);
    std::ofstream(fmt::format("{}/{}.json", out, name)) << compact(document.dump(1)) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace corun::hw

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return corun::hw::command(argc, argv);
  } catch (const corun::InputError& error) {
    fmt::print(stderr, "measure_gpu: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "measure_gpu: {}\n", error.what());
    return 1;
  }
}
