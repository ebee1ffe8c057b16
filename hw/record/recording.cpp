#include "hw/record/recording.h"

#include <fmt/format.h>

#include <istream>
#include <memory>
#include <nlohmann/json.hpp>

#include "policies/api/registry.h"
#include "traces/json/input_file.h"
#include "traces/model/error.h"

namespace corun::hw {
namespace {

using Json = nlohmann::ordered_json;

Json id_json(LaunchId id) { return {id.slot, id.serial}; }
LaunchId id_of(const Json& j) { return {j.at(0).get<std::uint32_t>(), j.at(1).get<std::uint32_t>()}; }

Json mask_json(const TpcMask& mask) {
  if (mask == TpcMask::all()) return "all";
  Json tpcs = Json::array();
  for (std::uint32_t i = 0; i < kMaxTpcs; ++i)
    if (mask.allows(TpcId{i})) tpcs.push_back(i);
  return tpcs;
}

Json notice_json(const Notice& notice) {
  return std::visit(
      [](const auto& n) -> Json {
        using N = std::decay_t<decltype(n)>;
        if constexpr (std::is_same_v<N, LastBlockStarted>)
          return {{"last_block_started", id_json(n.launch)}};
        else if constexpr (std::is_same_v<N, KernelFinished>)
          return {{"kernel_finished", id_json(n.launch)}};
        else if constexpr (std::is_same_v<N, Preempted>)
          return {{"preempted", id_json(n.launch)}, {"blocks", n.blocks_done}};
        else if constexpr (std::is_same_v<N, CopyFinished>)
          return {{"copy_finished", id_json(n.launch)}};
        else if constexpr (std::is_same_v<N, ProgressReported>)
          return {{"progress", id_json(n.launch)}, {"blocks", n.blocks_done}, {"as_of", n.as_of.count()}};
        else if constexpr (std::is_same_v<N, BufferMoved>)
          return {{"buffer_moved", n.buffer.value}};
        else if constexpr (std::is_same_v<N, ClientLost>)
          return {{"client_lost", n.client.value}};
        else if constexpr (std::is_same_v<N, RequestArrived>)  // from here on the session's own
          return {{"request_arrived", {n.client.value, n.request}}};
        else if constexpr (std::is_same_v<N, RequestFinished>)
          return {{"request_finished", {n.client.value, n.request}}};
        else if constexpr (std::is_same_v<N, LaunchReady>)
          return {{"launch_ready", id_json(n.launch)}};
        else if constexpr (std::is_same_v<N, WokeUp>)
          return {{"woke_up", true}};
        else
          return nullptr;
      },
      notice);
}

Notice notice_of(const Json& j) {
  const auto first = j.begin();
  const std::string& key = first.key();
  const Json& value = first.value();
  if (key == "last_block_started") return LastBlockStarted{id_of(value)};
  if (key == "kernel_finished") return KernelFinished{id_of(value)};
  if (key == "preempted") return Preempted{id_of(value), j.at("blocks").get<std::uint64_t>()};
  if (key == "copy_finished") return CopyFinished{id_of(value)};
  if (key == "progress")
    return ProgressReported{id_of(value), j.at("blocks").get<std::uint64_t>(),
                            Time{j.at("as_of").get<std::int64_t>()}};
  if (key == "client_lost") return ClientLost{ClientId{value.get<std::uint32_t>()}};
  return BufferMoved{BufferId{value.get<std::uint32_t>()}};
}

Json profile_json(const Profile& profile) {
  Json points = Json::array();
  for (const ProfilePoint& p : profile) points.push_back({p.ctas, p.time.count(), p.sms, p.ctas_per_sm});
  return points;
}

}  // namespace

std::string text_of(const Decision& decision) {
  const Json j = std::visit(
      [](const auto& d) -> Json {
        using D = std::decay_t<decltype(d)>;
        if constexpr (std::is_same_v<D, decide::Launch>)
          return {{"launch", id_json(d.launch)},
                  {"priority", d.priority},
                  {"mask", d.tpc_mask ? mask_json(*d.tpc_mask) : Json()},
                  {"ctas", d.ctas},
                  {"ctas_per_sm", d.ctas_per_sm}};
        else if constexpr (std::is_same_v<D, decide::Resize>)
          return {{"resize", id_json(d.launch)}, {"ctas", d.ctas}, {"ctas_per_sm", d.ctas_per_sm}};
        else if constexpr (std::is_same_v<D, decide::LaunchPadded>)
          return {{"launch_padded", id_json(d.launch)},
                  {"priority", d.priority},
                  {"sms", d.sms},
                  {"padding", id_json(d.padding)},
                  {"padding_blocks", d.padding_blocks}};
        else if constexpr (std::is_same_v<D, decide::Preempt>)
          return {{"preempt", id_json(d.launch)},
                  {"how", d.how == decide::Stop::at_block ? "at_block" : "reset"}};
        else if constexpr (std::is_same_v<D, decide::Query>)
          return {{"query", id_json(d.launch)}};
        else if constexpr (std::is_same_v<D, decide::WakeAt>)
          return {{"wake_at", d.at.count()}};
        else if constexpr (std::is_same_v<D, decide::Allocate>)
          return {{"allocate", id_json(d.allocation)}};
        else if constexpr (std::is_same_v<D, decide::Checkpoint>)
          return {{"checkpoint", d.buffer.value}};
        else
          return {{"restore", d.buffer.value}};
      },
      decision);
  return j.dump();
}

std::string text_of(const Notice& notice) { return notice_json(notice).dump(); }

RecordingBackend::RecordingBackend(Backend& inner, const std::string& policy, const Trace& trace,
                                   std::ostream& out)
    : inner_(inner), out_(out) {
  Json capabilities = Json::array();
  for (std::uint32_t c = 0; c < kCapabilities; ++c)
    if (inner.topology().capabilities.has(static_cast<Capability>(c))) capabilities.push_back(c);
  out_ << Json{{"corun_recording", 1},
               {"policy", policy},
               {"trace", trace.name},
               {"gpu", inner.topology().gpu.name},
               {"memory_bytes", inner.topology().gpu.memory_bytes},
               {"seed", trace.run.seed},
               {"duration_ps", trace.run.duration ? Json(trace.run.duration->count()) : Json()},
               {"capabilities", capabilities}}
              .dump()
       << "\n";
}

RecordingBackend::~RecordingBackend() { write(); }

Profile RecordingBackend::profile(KernelId kernel, Profile profile) {
  Line& line = lines_.emplace_back();
  line.kind = Line::Kind::profile, line.kernel = kernel, line.points = profile;
  return profile;
}

void RecordingBackend::wait(Time until, std::vector<Notice>& notices) {
  const std::size_t before = notices.size();
  inner_.wait(until, notices);
  Line& line = lines_.emplace_back();
  line.at = inner_.now();
  line.notices.assign(notices.begin() + static_cast<std::ptrdiff_t>(before), notices.end());
}

void RecordingBackend::decided(const Decision* decision, const LaunchView& l, const Outcome& outcome) {
  Line& line = lines_.emplace_back();
  line.kind = Line::Kind::decided, line.of = l.id;
  if (decision != nullptr) line.decision = *decision;
  if (const auto* refused = std::get_if<Refused>(&outcome)) line.refused = refused->reason;
}

Outcome RecordingBackend::apply(const Decision& decision, const LaunchView& l,
                                std::span<const LaunchId> follows) {
  Outcome outcome = inner_.apply(decision, l, follows);
  decided(&decision, l, outcome);
  return outcome;
}

Outcome RecordingBackend::copy(const LaunchView& l, std::span<const LaunchId> follows) {
  Outcome outcome = inner_.copy(l, follows);
  decided(nullptr, l, outcome);
  return outcome;
}

void RecordingBackend::write() const {
  for (const Line& l : lines_) {
    Json line;
    if (l.kind == Line::Kind::told) {
      line = {{"t", l.at.count()}, {"told", Json::array()}};
      for (const Notice& n : l.notices) line["told"].push_back(notice_json(n));
    } else if (l.kind == Line::Kind::decided) {
      line = {{"of", id_json(l.of)}, {"decision", l.decision ? text_of(*l.decision) : "copy"}};
      if (l.refused) line["refused"] = *l.refused;
    } else {
      line = {{"profile", l.kernel.value}, {"points", profile_json(l.points)}};
    }
    out_ << line.dump() << "\n";
  }
}

namespace {

/// Ends a replay that has gone another way.
struct Diverged {
  std::string difference;
};

class ReplayBackend final : public Backend {
 public:
  ReplayBackend(std::istream& in, const std::string& file, const Gpu& gpu, CapabilitySet capabilities,
                Replayed& result)
      : in_(in), file_(file), topology_{gpu, capabilities}, result_(result) {}

