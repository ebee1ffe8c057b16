#include "hw/transform/ptx.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "hw/transform/ptx_flow.h"
#include "traces/embedded.h"

namespace corun::hw {
namespace {

constexpr std::uint32_t kMostParameterBytes = 4096;

/// Functions of the driver that a kernel may call: none of them has to do with blocks.
constexpr std::array<std::string_view, 4> kSystemCalls{"vprintf", "__assertfail", "malloc", "free"};

struct Edit {
  std::size_t begin, end;
  std::string with;
};

std::string with_edits(std::string_view text, const char* base, std::vector<Edit> edits) {
  std::ranges::stable_sort(edits, {}, &Edit::begin);
  std::string out;
  std::size_t at = static_cast<std::size_t>(text.data() - base);
  for (const Edit& e : edits) {
    out.append(base + at, e.begin - at);
    out += e.with;
    at = e.end;
  }
  out.append(base + at, static_cast<std::size_t>(text.data() - base) + text.size() - at);
  return out;
}

class Rewriter {
 public:
  Rewriter(const PtxModule& module, std::string_view entry) : module_(module), entry_(module.entry(entry)) {}

  PersistentPtx run() {
    if (entry_ == nullptr) return refuse("the module has no such kernel");
    if (!module_.is_64_bit || module_.target < 70 || module_.version < 63)
      return refuse("it is for GPUs before Volta, or of 32 bits");
    find_what_is_used();
    if (result_.refused.empty()) check_launch();
    for (const PtxFunction* f : used_functions_)
      for (const PtxLine& line : f->lines)
        if (result_.refused.empty()) check(*f, line);
    if (result_.refused.empty()) check_mbarriers();
    if (result_.refused.empty()) check_flow();
    if (result_.refused.empty()) write();
    return result_;
  }

 private:
  PersistentPtx refuse(const std::string& why) {
    if (result_.refused.empty()) result_.refused = why;
    return result_;
  }

  /// The kernel, what it calls, and the variables that these name.
  void find_what_is_used() {
    std::map<std::string_view, const PtxFunction*> functions;
    std::map<std::string_view, const PtxDeclaration*> variables;
    for (const PtxFunction& f : module_.functions)
      if (!f.entry && (f.defined || !functions.contains(f.name))) functions[f.name] = &f;
    for (const PtxDeclaration& d : module_.declarations) {
      if (!d.name.empty()) variables[d.name] = &d;
      if (d.text.starts_with(".alias")) aliases_ = true;
    }
    std::vector<const PtxFunction*> todo{entry_};
    std::set<std::string_view> known;
    while (!todo.empty()) {
      const PtxFunction* f = todo.back();
      todo.pop_back();
      used_functions_.push_back(f);
      for (const PtxLine& line : f->lines)
        for (const std::string_view word : line.words) {
          if (const auto at = functions.find(word); at != functions.end() && known.insert(word).second) {
            const PtxFunction* called = at->second;
            if (called->defined)
              todo.push_back(called);
            else if (std::ranges::find(kSystemCalls, word) == kSystemCalls.end())
              refuse("it calls " + std::string(word) + ", which is not in the module");
            else
              used_declared_.insert(called);
          }
          if (const auto at = variables.find(word); at != variables.end() && known.insert(word).second)
            use(*at->second);
        }
    }
    for (const PtxFunction* f : used_functions_)
      if (f->entry && f != entry_) refuse("it names another kernel");
    if (aliases_ && used_functions_.size() > 1) refuse("the module has aliases");
  }
  void use(const PtxDeclaration& d) {
    used_variables_.insert(&d);
    // What a compiler names with a dollar, as the text of printf, no host can name.
    if (d.space == ".shared")
      dynamic_ |= d.external;
    else if (!d.name.starts_with("$") || d.external)
      refuse("it uses the module's variable " + std::string(d.name));
  }

  void check_launch() {
    for (const char* word :
         {".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters"})
      if (entry_->attributes.find(word) != std::string_view::npos) refuse("it runs in clusters");
    const auto& parameters = entry_->parameters;
    const std::uint32_t end = parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
    result_.launch_offset = (end + 7) / 8 * 8;
    if (result_.launch_offset + sizeof(PtxLaunch) > kMostParameterBytes)
      refuse("its parameters leave no room");
  }

