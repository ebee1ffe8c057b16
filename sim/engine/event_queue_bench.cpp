// Time per event of the event queue and of other queues, in two models:
//   hold:   n events are pending; the first is popped and one is scheduled a random increment later.
//   bursts: 16 events far ahead; each, when it comes, schedules n near ones, which are held 8 times each.
//   Between
//           two bursts the queue runs nearly empty, as a GPU does between two requests.
//
// The other queues order by (time, phase, insertion) or, where their key has no room for a phase, by (time,
// insertion). SimGrid is represented by the two heaps it keeps its timers and its actions in, without the
// engine around them, which has no interface for plain events; its timers are in no particular order at one
// instant.
#include <benchmark/benchmark.h>

#include <array>
#include <boost/heap/d_ary_heap.hpp>
#include <cmath>
#include <cstdint>
#include <queue>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#ifdef CORUN_HAVE_NS3
#include <ns3/calendar-scheduler.h>
#include <ns3/heap-scheduler.h>
#include <ns3/map-scheduler.h>
#include <ns3/object.h>
#include <ns3/priority-queue-scheduler.h>
#endif

#ifdef CORUN_HAVE_SIMGRID
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Action.hpp>
#endif

#include "sim/engine/event_queue.h"

namespace corun::sim {
namespace {

struct Payload {
  std::uint16_t kind;
  std::uint16_t unused;
  std::uint32_t a;
  std::uint32_t b;
};

struct Popped {
  std::int64_t at;
  std::uint32_t a;
};

struct Ours {
  static constexpr const char* kName = "corun::EventQueue";
  static constexpr std::int64_t kMostPending = 1'000'000;
  EventQueue<Payload> queue;

  void schedule(std::int64_t at, std::uint32_t a) { queue.schedule(Time{at}, 1, {2, 0, a, 0}); }
  Popped pop() {
    const auto event = queue.pop();
    return {event.at.count(), event.payload.a};
  }
};

struct Element {
  std::int64_t at;
  std::uint64_t order;
  Payload payload;
};

struct Later {
  bool operator()(const Element& x, const Element& y) const {
    return x.at > y.at || (x.at == y.at && x.order > y.order);
  }
};

template <typename Queue>
struct Standard {
  static constexpr std::int64_t kMostPending = 1'000'000;
  Queue queue;
  std::uint64_t sequence = 0;

  void schedule(std::int64_t at, std::uint32_t a) {
    queue.push({at, std::uint64_t{1} << 56 | sequence++, {2, 0, a, 0}});
  }
  Popped pop() {
    const Element top = queue.top();
    queue.pop();
    return {top.at, top.payload.a};
  }
};

struct StdPriorityQueue : Standard<std::priority_queue<Element, std::vector<Element>, Later>> {
  static constexpr const char* kName = "std::priority_queue";
};

template <int Arity>
using DAryHeap =
    Standard<boost::heap::d_ary_heap<Element, boost::heap::arity<Arity>, boost::heap::compare<Later>>>;
struct Boost4AryHeap : DAryHeap<4> {
  static constexpr const char* kName = "boost::d_ary_heap<4>";
};
struct Boost8AryHeap : DAryHeap<8> {
  static constexpr const char* kName = "boost::d_ary_heap<8>";
};

#ifdef CORUN_HAVE_NS3
template <typename Scheduler>
struct Ns3 {
  static constexpr std::int64_t kMostPending = 100'000;  // more takes minutes
  // Made as ns-3 makes it: construction on its own leaves the attributes unset, and the calendar crashes.
  ns3::Ptr<Scheduler> scheduler = ns3::CreateObject<Scheduler>();
  std::uint32_t uid = 0;

  void schedule(std::int64_t at, std::uint32_t a) {
    scheduler->Insert({nullptr, {static_cast<std::uint64_t>(at), uid++, a}});
  }
  Popped pop() {
    const ns3::Scheduler::Event event = scheduler->RemoveNext();
    return {static_cast<std::int64_t>(event.key.m_ts), event.key.m_context};
  }
};
struct Ns3Heap : Ns3<ns3::HeapScheduler> {
  static constexpr const char* kName = "ns3::HeapScheduler";
};
struct Ns3Map : Ns3<ns3::MapScheduler> {
  static constexpr const char* kName = "ns3::MapScheduler";
};
struct Ns3Calendar : Ns3<ns3::CalendarScheduler> {
  static constexpr const char* kName = "ns3::CalendarScheduler";
};
struct Ns3PriorityQueue : Ns3<ns3::PriorityQueueScheduler> {
  static constexpr const char* kName = "ns3::PriorityQueueScheduler";
};
#endif

#ifdef CORUN_HAVE_SIMGRID
template <typename Heap>
struct SimGrid {
  static constexpr std::int64_t kMostPending = 100'000;
  using Pointer = typename Heap::value_type::second_type;
  Heap heap;

