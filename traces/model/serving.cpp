#include "traces/model/serving.h"

#include <algorithm>

#include "traces/model/error.h"
#include "traces/model/op_order.h"

namespace corun {
namespace {

[[noreturn]] void fail(const Client& client, const std::string& problem, const std::string& remedy) {
  throw InputError(client.origin.file, client.origin.place + "/serving", problem, remedy);
}

std::uint32_t last_graph(const Program& program) {
  std::uint32_t last = 0;
  for (const Op& op : program.ops) last = std::max(last, op.graph);
  return last;
}

/// Its operations in the order in which the host calls them, so that none names a later one.  Its CUDA graphs
/// get numbers of their own: those of two parts beside each other are not one.
void append_part(Program& to, const Program& step) {
  const std::uint32_t graphs = last_graph(to);
  const auto first = static_cast<std::uint32_t>(to.ops.size());
  to.parts.push_back(OpId{first});
  const OpOrder order(step);
  std::vector<std::uint32_t> place(step.ops.size());
  for (std::uint32_t i = 0; i < step.ops.size(); ++i) place[order.issue_order()[i].value] = first + i;
  for (const OpId from : order.issue_order()) {
    Op op = step.ops[from.value];
    for (OpId& after : op.after) after = OpId{place[after.value]};
    op.name.clear();
    if (op.graph != 0) op.graph += graphs;
    to.ops.push_back(std::move(op));
  }
  while (to.streams.size() < step.streams.size()) to.streams.push_back(step.streams[to.streams.size()]);
}

}  // namespace

void make_servers(Trace& trace) {
  for (Client& client : trace.clients) {
    if (!client.serving) continue;
    Serving& serving = *client.serving;
    std::uint32_t largest = 0;
    bool reads = false;
    Program merged;
    merged.name = client.name + " (server)";
    for (const ServingStep& step : serving.steps) {
      const Program& program = trace.programs[step.program.value];
      if (!program.buffers.empty())
        fail(client, "program " + program.name + " allocates memory, which a server's step cannot",
             "leave its allocations out and give the client memory_bytes");
      if (merged.parts.empty()) merged.issue = program.issue;
      if (!client.issue && merged.issue != program.issue)
        fail(client, "some of its programs are graphs and some are not", "say which it is: issue");
      append_part(merged, program);
      largest = std::max(largest, step.batch);
      reads = reads || step.tokens != 0;
    }
    if (largest == 0) fail(client, "no step decodes", "give a step with batch and context");
    if (!reads) fail(client, "no step reads a prompt", "give a step with tokens");
    if (serving.most_at_once == 0) serving.most_at_once = largest;
    client.streams.resize(merged.streams.size());
    client.program = ProgramId{static_cast<std::uint32_t>(trace.programs.size())};
    client.arrivals = ClosedLoop{};
    trace.programs.push_back(std::move(merged));
  }
}

}  // namespace corun