  void check(const PtxFunction& f, const PtxLine& line) {
    for (const std::string_view word : line.words) {
      if (word.starts_with("%cluster") || word.starts_with("%ncluster") || word.starts_with("%is_explicit"))
        refuse("it asks about clusters");
      if (word.starts_with("%envreg") || word.starts_with("%gridid"))
        refuse("it asks about its grid (" + std::string(word) + ")");
      if (word.starts_with("%total_smem") || word.starts_with("%aggr_smem"))
        refuse("it asks how much shared memory it has");
      if (word == "%ctaid" || word == "%nctaid") refuse("it reads the block's index as a vector");
      if ((word.starts_with("%ctaid.") || word.starts_with("%nctaid.")) && !f.entry) helpers_ = true;
      if (word.starts_with("%ctaid.y")) y_ |= f.entry;
      if (word.starts_with("%ctaid.z")) y_ |= f.entry, z_ |= f.entry;
    }
    if (line.kind == PtxLine::Kind::directive) {
      if (line.op() == ".shared") shares_ = true;
      return;
    }
    if (line.kind != PtxLine::Kind::instruction) return;
    const std::string_view base = line.base(), op = line.op();
    const auto has = [&](std::string_view part) { return op.find(part) != std::string_view::npos; };
    if (has("shared")) shares_ = true;
    if (has("cluster") && !op.starts_with("cp.async.bulk"))
      refuse("it uses clusters (" + std::string(op) + ")");
    for (const char* word : {"griddepcontrol", "clusterlaunchcontrol", "setmaxnreg", "tcgen05", "alloca",
                             "stackrestore", "mapa", "getctarank", "tensormap", "wmma.load_a_dynamic"})
      if (op.starts_with(word)) refuse("it uses " + std::string(word));
    if (has("tensormap")) refuse("it changes tensor maps");
    if (base == "exit" && !f.entry) refuse("a function that it calls ends the thread");
    if (op.starts_with("cp.async.bulk"))
      bulk_ = true;
    else if (op.starts_with("cp.async"))
      async_ = true;
    if (base == "bar" || base == "barrier") note_barrier(line);
    if (base == "call" && !names_function(line)) indirect_ = true;
  }

  bool names_function(const PtxLine& line) const {
    return std::ranges::any_of(line.words, [&](std::string_view word) {
      return std::ranges::any_of(used_functions_, [&](const PtxFunction* f) { return f->name == word; }) ||
             std::ranges::any_of(used_declared_, [&](const PtxFunction* f) { return f->name == word; });
    });
  }

  void note_barrier(const PtxLine& line) {
    if (line.has("warp")) return;
    const PtxMeetings is = meetings_of(line);
    // bar.red has what it gives before the number.
    const std::size_t at = line.has("red") ? 3 : 1;
    const std::string_view number = line.words.size() > at ? line.words[at] : std::string_view();
    const bool known =
        !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (!known) return refuse("it has a barrier whose number is not written there"), void();
    barriers_.insert(number);
    plain_barriers_ &= is.of_block && number == "0" && !line.has("red") && line.guard.empty();
    whole_barriers_ &= is.of_block;
  }

  /// An mbarrier that is left valid cannot be made anew by the next block.
  void check_mbarriers() {
    std::multiset<std::string> made, ended;
    for (const PtxFunction* f : used_functions_)
      for (const PtxLine& line : f->lines) {
        if (line.kind != PtxLine::Kind::instruction || line.base() != "mbarrier") continue;
        std::string where;
        for (std::size_t i = 1; i < line.words.size() && line.words[i] != ","; ++i) where += line.words[i];
        if (line.has("init")) made.insert(where);
        if (line.has("inval")) ended.insert(where);
      }
    if (made != ended) refuse("it leaves mbarriers valid");
  }

