#include "hw/transform/ptx_flow.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <unordered_map>

namespace corun::hw {
namespace {

/// For whom a value is the same.
enum class Same : std::uint8_t { block, warp, none };
constexpr std::uint32_t kNone = ~0u;

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& all) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

/// Operations whose result depends on their operands alone.
constexpr std::array<std::string_view, 64> kPlain{
    "mov",  "add",  "sub",   "mul",      "mad",      "fma",   "div",   "rem",   "abs",   "neg",  "min",
    "max",  "setp", "set",   "selp",     "slct",     "and",   "or",    "xor",   "not",   "cnot", "shl",
    "shr",  "shf",  "lop3",  "cvt",      "cvta",     "bfe",   "bfi",   "bfind", "brev",  "popc", "clz",
    "prmt", "sad",  "mul24", "mad24",    "addc",     "subc",  "madc",  "sqrt",  "rsqrt", "rcp",  "sin",
    "cos",  "lg2",  "ex2",   "tanh",     "copysign", "testp", "szext", "bmsk",  "dp4a",  "dp2a", "isspacep",
    "fns",  "vadd", "vsub",  "vabsdiff", "vmin",     "vmax",  "vshl",  "vshr",  "vmad"};
/// Whose first operand is not written.
constexpr std::array<std::string_view, 13> kWriteNoRegister{
    "st",     "red",   "bra",      "brx",       "ret",       "exit",   "trap",
    "membar", "fence", "prefetch", "prefetchu", "nanosleep", "discard"};

bool is_register(std::string_view word) { return word.size() > 1 && word[0] == '%'; }
/// `%v.x` is part of `%v`.
std::string_view whole(std::string_view reg) { return reg.substr(0, reg.find('.')); }

std::int64_t value_of(const std::vector<std::string_view>& words, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < words.size(); ++i) text += words[i];
  return std::strtoll(text.c_str(), nullptr, 0);
}
bool is_number(const std::vector<std::string_view>& words, std::size_t from) {
  if (from < words.size() && words[from] == "-") ++from;
  return from + 1 == words.size() && words[from][0] >= '0' && words[from][0] <= '9' &&
         !words[from].starts_with("0f") && !words[from].starts_with("0d");
}

Same of_special(std::string_view word) {
  for (const char* same :
       {"%ctaid", "%nctaid", "%ntid", "%nsmid", "%smid", "%gridid", "%dynamic_smem", "%nwarpid"})
    if (word.starts_with(same)) return Same::block;
  return word == "%warpid" ? Same::warp : Same::none;
}
bool is_special(std::string_view word) {
  for (const char* name :
       {"%tid",    "%ntid",         "%ctaid",      "%nctaid",   "%laneid",   "%warpid",      "%nwarpid",
        "%smid",   "%nsmid",        "%gridid",     "%lanemask", "%clock",    "%globaltimer", "%pm",
        "%envreg", "%dynamic_smem", "%total_smem", "%cluster",  "%ncluster", "%is_explicit"})
    if (word.starts_with(name)) return true;
  return false;
}

struct Block {
  std::size_t first = 0, end = 0;
  std::vector<std::uint32_t> next, before;
  PtxMeetings meets;
};

class Flow {
 public:
  Flow(const PtxFunction& f, const std::map<std::string_view, PtxMeetings>& called)
      : f_(f), called_(called) {}

  PtxFlow run() {
    find_labels();
    make_blocks();
    if (!result_.not_understood.empty()) return result_;
    find_meeting_places();
    find_thread_index();
    spread();
    const bool along_x = uses_along_x_;
    judge();
    result_.by_warps_along_x = along_x;
    find_waits();
    return result_;
  }

