// What a policy was told and what it decided, as JSON lines, so that its decisions can be asked for again
// without a GPU.  The first line says which policy, trace, GPU and profiles; each further one is a call of
// the backend: a wait with the instant it ended at and its notices, or a decision with its outcome.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "policies/api/backend.h"
#include "policies/api/policy.h"
#include "policies/session/session.h"

namespace corun::hw {

/// A decision or a notice, all of it, as JSON that equal ones share.
std::string text_of(const Decision& decision);
std::string text_of(const Notice& notice);

/// Passes all through to a backend, and keeps it in memory; written at the end, since making text of a
/// decision takes longer than deciding.
class RecordingBackend final : public Backend {
 public:
  RecordingBackend(Backend& inner, const std::string& policy, const Trace& trace, std::ostream& out);
  ~RecordingBackend() override;

  const Topology& topology() const override { return inner_.topology(); }
  Time now() const override { return inner_.now(); }
  Forecast* forecast() override { return inner_.forecast(); }
  void start() override { inner_.start(); }
  void close() override { inner_.close(); }
  void wait(Time until, std::vector<Notice>& notices) override;
  Outcome apply(const Decision& decision, const LaunchView& launch,
                std::span<const LaunchId> follows) override;
  Outcome copy(const LaunchView& copy, std::span<const LaunchId> follows) override;
  void freed(BufferId buffer) override { inner_.freed(buffer); }
  /// A profile as the session asked for it.
  Profile profile(KernelId kernel, Profile profile);

 private:
  struct Line {
    enum class Kind : std::uint8_t { told, decided, profile } kind = Kind::told;
    Time at{};
    std::vector<Notice> notices{};
    LaunchId of{};
    std::optional<Decision> decision{};  // none: a copy
    std::optional<std::string> refused{};
    KernelId kernel{};
    Profile points{};
  };
  void decided(const Decision* decision, const LaunchView& l, const Outcome& outcome);
  void write() const;

  Backend& inner_;
  std::ostream& out_;
  std::vector<Line> lines_;
};

struct Replayed {
  std::uint64_t waits = 0, decisions = 0;
  std::string difference;  // the first one: what was recorded and what was decided now; empty: none
};

/// Runs the recording's policy through a session again, before a backend that says what was recorded.  Throws
/// InputError if the recording is not of this trace or not readable.
Replayed replay(const std::string& file, const Trace& trace, const Gpu& gpu);

}  // namespace corun::hw
