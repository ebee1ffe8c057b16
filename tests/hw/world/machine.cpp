#include "tests/hw/world/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace corun::world {

Machine* Machine::the_ = nullptr;
const std::shared_ptr<Process> Machine::kNobody{};

namespace {

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

/// Mixed twice: else the numbers of one seed are those of the next one, a few places on.
Random::Random(std::uint64_t seed) : state_(mixed(mixed(seed + 0x9E3779B97F4A7C15u) ^ 0x2545F4914F6CDD1Du)) {}

std::uint64_t Random::next() { return mixed(state_ += 0x9E3779B97F4A7C15u); }  // splitmix64: Steele and others 2014

Ns Random::between(Ns least, Ns most) {
  const auto span = static_cast<std::uint64_t>((most - least).count());
  return least + Ns(span == 0 ? 0 : static_cast<std::int64_t>(next() % span));
}

File::~File() {
  if (memory != nullptr) munmap(memory, room);
  if (const auto other = peer.lock()) {
    other->over = true;
    Machine::the().changed(*other);
  }
}

void free_slots(std::vector<Slot>& slots) {
  for (Slot& slot : slots)
    if (slot.at != nullptr) slot.destroy(std::exchange(slot.at, nullptr));
}

Machine::Machine(std::uint64_t seed) : random(seed) { the_ = this; }

Machine::~Machine() {
  end_all();
  threads_.clear();
  the_ = nullptr;
}

void Machine::end_all() {
  std::vector<std::shared_ptr<Process>> all;
  for (const auto& t : threads_)
    if (std::ranges::find(all, t->process) == all.end()) all.push_back(t->process);
  for (const auto& p : all)
    if (p->alive) kill(p);
}

Thread& Machine::new_thread(const std::shared_ptr<Process>& process, std::function<void()> run) {
  Thread& t = *threads_.emplace_back(std::make_unique<Thread>());
  t.process = process;
  t.clock = now();
  t.fiber = std::make_unique<Fiber>([run = std::move(run)] {
    try {
      run();
    } catch (const Killed&) {
    }
  });
  push(now() + random.between(1us, 60us), t);
  return t;
}

std::shared_ptr<Process> Machine::begin(const std::string& name, std::function<void()> run) {
  auto process = std::make_shared<Process>();
  process->pid = ++pids_;
  process->name = name;
  process->files.resize(3);
  for (auto& file : process->files) file = std::make_shared<File>(File::Kind::null);
  new_thread(process, [this, process = process.get(), run = std::move(run)] {
    run();
    // With its last word the process ends, whatever other threads it has.
    at(now(), [this, pid = process->pid] {
      for (const auto& t : threads_)
        if (t->process->pid == pid && t->process->alive) return kill(std::shared_ptr<Process>(t->process));
    });
  });
  return process;
}

std::shared_ptr<Process> Machine::fork(Process& parent, std::function<void()> run) {
  auto child = begin(parent.name + "'s child", [run = std::move(run)] {
    if (!the().plants.children_keep_sockets)
      for (auto* each : std::vector(the().process()->in_child)) each();
    run();
  });
  child->uid = parent.uid;
  child->files = parent.files;
  child->mapped = parent.mapped;
  child->kept = parent.kept;
  child->environment = parent.environment;
  child->in_child = parent.in_child;
  child->slots.resize(parent.slots.size());
  for (std::size_t i = 0; i < parent.slots.size(); ++i)
    if (const Slot& of = parent.slots[i]; of.at != nullptr && of.bytes != 0) {
      child->slots[i] = {::operator new(of.bytes), of.bytes, of.destroy};
      std::memcpy(child->slots[i].at, of.at, of.bytes);
    }
  return child;
}

void Machine::kill(const std::shared_ptr<Process>& process) {
  if (!process->alive) return;
  if (tells()) tell(process->name + " ends");
  process->alive = false;
  process->ended_at = now();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& t = *threads_[i];
    if (t.process != process) continue;
    ++t.turn;
    if (t.fiber->begun() && !t.fiber->ended()) resume(t);
    if (t.fiber->begun() && !t.fiber->ended()) std::abort();  // a destructor has waited
    free_slots(t.slots);
  }
  if (process->at_end) std::exchange(process->at_end, nullptr)();
  if (process_ended) process_ended(*process);
  process->files.clear();
  process->mapped.clear();
  while (!process->kept.empty()) process->kept.pop_back();
  free_slots(process->slots);
  // Who has its descriptor sees that.
  for (const auto& t : threads_)
    if (t->polls != nullptr)
      for (std::size_t i = 0; i < t->polled; ++i)
        if (t->polls[i].fd >= 0 && static_cast<std::size_t>(t->polls[i].fd) < t->process->files.size())
          if (const auto& f = t->process->files[static_cast<std::size_t>(t->polls[i].fd)]; f != nullptr && f->of.lock() == process) wake(*t);
}

void Machine::stop(Process& process) {
  process.stopped = true;
  process.stopped_at = now();
}

void Machine::go_on(Process& process) {
  process.stopped = false;
  auto all = std::exchange(deferred_, {});
  for (const auto& [thread, turn] : all)
    if (thread->process.get() != &process)
      deferred_.emplace_back(thread, turn);
    else if (thread->turn == turn)
      push(now() + random.between(1us, 50us), *thread);
}

