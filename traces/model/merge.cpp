#include "traces/model/merge.h"

#include <set>
#include <variant>

namespace corun {

Offsets append(Trace& into, const Trace& from, const std::string& prefix) {
  const Offsets at{static_cast<std::uint32_t>(into.kernels.size()), static_cast<std::uint32_t>(into.programs.size())};
  std::set<std::string> kernels, programs;
  for (const Kernel& kernel : into.kernels) kernels.insert(kernel.name);
  for (const Program& program : into.programs) programs.insert(program.name);
  for (Kernel kernel : from.kernels) {
    while (!kernels.insert(kernel.name).second) kernel.name = prefix + "/" + kernel.name;
    into.kernels.push_back(std::move(kernel));
  }
  for (Program program : from.programs) {
    while (!programs.insert(program.name).second) program.name = prefix + "/" + program.name;
    for (Op& op : program.ops)
      if (Launch* launch = std::get_if<Launch>(&op.what)) launch->kernel.value += at.kernels;
    for (auto& [sms, there] : program.on_sms) there.value += at.programs;
    into.programs.push_back(std::move(program));
  }
  return at;
}

}  // namespace corun
