// Programs that come, allocate, launch, copy, free and go at random under a policy that decides about memory, as the books
// of a service hear of them.  It keeps in mind by itself where each block is, and holds the books to these rules: the cap is
// kept, what goes finds all of its program's memory on the GPU, and nothing of a program that has something there moves.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "hw/live/limits.h"
#include "hw/live/recording.h"
#include "tests/support/build.h"

namespace corun::live {

class RandomMemory {
 public:
  static constexpr std::uint64_t kCap = 64;  // blocks' unit is a byte: nobody looks what it is

  RandomMemory(const std::string& policy, unsigned seed, bool record)
      : books(policy, sim::small_gpu(4), {.memory = kCap}), random_(seed) {
    if (record) recording = std::make_unique<Recording>(books);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      now_ += sim::us(1 + below(below(20) == 0 ? 5000 : 40));
      if (there_.size() < 2 || (there_.size() < 4 && below(300) == 0)) join();
      something(*there_[below(static_cast<std::uint32_t>(there_.size()))]);
      decide();
    }
  }

  /// Nobody asks for more: does all that was asked for come?
  void end(int most_steps) {
    for (; most_steps > 0 && !all_done(); --most_steps) {
      const Time wish = books.next_wish();
      now_ += wish > now_ && wish != kNever && below(2) == 0 ? wish - now_ : sim::us(1 + below(2000));
      for (const auto& p : there_) answer(*p), finish(*p);
      decide();
    }
    EXPECT_TRUE(all_done()) << "something waits for good at " << now_.count() / 1'000'000'000
                            << " ms:" << said();
  }

  std::uint64_t checkpoints() const { return books.memory()->accounts().checkpoints(); }
  Books books;
  std::unique_ptr<Recording> recording;

 private:
  enum class Where { asked, device, host };
  struct Block {
    std::uint32_t generation = 0;
    std::uint64_t bytes = 0;
    Where where = Where::asked;
    bool moves = false;
  };
  struct There {
    std::uint32_t client = 0;
    std::deque<Kernel> kernels = std::deque<Kernel>(3);
    std::array<std::uint32_t, 2> asked{}, granted{}, ended{};
    std::map<std::uint32_t, Block> blocks;
    std::uint32_t wants = 0, let_go = 0, has = 0, generations = 0;
    std::deque<MemoryCommand> commands;
    Time at_work{};  // something of it began where nothing was, or ended
    bool busy() const { return granted != ended || let_go != has; }
  };

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void join() {
    there_.push_back(std::make_unique<There>());
    There& p = *there_.back();
    p.client = books.join({"work", ServiceClass::best_effort, 0});
    for (Kernel& k : p.kernels) k.name = "some", k.grid = {1 + below(9), 1, 1};
  }

  void something(There& p) {
    const std::uint32_t what = below(100), stream = below(2), block = below(6);
    const auto at = p.blocks.find(block);
    if (what == 0 && there_.size() > 2) {
      used_ -= on_device(p);
      books.leave(p.client);
      std::erase_if(there_, [&](const auto& each) { return each.get() == &p; });
    } else if (what < 20 && at == p.blocks.end()) {
      const std::uint64_t bytes = 1 + below(below(10) == 0 ? 80 : 24);
      p.blocks[block] = {++p.generations, bytes, Where::asked, false};
      books.allocates(p.client, block, p.generations, bytes, now_);
    } else if (what < 24 && at != p.blocks.end() && !at->second.moves && p.commands.empty()) {
      if (at->second.where == Where::device) used_ -= at->second.bytes;
      books.frees(p.client, block, at->second.generation, now_);
      p.blocks.erase(at);
    } else if (what < 50) {
      books.asked(p.client, stream, ++p.asked[stream], p.kernels[below(3)], now_);
    } else if (what < 55 && p.wants == p.has) {
      books.wants(p.client, ++p.wants, now_);
    } else if (what < 58) {
      books.touched(p.client, now_);
    } else if (what < 60) {
      books.waits(p.client);
    } else if (what < 80) {
      answer(p);
    } else {
      finish(p);
    }
  }