void Machine::at(Ns when, std::function<void()> what) {
  events_.push({when, ++numbers_, 0, nullptr, std::make_shared<std::function<void()>>(std::move(what))});
}

void Machine::push(Ns when, Thread& thread) { events_.push({when, ++numbers_, ++thread.turn, &thread, nullptr}); }

void Machine::resume(Thread& thread) {
  Thread* before = std::exchange(thread_, &thread);
  ++thread.steps;
  thread.fiber->resume();
  thread_ = before;
}

void Machine::run(Ns until) {
  while (!events_.empty() && wrong_.empty()) {
    const Event event = events_.top();
    if (event.when > until) break;
    events_.pop();
    if (event.thread != nullptr) {
      if (event.turn != event.thread->turn || !event.thread->process->alive) continue;
      if (event.thread->process->stopped) {
        deferred_.emplace_back(event.thread, event.turn);
        continue;
      }
    }
    now_ = std::max(now_, event.when);
    ++steps_;
    if (event.thread != nullptr) {
      note(static_cast<std::uint64_t>(now_.count()) ^ static_cast<std::uint64_t>(event.thread->process->pid) << 50);
      event.thread->clock = now_;
      resume(*event.thread);
    } else {
      (*event.what)();
    }
    if (each_step_) each_step_();
  }
}

bool Machine::park(Ns until) {
  Thread& t = *thread_;
  if (!t.process->alive) return false;  // it is unwound
  t.woken = false;
  push(std::max(until, t.clock), t);
  t.fiber->yield();
  t.waits_on = nullptr, t.polls = nullptr;
  if (!t.process->alive) throw Killed{};
  return t.woken;
}

void Machine::spend(Ns at_most) {
  if (thread_ == nullptr || !thread_->process->alive) return;
  thread_->clock += random.between(20ns, at_most);
  if (random.one_in(4000)) thread_->clock += random.between(50us, 5ms);  // another has its core
  if (!events_.empty() && events_.top().when <= thread_->clock) park(thread_->clock);
}

void Machine::start_thread(std::function<void()> run) { new_thread(process(), std::move(run)); }

bool Machine::wait_on(const void* what, Ns until) {
  if (thread_ == nullptr || !thread_->process->alive) return false;
  thread_->waits_on = what;
  return park(until);
}

void Machine::wake(Thread& thread) {
  if (thread.woken) return;
  thread.woken = true;
  push(now() + random.between(1us, 40us), thread);
}

void Machine::wake(const void* what) {
  for (const auto& t : threads_)
    if (t->waits_on == what && t->process->alive) wake(*t);
}

void Machine::wait_for_files(const pollfd* all, std::size_t count, Ns until) {
  thread_->polls = all, thread_->polled = count;
  park(until);
}

void Machine::changed(const File& file) {
  ++steps_;
  for (const auto& t : threads_) {
    if (t->polls == nullptr || !t->process->alive) continue;
    for (std::size_t i = 0; i < t->polled; ++i) {
      const auto fd = static_cast<std::size_t>(t->polls[i].fd);
      if (t->polls[i].fd >= 0 && fd < t->process->files.size() && t->process->files[fd].get() == &file) {
        wake(*t);
        break;
      }
    }
  }
}

void Machine::look_in_vain() {
  if (thread_ == nullptr || !thread_->process->alive) return;
  Thread& t = *thread_;
  t.looks_for = t.seen == steps_ - t.steps ? std::min(2 * t.looks_for, Ns(4ms)) : random.between(200ns, 20us);
  park(std::min(t.clock + t.looks_for, events_.empty() ? kForever : std::max(events_.top().when, t.clock)));
  t.seen = steps_ - t.steps;
}

int Machine::add(std::shared_ptr<File> file) {
  auto& files = process()->files;
  std::size_t open = 0, place = files.size();
  for (std::size_t i = files.size(); i-- > 0;)
    if (files[i] == nullptr) place = i; else ++open;
  if (open >= process()->most_files) return errno = EMFILE, -1;
  if (place == files.size()) files.emplace_back();
  files[place] = std::move(file);
  return static_cast<int>(place);
}

std::shared_ptr<File> Machine::file(int descriptor) const {
  const auto& files = process()->files;
  const auto place = static_cast<std::size_t>(descriptor);
  return descriptor >= 0 && place < files.size() ? files[place] : nullptr;
}

bool Machine::fails() {
  if (fail_in_ == 0 || thread_ == nullptr || !process()->name.starts_with(fail_of_)) return false;
  if (--fail_in_ != 0) return false;
  ++count("the system failed");
  return true;
}

void Machine::wrong(const std::string& what) {
  if (!wrong_.empty()) return;
  wrong_ = what;
  tell("WRONG: " + what);
}

void Machine::tell(const std::string& what) {
  if (tells_) std::printf("%12.6f ms  %-14s %s\n", static_cast<double>(now().count()) / 1e6, process() != nullptr ? process()->name.c_str() : "", what.c_str());
}

}  // namespace corun::world
