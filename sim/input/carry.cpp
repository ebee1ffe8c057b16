#include "sim/input/carry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun::sim {
namespace {

/// What documents, tools and drivers print of one card differs by less; cards of one product line by more.
constexpr double kClockApart = 0.03, kMemoryApart = 0.1;

bool near(double a, double b, double apart) { return std::abs(a - b) <= apart * std::max(a, b); }

}  // namespace

bool same_card(const Gpu& a, const Gpu& b) {
  return a.sms == b.sms && a.compute_capability_major == b.compute_capability_major &&
         a.compute_capability_minor == b.compute_capability_minor && near(a.clock_hz, b.clock_hz, kClockApart) &&
         near(double(a.l2_bytes), double(b.l2_bytes), kMemoryApart) &&
         near(double(a.memory_bytes), double(b.memory_bytes), kMemoryApart) &&
         near(a.dram_bytes_per_second, b.dram_bytes_per_second, kMemoryApart);
}

Gpu told_apart(Gpu to, const Gpu& from, const std::string& written) {
  if (to.name == from.name && written != to.name && !same_card(from, to))
    to.name = fmt::format("{} ({})", to.name, written);
  return to;
}

std::vector<Gpu> read_gpus(const std::vector<std::string>& names) {
  std::vector<Gpu> gpus;
  std::optional<InputError> first;
  std::string others;
  for (const std::string& name : names) try {
      gpus.push_back(read_gpu(name));
    } catch (const InputError& error) {
      if (first)
        others += fmt::format("\n  and {}: {}", error.file(), error.problem());
      else
        first = error;
    }
  if (first && others.empty()) throw *first;
  if (first) throw InputError(first->file(), first->place(), first->problem() + others, first->remedy());
  return gpus;
}

std::string carry_error(const Gpu& from, const Gpu& to) {
  static const Gpu measured_from = read_gpu("h200"), measured_to = read_gpu("h100-sxm");
  if (same_card(from, measured_from) && same_card(to, measured_to))
    return "measured between these cards, times alone are off by 1 % in the median and 5 to 13 % at p90";
  return "nobody has measured how far that is off between these cards";
}

std::string carry_note(const CarriedOver& c, const std::string& what, const Gpu& from, const Gpu& to) {
  const std::string left_out = not_carried(c, from, to);
  return fmt::format("{}: recorded on {}; its kernels' times are carried over to {}, {:.2f} times as long in the median ({:.2f} to {:.2f}); {}{}",
                     what, from.name, to.name, c.median, c.least, c.most, carry_error(from, to),
                     left_out.empty() ? "" : "; " + left_out);
}

std::string carry_over(Trace& trace, const std::string& what, const Gpu& from, const Gpu& to) {
  if (!same_card(from, to)) {
    CarriedOver carried = carried_over(trace, from, to);
    trace = std::move(carried.trace);
    return trace.carried.emplace_back(carry_note(carried, what, from, to));
  }
  if (from.name == to.name) return {};
  return *trace.notes.insert(trace.notes.begin(), fmt::format("{}: recorded on {}; {} describes such a card, so times stay as recorded",
                                                              what, from.name, to.name));
}

std::string put_on(Trace& trace, const std::string& file, const std::string& gpu) {
  const std::string found = locate_gpu(gpu);
  std::string note;
  if (!trace.gpu.empty()) {
    const Gpu from = read_gpu(trace.gpu, std::filesystem::path(file).parent_path());
    note = carry_over(trace, file.empty() ? trace.name : file, from, told_apart(read_gpu(found), from, gpu));
  }
  trace.gpu = found;
  return note;
}

std::string simulated_elsewhere(const Gpu& measured, const Gpu& simulated) {
  if (same_card(measured, simulated)) return {};
  return fmt::format("; simulated on {}, another card, with the times as recorded", simulated.name);
}

}  // namespace corun::sim