  const Topology& topology() const override { return topology_; }
  Time now() const override { return now_; }
  void wait(Time, std::vector<Notice>& notices) override {
    const Json line = next("the next wait");
    if (!line.contains("t")) differ("a wait", line);
    ++result_.waits;
    now_ = Time{line["t"].get<std::int64_t>()};
    for (const Json& n : line["told"]) notices.push_back(notice_of(n));
  }
  Outcome apply(const Decision& decision, const LaunchView& l, std::span<const LaunchId>) override {
    return decided(text_of(decision), l);
  }
  Outcome copy(const LaunchView& l, std::span<const LaunchId>) override { return decided("copy", l); }
  Profile profile(KernelId kernel) {
    const Json line = next("a profile");
    if (!line.contains("profile") || line["profile"] != kernel.value)
      differ("a profile of kernel " + std::to_string(kernel.value), line);
    Profile p;
    for (const Json& point : line["points"])
      p.push_back({point[0].get<std::uint32_t>(), Time{point[1].get<std::int64_t>()},
                   point[2].get<std::uint32_t>(), point[3].get<std::uint32_t>()});
    return p;
  }

 private:
  Json next(const char* wanted) {
    std::string text;
    ++line_;
    if (!std::getline(in_, text))
      throw Diverged{fmt::format("the recording ends where {} is asked for", wanted)};
    return parse(text);
  }
  Json parse(const std::string& text) const {
    try {
      return Json::parse(text);
    } catch (const Json::exception& e) {
      throw InputError(file_, fmt::format("line {}", line_),
                       fmt::format("it is not a recording: {}", e.what()), "record the run again");
    }
  }
  [[noreturn]] void differ(const std::string& now, const Json& recorded) const {
    throw Diverged{fmt::format("line {}: recorded {}, now {}", line_, recorded.dump(), now)};
  }
  Outcome decided(const std::string& text, const LaunchView& l) {
    const Json line = next("the outcome of a decision");
    if (!line.contains("decision") || line["decision"] != text || id_of(line["of"]) != l.id)
      differ(text, line);
    ++result_.decisions;
    if (line.contains("refused")) return Refused{line["refused"].get<std::string>()};
    return Applied{};
  }