  /// The program's part in the oldest command that it has, which takes until now.
  void answer(There& p) {
    if (p.let_go != p.has && below(2) == 0) books.has(p.client, p.has = p.let_go, now_);
    if (p.wants != p.has && below(20) == 0 && all_there(p)) {  // it sees so by itself, too
      books.has(p.client, p.has = p.wants, now_);
      p.let_go = p.has;
    }
    if (p.commands.empty()) return;
    const MemoryCommand command = p.commands.front();
    p.commands.pop_front();
    const auto at = p.blocks.find(command.block);
    if (at == p.blocks.end() || at->second.generation != command.generation || !at->second.moves) return;
    const bool done = below(12) != 0 && !(command.what == MemoryCommand::What::checkpoint && p.busy());
    if (command.what == MemoryCommand::What::checkpoint && done)
      at->second.where = Where::host, used_ -= at->second.bytes;
    if (command.what == MemoryCommand::What::restore && !done)
      at->second.where = Where::host, used_ -= at->second.bytes;
    at->second.moves = false;
    books.moved(p.client, command.block, command.generation, done, now_);
  }

  void finish(There& p) {
    for (std::uint32_t stream = 0; stream < 2; ++stream)
      if (p.granted[stream] != p.ended[stream] && below(2) == 0)
        books.ended(p.client, stream, p.ended[stream] = p.granted[stream], p.at_work = now_);
  }

  void decide() {
    std::vector<Granted> granted;
    books.decide(now_, granted);
    for (const AddressedCommand& each : books.take_commands()) commanded(whose(each.client), each.command);
    EXPECT_LE(used_, kCap);
    EXPECT_EQ(used_, books.memory()->accounts().used());
    for (const Granted& g : granted) {
      There& p = whose(g.client);
      if (p.granted == p.ended) p.at_work = now_;  // behind others it is no sign of the program
      p.granted[g.stream] = g.number;
      EXPECT_TRUE(all_there(p)) << "a launch goes while some of its program's memory is away";
    }
  }

  void commanded(There& p, const MemoryCommand& command) {
    if (command.what == MemoryCommand::What::go) {
      EXPECT_EQ(command.block, p.wants);
      p.let_go = command.block, p.at_work = now_;
      return;
    }
    Block& block = p.blocks.at(command.block);
    EXPECT_EQ(command.generation, block.generation);
    switch (command.what) {
      case MemoryCommand::What::refuse:
        EXPECT_GT(block.bytes + others(p, command.block), kCap);
        p.blocks.erase(command.block);
        return;
      case MemoryCommand::What::allocate:
        EXPECT_EQ(block.where, Where::asked);
        block.where = Where::device, used_ += block.bytes;
        return;
      case MemoryCommand::What::checkpoint:
        EXPECT_FALSE(p.busy() && now_ < p.at_work + limits::kOnGpu) << "something of it is on the GPU";
        EXPECT_EQ(block.where, Where::device);
        break;
      default:
        EXPECT_EQ(block.where, Where::host);
        block.where = Where::device, used_ += block.bytes;
    }
    EXPECT_FALSE(block.moves);
    block.moves = true;
    p.commands.push_back(command);
  }

  There& whose(std::uint32_t client) {
    for (const auto& p : there_)
      if (p->client == client) return *p;
    throw std::logic_error("a command to one that has gone");
  }
  std::uint64_t on_device(const There& p) const {
    std::uint64_t bytes = 0;
    for (const auto& [number, block] : p.blocks) bytes += block.where == Where::device ? block.bytes : 0;
    return bytes;
  }
  static std::uint64_t others(const There& p, std::uint32_t but) {
    std::uint64_t bytes = 0;
    for (const auto& [number, block] : p.blocks) bytes += number != but ? block.bytes : 0;
    return bytes;
  }
  bool all_done() const {
    return std::ranges::all_of(there_, [](const auto& p) {
      return p->asked == p->ended && p->wants == p->has && p->commands.empty() &&
             std::ranges::none_of(p->blocks,
                                  [](const auto& each) { return each.second.where == Where::asked; });
    });
  }

  static bool all_there(const There& p) {
    return std::ranges::none_of(
        p.blocks, [](const auto& b) { return b.second.where == Where::host || b.second.moves; });
  }
  std::string said() const {
    std::string all = fmt::format(" {} of {} used", used_, kCap);
    for (const auto& p : there_) {
      all +=
          fmt::format("\n{}: asked {} {}, granted {} {}, ended {} {}, wants {}, goes {}, has {}, commands {};",
                      p->client, p->asked[0], p->asked[1], p->granted[0], p->granted[1], p->ended[0],
                      p->ended[1], p->wants, p->let_go, p->has, p->commands.size());
      for (const auto& [number, b] : p->blocks)
        all += fmt::format(" {}: {} {}{}", number, b.bytes,
                           std::array{"asked", "device", "host"}[static_cast<std::size_t>(b.where)],
                           b.moves ? " moves" : "");
    }
    return all;
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<There>> there_;
  std::uint64_t used_ = 0;
  Time now_{};
};

}  // namespace corun::live