 private:
  // A label is known within its braces.
  void find_labels() {
    std::vector<std::uint32_t> open{0};
    scope_of_.resize(f_.lines.size());
    parent_.push_back(kNone);
    for (std::size_t i = 0; i < f_.lines.size(); ++i) {
      const PtxLine& line = f_.lines[i];
      if (line.kind == PtxLine::Kind::open) {
        parent_.push_back(open.back());
        open.push_back(static_cast<std::uint32_t>(parent_.size() - 1));
      }
      scope_of_[i] = open.back();
      if (line.kind == PtxLine::Kind::close && open.size() > 1) open.pop_back();
      if (line.kind == PtxLine::Kind::label) labels_[{open.back(), line.words[0]}] = i;
    }
  }
  std::size_t line_of_label(std::size_t from, std::string_view label) {
    for (std::uint32_t scope = scope_of_[from]; scope != kNone; scope = parent_[scope])
      if (const auto at = labels_.find({scope, label}); at != labels_.end()) return at->second;
    result_.not_understood = "a branch";
    return from;
  }

  static bool ends_block(const PtxLine& line) {
    if (line.kind != PtxLine::Kind::instruction) return false;
    const std::string_view base = line.base();
    return base == "bra" || base == "brx" || base == "ret" || base == "exit" || base == "trap";
  }

  void make_blocks() {
    std::vector<std::uint32_t> block_of(f_.lines.size() + 1, kNone);
    bool begins = true;
    for (std::size_t i = 0; i < f_.lines.size(); ++i) {
      if (begins || f_.lines[i].kind == PtxLine::Kind::label) {
        if (!blocks_.empty()) blocks_.back().end = i;
        blocks_.emplace_back().first = i;
      }
      block_of[i] = static_cast<std::uint32_t>(blocks_.size() - 1);
      begins = ends_block(f_.lines[i]);
    }
    if (blocks_.empty()) blocks_.emplace_back();
    blocks_.back().end = f_.lines.size();
    exit_ = static_cast<std::uint32_t>(blocks_.size());
    blocks_.emplace_back();  // where all end
    for (std::uint32_t b = 0; b < exit_; ++b) {
      Block& block = blocks_[b];
      for (std::size_t i = block.first; i < block.end; ++i)
        if (f_.lines[i].kind == PtxLine::Kind::instruction) block.meets.add(meetings_at(f_.lines[i]));
      const bool any = block.end > block.first;
      const PtxLine* last = any ? &f_.lines[block.end - 1] : nullptr;
      const bool jumps = last != nullptr && ends_block(*last);
      if (!jumps || !last->guard.empty()) add_next(b, b + 1);
      if (!jumps) continue;
      const std::string_view base = last->base();
      if (base == "ret" || base == "exit") add_next(b, exit_);
      if (base == "bra") add_next(b, block_of[line_of_label(block.end - 1, last->words.back())]);
      if (base == "brx") {
        const std::size_t at = line_of_label(block.end - 1, last->words.back());
        if (at + 1 >= f_.lines.size() || f_.lines[at + 1].words[0] != ".branchtargets") {
          result_.not_understood = "an indirect branch";
          return;
        }
        for (std::size_t w = 1; w < f_.lines[at + 1].words.size(); ++w)
          if (const std::string_view target = f_.lines[at + 1].words[w]; target != ",")
            add_next(b, block_of[line_of_label(block.end - 1, target)]);
      }
    }
  }
  void add_next(std::uint32_t from, std::uint32_t to) {
    if (std::ranges::find(blocks_[from].next, to) != blocks_[from].next.end()) return;
    blocks_[from].next.push_back(to);
    blocks_[to].before.push_back(from);
  }
  PtxMeetings meetings_at(const PtxLine& line) const {
    if (line.base() != "call") return meetings_of(line);
    PtxMeetings all;
    for (const std::string_view word : line.words)
      if (const auto at = called_.find(word); at != called_.end()) all.add(at->second);
    return all;
  }