  std::istream& in_;
  std::string file_;
  Topology topology_;
  Time now_{};
  std::uint64_t line_ = 1;
  Replayed& result_;
};

}  // namespace

Replayed replay(const std::string& file, const Trace& recorded_trace, const Gpu& gpu) {
  const std::unique_ptr<std::istream> opened = open_input(file);
  std::istream& in = *opened;
  std::string text;
  Json head;
  if (std::getline(in, text)) head = Json::parse(text, nullptr, false);
  if (!in || !head.is_object() || !head.contains("corun_recording"))
    throw InputError(file, "", "it is not a recording", "make one with --record");
  Trace trace = recorded_trace;
  if (head.at("trace") != trace.name)
    throw InputError(
        file, "line 1",
        fmt::format("it is of the trace {}, not of {}", head.at("trace").get<std::string>(), trace.name),
        "give its trace");
  trace.run.seed = head.at("seed").get<std::uint64_t>();
  trace.run.duration.reset();
  if (!head.at("duration_ps").is_null())
    trace.run.duration = Time{head.at("duration_ps").get<std::int64_t>()};
  CapabilitySet capabilities;
  for (const Json& c : head.at("capabilities"))
    capabilities = capabilities.with(static_cast<Capability>(c.get<std::uint32_t>()));
  Replayed result;
  const std::unique_ptr<Policy> policy = make_policy(head.at("policy").get<std::string>());
  Timeline timeline;
  Gpu recorded_gpu = gpu;
  recorded_gpu.memory_bytes = head.value("memory_bytes", gpu.memory_bytes);
  ReplayBackend backend(in, file, recorded_gpu, capabilities, result);
  try {
    Session session(trace, *policy, backend, timeline,
                    [&](KernelId kernel) { return backend.profile(kernel); });
    session.run();
    if (std::getline(in, text)) result.difference = "the session ended before the recording: " + text;
  } catch (const Diverged& d) {
    result.difference = d.difference;
  }
  return result;
}

}  // namespace corun::hw