  void check_flow() {
    std::map<std::string_view, PtxMeetings> called;
    PtxMeetings of_any;
    for (bool changed = true; changed;) {  // through calls of calls
      changed = false;
      for (const PtxFunction* f : used_functions_) {
        PtxMeetings all = called[f->name];
        for (const PtxLine& line : f->lines) {
          if (line.kind != PtxLine::Kind::instruction) continue;
          all.add(meetings_of(line));
          if (line.base() == "call")
            for (const std::string_view word : line.words)
              if (const auto at = called.find(word); at != called.end()) all.add(at->second);
        }
        PtxMeetings& known = called[f->name];
        changed |= std::array{all.of_block, all.of_some, all.of_warp, all.of_warp_group} !=
                   std::array{known.of_block, known.of_some, known.of_warp, known.of_warp_group};
        known = all;
        of_any.add(all);
      }
    }
    const PtxMeetings& all = called[entry_->name];
    if (indirect_ && (of_any.of_block || of_any.of_some || of_any.of_warp || of_any.of_warp_group))
      return refuse("it calls functions by their addresses"), void();
    for (const PtxFunction* f : used_functions_) {
      const PtxFlow flow = flow_of(*f, called);
      if (!flow.not_understood.empty())
        return refuse("not understood: " + std::string(flow.not_understood)), void();
      if (flow.waits_for_memory) return refuse("it has a loop that waits for what others write"), void();
      if (!f->entry) continue;
      result_.by_warps_along_x = flow.by_warps_along_x;
      if (flow.leaves_before_warp_group)
        return refuse("threads return before operations of a warp group"), void();
      if (flow.leaves_before_warp) return refuse("threads return before operations of their warp"), void();
      result_.serve = flow.leaves_before_barrier;
    }
    if (result_.serve && !plain_barriers_)
      return refuse("threads return before barriers that are not all plain"), void();
    result_.shared = shares_ || dynamic_ || helpers_ || !barriers_.empty() || all.of_warp_group;
    barrier_ = 0;
    if (!whole_barriers_)
      while (barriers_.contains(std::to_string(barrier_))) ++barrier_;
    if (barrier_ > 15) refuse("it uses all barriers");
  }

  std::size_t offset(std::string_view part) const {
    return static_cast<std::size_t>(part.data() - module_.source.data());
  }

  /// A part of ptx_worker.ptx.
  std::string worker(std::string_view part) const {
    const std::string_view all = embedded_ptx().front().text;
    const std::string title = "//== " + std::string(part) + "\n";
    std::size_t at = all.find(title) + title.size();
    const std::size_t end = std::min(all.find("//== ", at), all.size());
    std::string out;
    while (at < end) {
      const std::size_t next = all.find('\n', at) + 1;
      std::string_view line = all.substr(at, next - at);
      bool kept = true;
      while (line.starts_with('[')) {
        const std::string_view mark = line.substr(1, line.find(']') - 1);
        kept &= (mark == "shared" && result_.shared) || (mark == "free" && !result_.shared) ||
                (mark == "y" && y_) || (mark == "z" && z_) || (mark == "helpers" && helpers_) ||
                (mark == "serve" && result_.serve) || (mark == "wait" && !result_.serve);
        line.remove_prefix(mark.size() + 2);
      }
      if (kept && line.find("//") == std::string_view::npos) out += line;
      at = next;
    }
    replace(out, "LAUNCH", "corun_launch");
    replace(out, "BARRIER", std::to_string(barrier_));
    return out;
  }
  static void replace(std::string& text, std::string_view what, const std::string& with) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
      text.replace(at, what.size(), with);
  }

  void edit_line(const PtxFunction& f, const PtxLine& line, std::vector<Edit>& edits) const {
    const std::size_t begin = offset(line.text), end = begin + line.text.size();
    if (line.kind == PtxLine::Kind::instruction) {
      if (f.entry && (line.base() == "ret" || line.base() == "exit"))
        return edits.push_back({offset(line.words[0]), end, "bra $corun_through;"});
      if (result_.serve && (line.base() == "bar" || line.base() == "barrier") && !line.has("warp"))
        return edits.push_back(
            {begin, end,
             "{ .param .b32 corun_returned; .param .b32 corun_all; st.param.b32 [corun_returned], 0; "
             "call (corun_all), corun_arrive, (corun_returned); }"});
    }
    for (const std::string_view word : line.words) {
      const bool size = word.starts_with("%nctaid.");
      if (!size && !word.starts_with("%ctaid.")) continue;
      const std::string axis(1, word.back());
      edits.push_back({offset(word), offset(word) + word.size(), (size ? "%corun_g" : "%corun_") + axis});
    }
  }

