#include "hw/live/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace corun::live {
namespace {

struct Metric {
  const char* name;
  const char* type;
  const char* help;
};

void head(std::string& out, const Metric& m) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", m.name, m.help, m.type);
}

std::string of_program(const nlohmann::json& p) {
  return fmt::format("program=\"{}\",client=\"{}\"", label_value(p.at("name").get<std::string>()), p.at("client").get<std::uint32_t>());
}

}  // namespace

std::string label_value(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\' || c == '"') all += '\\';
    if (c == '\n')
      all += "\\n";
    else
      all += c;
  }
  return all;
}

std::string metrics_of(const std::string& state) {
  const nlohmann::json s = nlohmann::json::parse(state);
  std::string out;
  head(out, {"corun_decisions_total", "counter", "Times that the policy was asked."});
  out += fmt::format("corun_decisions_total{{policy=\"{}\"}} {}\n", label_value(s.at("policy").get<std::string>()), s.at("decisions").get<std::uint64_t>());
  head(out, {"corun_decision_seconds", "gauge", "What the latest 4096 decisions took."});
  out += fmt::format("corun_decision_seconds{{quantile=\"0.99\"}} {:.9f}\n", s.at("decision_us").at("p99").get<double>() / 1e6);
  constexpr std::array<std::pair<const char*, Metric>, 6> kCounters{{
      {"launches", {"corun_launches_total", "counter", "Kernels that a program has launched."}},
      {"graphs", {"corun_graphs_total", "counter", "Graphs that a program has launched."}},
      {"unsteered", {"corun_unsteered_total", "counter", "Launches that could not be steered."}},
      {"counted", {"corun_counted_total", "counter", "Driver calls that launch or access memory, unsteered."}},
      {"crowded", {"corun_crowded_total", "counter", "Launches of kernels whose times are not told apart."}},
      {"requests", {"corun_requests_total", "counter", "Requests that a program has ended."}},
  }};
  for (const auto& [key, metric] : kCounters) {
    head(out, metric);
    for (const nlohmann::json& p : s.at("programs")) out += fmt::format("{}{{{}}} {}\n", metric.name, of_program(p), p.at(key).get<std::uint64_t>());
  }
  if (!s.contains("memory")) return out;
  head(out, {"corun_memory_bytes", "gauge", "Steered memory of a program, by where it is."});
  for (const nlohmann::json& p : s.at("programs"))
    for (const char* where : {"gpu", "host"})
      out += fmt::format("corun_memory_bytes{{{},where=\"{}\"}} {}\n", of_program(p), where, p.at("memory").at(fmt::format("{}_bytes", where)).get<std::uint64_t>());
  head(out, {"corun_memory_cap_bytes", "gauge", "What programs may have on the GPU together."});
  out += fmt::format("corun_memory_cap_bytes {}\n", s.at("memory").at("cap_bytes").get<std::uint64_t>());
  head(out, {"corun_memory_moved_bytes_total", "counter", "Bytes that went to the host or came back."});
  out += fmt::format("corun_memory_moved_bytes_total {}\n", s.at("memory").at("moved_bytes").get<std::uint64_t>());
  return out;
}

/// 0, or why not.
int MetricsFile::written(const std::string& text) const {
  const std::string begun = file_.string() + ".new";
  unlink(begun.c_str());
  // A name that somebody has put a link behind meanwhile is none that this makes.
  const int fd = open(begun.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  int error = 0;
  for (std::size_t at = 0; error == 0 && at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n >= 0)
      at += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      error = errno;
  }
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(begun.c_str(), file_.c_str()) != 0) error = errno;
  if (error != 0) unlink(begun.c_str());
  return error;
}

std::string MetricsFile::write(const std::string& text, Time now) {
  const int before = error_;
  error_ = written(text);
  if (error_ == 0) {
    const std::uint64_t failed = std::exchange(failed_, 0);
    return before == 0 ? "" : fmt::format("{}: is written again, after {} times in which it could not be", file_.string(), failed);
  }
  ++failed_;
  if (before != 0 && now - said_ < limits::kSayAgain) return {};
  said_ = now;
  return fmt::format("{}: cannot be written ({}), and is as it was; tried again each second", file_.string(), std::strerror(error_));
}

}  // namespace corun::live