  void schedule(std::int64_t at, std::uint32_t a) {
    // Never followed: it only carries the number.
    heap.emplace(static_cast<double>(at), reinterpret_cast<Pointer>(std::uintptr_t{a}));
  }
  Popped pop() {
    const auto [at, pointer] = heap.top();
    heap.pop();
    return {static_cast<std::int64_t>(at),
            static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer))};
  }
};
struct SimGridTimers : SimGrid<std::remove_reference_t<decltype(simgrid::kernel::timer::kernel_timers())>> {
  static constexpr const char* kName = "simgrid timers (fibonacci_heap)";
};
struct SimGridActions : SimGrid<simgrid::kernel::resource::heap_type> {
  static constexpr const char* kName = "simgrid actions (pairing_heap)";
};
#endif

struct Distribution {
  const char* name;
  std::int64_t (*draw)(std::mt19937_64& random);
};

std::int64_t exponential(std::mt19937_64& random) {
  return 1 + static_cast<std::int64_t>(-1e6 * std::log1p(-static_cast<double>(random() >> 11) * 0x1p-53));
}

std::int64_t uniform(std::mt19937_64& random) { return static_cast<std::int64_t>(random() % 2'000'000); }

std::int64_t bimodal(std::mt19937_64& random) {
  const bool far = random() % 10 == 0;
  return static_cast<std::int64_t>(far ? 10'000'000 + random() % 20'000'000 : 1'000 + random() % 2'000);
}

// Blocks of equal length: whole multiples of the time between two dispatches, with many events at one
// instant.
std::int64_t lockstep(std::mt19937_64& random) { return static_cast<std::int64_t>(602 * (1 + random() % 8)); }

constexpr std::array<Distribution, 4> kDistributions{
    {{"exponential", exponential}, {"uniform", uniform}, {"bimodal", bimodal}, {"lockstep", lockstep}}};

class Increments {
 public:
  explicit Increments(const Distribution& distribution) : values_(1 << 16) {
    std::mt19937_64 random{1};
    for (std::int64_t& value : values_) value = distribution.draw(random);
  }

  std::int64_t next() { return values_[position_++ % values_.size()]; }

 private:
  std::vector<std::int64_t> values_;
  std::size_t position_ = 0;
};

template <typename Queue>
void hold(benchmark::State& state, const Distribution& distribution) {
  const auto pending = static_cast<std::uint32_t>(state.range(0));
  Increments increments{distribution};
  Queue queue;
  for (std::uint32_t i = 0; i < pending; ++i) queue.schedule(increments.next(), i);
  const auto step = [&] {
    const Popped event = queue.pop();
    queue.schedule(event.at + increments.next(), event.a);
  };
  for (std::uint32_t i = 0; i < 2 * pending; ++i) step();
  for (auto _ : state) step();
  state.SetItemsProcessed(state.iterations());
}

template <typename Queue>
void bursts(benchmark::State& state) {
  constexpr std::uint32_t kFar = 1u << 31;
  constexpr std::uint32_t kHolds = 8;
  constexpr std::int64_t kGap = 1'000'000'000;
  const auto burst = static_cast<std::uint32_t>(state.range(0));
  Increments increments{kDistributions[0]};
  Queue queue;
  for (std::int64_t i = 1; i <= 16; ++i) queue.schedule(i * kGap, kFar);
  for (auto _ : state) {
    const Popped event = queue.pop();
    if (event.a == kFar) {
      queue.schedule(event.at + 16 * kGap, kFar);
      for (std::uint32_t i = 0; i < burst; ++i) queue.schedule(event.at + increments.next(), kHolds);
    } else if (event.a > 0) {
      queue.schedule(event.at + increments.next(), event.a - 1);
    }
  }
  state.SetItemsProcessed(state.iterations());
}

template <typename Queue>
void register_hold(const Distribution& distribution, std::int64_t pending) {
  if (pending > Queue::kMostPending) return;
#ifdef CORUN_HAVE_NS3
  // Its buckets are sorted lists: with many events at one instant a single run takes minutes.
  if (std::is_same_v<Queue, Ns3Calendar> && distribution.draw == lockstep) return;
#endif
  const std::string name = "hold/" + std::string{distribution.name} + "/" + Queue::kName;
  benchmark::RegisterBenchmark(name.c_str(), hold<Queue>, distribution)->Arg(pending)->MinTime(0.1);
}

template <typename Queue>
void register_bursts(std::int64_t burst) {
  const std::string name = std::string{"bursts/"} + Queue::kName;
  benchmark::RegisterBenchmark(name.c_str(), bursts<Queue>)->Arg(burst)->MinTime(0.1);
}

template <typename... Queues>
bool register_benchmarks() {
  for (const Distribution& distribution : kDistributions) {
    for (const std::int64_t pending : {10, 1'000, 100'000, 1'000'000}) {
      (register_hold<Queues>(distribution, pending), ...);
    }
  }
  for (const std::int64_t burst : {1'000, 10'000}) (register_bursts<Queues>(burst), ...);
  return true;
}

[[maybe_unused]] const bool registered =
    register_benchmarks<Ours, StdPriorityQueue, Boost4AryHeap, Boost8AryHeap
#ifdef CORUN_HAVE_NS3
                        ,
                        Ns3Heap, Ns3Map, Ns3Calendar, Ns3PriorityQueue
#endif
#ifdef CORUN_HAVE_SIMGRID
                        ,
                        SimGridTimers, SimGridActions
#endif
                        >();

}  // namespace
}  // namespace corun::sim