  std::string edited(const PtxFunction& f) const {
    std::vector<Edit> edits;
    for (const PtxLine& line : f.lines) edit_line(f, line, edits);
    return with_edits(f.body, module_.source.data(), std::move(edits));
  }

  void write() {
    std::string& out = result_.text;
    // Its address modulo 1024 is what dynamic shared memory has without it: kernels count on that beyond what
    // they say.
    const std::string slots = dynamic_ ? ".shared .align 1024 .b8 corun_slots[1024];\n"
                                       : ".shared .align 32 .b8 corun_slots[48];\n";
    bool headed = false;
    for (const PtxModule::Item& item : module_.items) {
      const PtxDeclaration* d =
          item.declaration >= 0 ? &module_.declarations[static_cast<std::size_t>(item.declaration)] : nullptr;
      const PtxFunction* f =
          item.function >= 0 ? &module_.functions[static_cast<std::size_t>(item.function)] : nullptr;
      const bool header = d != nullptr && d->space.empty() && !d->text.starts_with(".pragma") &&
                          !d->text.starts_with(".alias");
      if (!header && !headed) {
        headed = true;
        out += slots;
        if (helpers_) out += ".shared .align 16 .b8 corun_here[32];\n";
        out += worker("functions");
      }
      if (header || (d != nullptr && (used_variables_.contains(d) || d->text.starts_with(".pragma")))) {
        out += std::string(d->text) + "\n";
      } else if (f == entry_) {
        write_entry(out);
      } else if (f != nullptr) {
        write_function(*f, out);
      }
    }
  }

  void write_function(const PtxFunction& f, std::string& out) const {
    const auto is = [&](const PtxFunction* other) { return other->name == f.name; };
    if (f.entry || (std::ranges::none_of(used_functions_, is) && std::ranges::none_of(used_declared_, is)))
      return;
    if (!f.defined) {
      out += std::string(f.text) + "\n";
      return;
    }
    out += std::string(f.head) + std::string(f.parameter_list) + " " + std::string(f.attributes) + "\n{\n";
    if (helpers_)
      out +=
          "\t.reg .b32 %corun_x, %corun_y, %corun_z, %corun_gx, %corun_gy, %corun_gz, %corun_none;\n"
          "\tld.shared.v4.u32 {%corun_x, %corun_y, %corun_z, %corun_none}, [corun_here];\n"
          "\tld.shared.v4.u32 {%corun_gx, %corun_gy, %corun_gz, %corun_none}, [corun_here+16];\n";
    out += edited(f) + "\n}\n";
  }

  void write_entry(std::string& out) {
    result_.entry = std::string(entry_->name) + "__persistent";
    const std::string_view list = entry_->parameter_list;
    out += ".visible .entry " + result_.entry + "(";
    if (list.size() > 2) out += list.substr(1, list.size() - 2);
    if (!entry_->parameters.empty()) out += ",";
    out += "\n\t.param .align 8 .b8 corun_launch[" + std::to_string(sizeof(PtxLaunch)) + "]\n) " +
           std::string(entry_->attributes) + "\n{\n";
    out += worker("begin") + edited(*entry_);
    // What it does not wait for itself must not reach shared memory after the next block has begun.
    const std::string end = worker("end");
    const std::size_t label = end.find('\n') + 1;
    out += "\n" + end.substr(0, label);
    if (async_) out += "\tcp.async.wait_all;\n";
    if (bulk_) out += "\tcp.async.bulk.wait_group 0;\n";
    out += end.substr(label) + "}\n";
  }

  const PtxModule& module_;
  const PtxFunction* entry_;
  PersistentPtx result_;
  std::vector<const PtxFunction*> used_functions_;
  std::set<const PtxFunction*> used_declared_;
  std::set<const PtxDeclaration*> used_variables_;
  std::set<std::string_view> barriers_;  // numbers
  std::uint32_t barrier_ = 0;
  bool aliases_ = false, dynamic_ = false, helpers_ = false, y_ = false, z_ = false, shares_ = false,
       async_ = false, bulk_ = false, indirect_ = false;
  bool plain_barriers_ = true;  // all of them bar.sync 0
  bool whole_barriers_ = true;  // all of them for all threads
};

}  // namespace

PersistentPtx make_persistent(const PtxModule& module, std::string_view entry) {
  return Rewriter(module, entry).run();
}

}  // namespace corun::hw
