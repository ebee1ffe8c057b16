#include "tests/support/same_trace.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <variant>

namespace corun {
namespace {

// Structured bindings name every member, so a new one does not compile until it is compared.

bool same(const Counters& a, const Counters& b) {
  const auto all = [](const Counters& counters) {
    const auto& [read, write, l2, l1, warp, tensor, issue, warps, fp64, pipes, duration] = counters;
    return std::tie(read, write, l2, l1, warp, tensor, issue, warps, fp64, pipes, duration);
  };
  return all(a) == all(b);
}

bool same(const Kernel& a, const Kernel& b) {
  const auto all = [](const Kernel& kernel) {
    const auto& [name, origin, grid, block, cluster, registers, fixed, dynamic, idempotent, ptx, solo, solo_sms,
                 by_sms, places_free, by_ctas, stoppable, blocks, counters, code] = kernel;
    static_cast<void>(counters), static_cast<void>(code), static_cast<void>(stoppable);
    return std::tie(name, origin, grid, block, cluster, registers, fixed, dynamic, idempotent, ptx, solo, solo_sms,
                    by_sms, places_free, by_ctas, blocks);
  };
  const auto code = [](const Kernel& kernel) {
    const DeviceCode none;
    const auto& [file, library, function, arguments] = kernel.code ? *kernel.code : none;
    return std::tuple(kernel.code.has_value(), file, library, function, arguments);
  };
  const auto stops = [](const Kernel& kernel) {
    const Kernel::Stoppable none;
    const auto& [time, stay] = kernel.stoppable ? *kernel.stoppable : none;
    return std::tuple(kernel.stoppable.has_value(), time, stay);
  };
  return all(a) == all(b) && same(a.counters, b.counters) && code(a) == code(b) && stops(a) == stops(b);
}

bool same(const Op& a, const Op& b) {
  const auto all = [](const Op& op) {
    const auto& [what, stream, gap, after, name, uses, graph] = op;
    static_cast<void>(what);
    return std::tie(stream, gap, after, name, uses, graph);
  };
  const auto same_what = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    const What& other = std::get<What>(b.what);
    if constexpr (std::is_same_v<What, Launch>) {
      return what.kernel == other.kernel && what.solo_time == other.solo_time &&
             what.tpc_mask == other.tpc_mask && what.dependent == other.dependent && what.gap == other.gap;
    } else if constexpr (std::is_same_v<What, Copy>) {
      return what.direction == other.direction && what.bytes == other.bytes;
    } else if constexpr (std::is_same_v<What, Alloc>) {
      return what.buffer == other.buffer && what.bytes == other.bytes;
    } else if constexpr (std::is_same_v<What, Free>) {
      return what.buffer == other.buffer;
    } else {
      return true;
    }
  };
  return all(a) == all(b) && a.what.index() == b.what.index() && std::visit(same_what, a.what);
}

bool same(const Stream& a, const Stream& b) {
  const auto& [a_name] = a;
  const auto& [b_name] = b;
  return a_name == b_name;
}

bool same(const Program& a, const Program& b);
bool same(const ClientStream& a, const ClientStream& b);
bool same(const Client& a, const Client& b);

template <class Item>
bool all_same(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Item& x, const Item& y) { return same(x, y); });
}

bool same(const Program& a, const Program& b) {
  const auto& [name, issue, streams, ops, buffers, parts, on_sms] = a;
  return name == b.name && issue == b.issue && all_same(streams, b.streams) && all_same(ops, b.ops) &&
         buffers == b.buffers && parts == b.parts && on_sms == b.on_sms;
}

bool same(const Serving& a, const Serving& b) {
  const auto& [steps, most, padded, sequences, first, between] = a;
  const auto same_step = [](const ServingStep& x, const ServingStep& y) {
    const auto& [program, batch, context, tokens] = x;
    return program == y.program && batch == y.batch && context == y.context && tokens == y.tokens;
  };
  const auto same_sequence = [](const Sequence& x, const Sequence& y) {
    const auto& [at, prompt, generated] = x;
    return at == y.at && prompt == y.prompt && generated == y.generated;
  };
  return std::equal(steps.begin(), steps.end(), b.steps.begin(), b.steps.end(), same_step) &&
         most == b.most_at_once && padded == b.padded &&
         std::equal(sequences.begin(), sequences.end(), b.sequences.begin(), b.sequences.end(),
                    same_sequence) &&
         first == b.first_token_slo && between == b.between_tokens_slo;
}

bool same(const Arrivals& a, const Arrivals& b) {
  const auto same_type = [&](const auto& from) {
    using Type = std::decay_t<decltype(from)>;
    const Type& other = std::get<Type>(b);
    if constexpr (std::is_same_v<Type, Periodic>) {
      return from.period == other.period && from.offset == other.offset;
    } else if constexpr (std::is_same_v<Type, Poisson>) {
      return from.rate_per_s == other.rate_per_s && from.seed == other.seed;
    } else if constexpr (std::is_same_v<Type, ClosedLoop>) {
      return from.think_time == other.think_time && from.in_flight == other.in_flight;
    } else {
      const auto& [mine] = from;
      const auto& [yours] = other;
      return mine == yours;
    }
  };
  return a.index() == b.index() && std::visit(same_type, a);
}

bool same(const ClientStream& a, const ClientStream& b) {
  const auto& [priority, mask] = a;
  return priority == b.priority && mask == b.tpc_mask;
}

bool same(const Client& a, const Client& b) {
  const auto all = [](const Client& client) {
    const auto& [name, origin, program, process, issue, service, priority, mask, streams, memory, quota,
                 reservation, deadline, arrivals, stale, host_stalls, serving] = client;
    static_cast<void>(serving);
    static_cast<void>(streams);
    static_cast<void>(arrivals);
    return std::tie(name, origin, program, process, issue, service, priority, mask, memory, quota,
                    reservation, deadline, stale, host_stalls);
  };
  return all(a) == all(b) && all_same(a.streams, b.streams) && same(a.arrivals, b.arrivals) &&
         a.serving.has_value() == b.serving.has_value() && (!a.serving || same(*a.serving, *b.serving));
}

}  // namespace

bool same(const Trace& a, const Trace& b) {
  const auto& [name, about, gpu, kernels, programs, clients, run, notes, carried] = a;
  const auto& [duration, warm_up, seed] = run;
  return name == b.name && about == b.about && gpu == b.gpu && all_same(kernels, b.kernels) &&
         all_same(programs, b.programs) && all_same(clients, b.clients) && duration == b.run.duration &&
         warm_up == b.run.warm_up && seed == b.run.seed && notes == b.notes && carried == b.carried;
}

}  // namespace corun