  /// The place where all ways from a block meet again (Cooper, Harvey and Kennedy 2001, backwards).
  void find_meeting_places() {
    std::vector<std::uint32_t> order;  // from the exit backwards, in post-order
    std::vector<std::uint8_t> seen(blocks_.size(), 0);
    std::vector<std::pair<std::uint32_t, std::size_t>> stack{{exit_, 0}};
    seen[exit_] = 1;
    while (!stack.empty()) {
      auto& [b, i] = stack.back();
      if (i < blocks_[b].before.size()) {
        const std::uint32_t p = blocks_[b].before[i++];
        if (seen[p] == 0) seen[p] = 1, stack.emplace_back(p, 0);
      } else {
        order.push_back(b);
        stack.pop_back();
      }
    }
    std::vector<std::uint32_t> rank(blocks_.size(), 0);
    for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
    meets_at_.assign(blocks_.size(), kNone);
    meets_at_[exit_] = exit_;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = order.size() - 1; i-- > 0;) {
        std::uint32_t meet = kNone;
        for (std::uint32_t n : blocks_[order[i]].next) {
          if (meets_at_[n] == kNone) continue;
          std::uint32_t a = n, c = meet;
          while (c != kNone && a != c) {
            while (rank[a] < rank[c]) a = meets_at_[a];
            while (rank[c] < rank[a]) c = meets_at_[c];
          }
          meet = a;
        }
        if (meets_at_[order[i]] != meet) meets_at_[order[i]] = meet, changed = true;
      }
    }
  }

  /// Registers that hold nothing but %tid.x.
  void find_thread_index() {
    std::map<std::string_view, bool> only;
    for (const PtxLine& line : f_.lines) {
      if (line.kind != PtxLine::Kind::instruction) continue;
      const bool is =
          line.guard.empty() && line.base() == "mov" && line.words.size() == 4 && line.words[3] == "%tid.x";
      for (std::string_view reg : written(line)) {
        const auto [at, added] = only.try_emplace(reg, is);
        at->second &= is;
      }
    }
    for (const auto& [reg, is] : only)
      if (is) thread_index_.insert(reg);
  }

  static std::vector<std::string_view> written(const PtxLine& line) {
    std::vector<std::string_view> all;
    if (is_one_of(line.base(), kWriteNoRegister)) return all;
    std::size_t depth = 0;
    for (std::size_t i = 1; i < line.words.size(); ++i) {
      const std::string_view word = line.words[i];
      if (word == "[") break;  // an address is not written
      if (word == "{" || word == "(") ++depth;
      if (word == "}" || word == ")") --depth;
      if (word == "," && depth == 0 && line.base() != "call") break;
      if (is_register(word)) all.push_back(whole(word));
    }
    return all;
  }

  Same of_register(std::string_view word) {
    if (is_special(word)) return of_special(word);
    const auto at = same_.find(whole(word));
    return at == same_.end() ? Same::block : at->second;
  }

  Same of_result(const PtxLine& line) {
    Same most = line.guard.empty() ? Same::block : of_register(line.guard);
    const auto& w = line.words;
    const auto of_operands = [&] {
      Same same = most;
      for (std::size_t i = 1; i < w.size(); ++i)
        if (is_register(w[i])) same = std::max(same, of_register(w[i]));
      return same;
    };
    const std::string_view base = line.base();
    if ((base == "bar" || base == "barrier") && line.has("red")) return most;
    if (base == "ld") {
      if (line.has("const")) return of_operands();
      const bool parameter = line.has("param") && f_.entry;
      for (const PtxParameter& p : f_.parameters)
        if (parameter && std::ranges::find(w, p.name) != w.end()) return of_operands();
      return Same::none;
    }
    if (!is_one_of(base, kPlain)) return Same::none;
    const Same same = of_operands();
    if (same != Same::none) return same;
    // A number of the thread in its block: the same for a warp in what is above five bits.
    if (w.size() >= 6 && w[2] == "," && thread_index_.contains(w[3]) && w[4] == "," && is_number(w, 5)) {
      const std::int64_t value = value_of(w, 5);
      const bool below = line.has("lt") || line.has("ge") || line.has("lo") || line.has("hs"),
                 above = line.has("gt") || line.has("le") || line.has("hi") || line.has("ls");
      if ((base == "shr" && value >= 5) || (base == "and" && (value & 31) == 0) ||
          (base == "setp" && !line.has("and") && !line.has("or") && !line.has("xor") &&
           ((below && value % 32 == 0) || (above && (value + 1) % 32 == 0)))) {
        uses_along_x_ = true;
        return std::max(most, Same::warp);
      }
    }
    return same;
  }

  bool raise(std::string_view reg, Same to) {
    Same& is = same_.try_emplace(reg, Same::block).first->second;
    if (is >= to) return false;
    is = to;
    return true;
  }

  /// How alike the threads of a block are in the way that they go on from the end of this block of code.
  Same way_on(std::uint32_t b) {
    if (blocks_[b].next.size() < 2) return Same::block;
    const PtxLine& last = f_.lines[blocks_[b].end - 1];
    Same same = last.guard.empty() ? Same::block : of_register(last.guard);
    if (last.base() == "brx") same = std::max(same, of_register(last.words[1]));
    return same;
  }

  /// From what follows `b` to where its ways meet, without that.
  std::vector<std::uint32_t> until_they_meet(std::uint32_t b) const {
    std::vector<std::uint8_t> seen(blocks_.size(), 0);
    std::vector<std::uint32_t> found, stack(blocks_[b].next);
    while (!stack.empty()) {
      const std::uint32_t n = stack.back();
      stack.pop_back();
      if (n == meets_at_[b] || seen[n] != 0) continue;
      seen[n] = 1;
      found.push_back(n);
      stack.insert(stack.end(), blocks_[n].next.begin(), blocks_[n].next.end());
    }
    return found;
  }

  void spread() {
    std::vector<Same> under(blocks_.size(), Same::block), ways(blocks_.size(), Same::block);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t b = 0; b < exit_; ++b) {
        for (std::size_t i = blocks_[b].first; i < blocks_[b].end; ++i) {
          const PtxLine& line = f_.lines[i];
          if (line.kind != PtxLine::Kind::instruction) continue;
          const std::vector<std::string_view> to = written(line);
          if (to.empty()) continue;
          const Same same = std::max(under[b], of_result(line));
          for (std::string_view reg : to) changed |= raise(reg, same);
        }
        const Same way = way_on(b);
        if (way <= ways[b]) continue;
        ways[b] = way;
        changed = true;
        for (std::uint32_t n : until_they_meet(b)) under[n] = std::max(under[n], way);
      }
    }
    ways_ = std::move(ways);
  }

  /// Which blocks can come to one with `is`, or to the end, over blocks that are not.
  template <class Is>
  std::vector<std::uint8_t> come_to(Is is, bool to_end) const {
    std::vector<std::uint8_t> can(blocks_.size(), 0);
    std::vector<std::uint32_t> stack;
    for (std::uint32_t b = 0; b <= exit_; ++b)
      if (to_end ? b == exit_ : is(blocks_[b])) can[b] = 1, stack.push_back(b);
    while (!stack.empty()) {
      const std::uint32_t b = stack.back();
      stack.pop_back();
      for (std::uint32_t p : blocks_[b].before)
        if (can[p] == 0 && !(to_end && is(blocks_[p]))) can[p] = 1, stack.push_back(p);
    }
    return can;
  }

  /// Whether where threads part that are alike no further than `same`, some may end without such a meeting
  /// that others come to.
  template <class Is>
  bool parts(Is is, Same same) const {
    const std::vector<std::uint8_t> meets = come_to(is, false), ends = come_to(is, true);
    for (std::uint32_t b = 0; b < exit_; ++b) {
      if (ways_[b] < same) continue;
      for (std::uint32_t one : blocks_[b].next)
        for (std::uint32_t other : blocks_[b].next)
          if (one != other && ends[one] != 0 && meets[other] != 0) return true;
    }
    return false;
  }

  void judge() {
    result_.leaves_before_barrier = parts([](const Block& b) { return b.meets.of_block; }, Same::warp);
    result_.leaves_before_warp_group =
        parts([](const Block& b) { return b.meets.of_warp_group; }, Same::warp);
    result_.leaves_before_warp = parts([](const Block& b) { return b.meets.of_warp; }, Same::none);
  }

  /// Loops that read what others may write until it has changed.
  void find_waits() {
    std::set<std::string_view> read;
    for (bool changed = true; changed;) {
      changed = false;
      for (const PtxLine& line : f_.lines) {
        if (line.kind != PtxLine::Kind::instruction) continue;
        const bool anew = (line.base() == "ld" && (line.has("volatile") || line.has("acquire") ||
                                                   line.has("relaxed") || line.has("mmio"))) ||
                          (line.base() == "atom" && !line.has("cas") && !line.has("exch"));
        const bool shared = line.op().find("shared") != std::string_view::npos;
        const bool of_it = std::ranges::any_of(
            line.words, [&](std::string_view w) { return is_register(w) && read.contains(whole(w)); });
        if ((anew && !shared) || of_it)
          for (std::string_view reg : written(line)) changed |= read.insert(reg).second;
      }
    }
    if (read.empty()) return;
    for (std::uint32_t b = 0; b < exit_; ++b) {
      if (blocks_[b].next.size() < 2 || !read.contains(f_.lines[blocks_[b].end - 1].guard)) continue;
      std::vector<std::uint8_t> seen(blocks_.size(), 0);
      std::vector<std::uint32_t> stack(blocks_[b].next);
      while (!stack.empty()) {
        const std::uint32_t n = stack.back();
        stack.pop_back();
        if (seen[n] != 0) continue;
        seen[n] = 1;
        stack.insert(stack.end(), blocks_[n].next.begin(), blocks_[n].next.end());
      }
      if (seen[b] == 0 || !reads_anew_in_loop(b, seen)) continue;
      result_.waits_for_memory = true;
    }
  }
  bool reads_anew_in_loop(std::uint32_t b, const std::vector<std::uint8_t>& after) const {
    std::vector<std::uint8_t> before(blocks_.size(), 0);
    std::vector<std::uint32_t> stack{b};
    while (!stack.empty()) {
      const std::uint32_t n = stack.back();
      stack.pop_back();
      if (before[n] != 0) continue;
      before[n] = 1;
      stack.insert(stack.end(), blocks_[n].before.begin(), blocks_[n].before.end());
    }
    for (std::uint32_t n = 0; n < exit_; ++n) {
      if (before[n] == 0 || after[n] == 0) continue;
      for (std::size_t i = blocks_[n].first; i < blocks_[n].end; ++i) {
        const PtxLine& line = f_.lines[i];
        if (line.kind != PtxLine::Kind::instruction || line.op().find("shared") != std::string_view::npos)
          continue;
        if ((line.base() == "ld" &&
             (line.has("volatile") || line.has("acquire") || line.has("relaxed") || line.has("mmio"))) ||
            (line.base() == "atom" && !line.has("cas") && !line.has("exch")))
          return true;
      }
    }
    return false;
  }

  const PtxFunction& f_;
  const std::map<std::string_view, PtxMeetings>& called_;
  PtxFlow result_;
  std::vector<std::uint32_t> scope_of_, parent_;
  std::map<std::pair<std::uint32_t, std::string_view>, std::size_t> labels_;
  std::vector<Block> blocks_;
  std::uint32_t exit_ = 0;
  std::vector<std::uint32_t> meets_at_;
  std::set<std::string_view> thread_index_;
  std::unordered_map<std::string_view, Same> same_;
  std::vector<Same> ways_;
  bool uses_along_x_ = false;
};

}  // namespace

PtxMeetings meetings_of(const PtxLine& line) {
  PtxMeetings is;
  const std::string_view base = line.base();
  if ((base == "bar" && !line.has("warp")) || (base == "barrier" && !line.has("cluster"))) {
    // With a number of threads: bar.sync a, b;  bar.red has it before its predicate, as bar.arrive always has
    // it.
    std::size_t operands = 1;
    for (const std::string_view word : line.words) operands += word == ",";
    const bool all = !line.has("arrive") && operands == (line.has("red") ? 3 : 1);
    (all ? is.of_block : is.of_some) = true;
  }
  if (base == "wgmma" || base == "setmaxnreg") is.of_warp_group = true;
  const bool warp = base == "shfl" || base == "vote" || base == "match" || base == "redux" ||
                    base == "elect" || base == "mma" || base == "wmma" || base == "ldmatrix" ||
                    base == "stmatrix" || base == "movmatrix" || (base == "bar" && line.has("warp"));
  is.of_warp = warp && (line.op().find("sync") != std::string_view::npos || line.has("warp"));
  return is;
}

PtxFlow flow_of(const PtxFunction& function, const std::map<std::string_view, PtxMeetings>& called) {
  return Flow(function, called).run();
}

}  // namespace corun::hw
