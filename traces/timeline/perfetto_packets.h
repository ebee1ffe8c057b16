// A Perfetto trace as packets: tracks, events on them, and strings, each written once.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace corun {

class PerfettoPackets {
 public:
  struct Annotation {
    std::string_view name;
    std::uint64_t number = 0;
    std::string_view text = {};
  };
  using Annotations = std::vector<Annotation>;
  struct Slice {
    std::uint64_t track = 0, begin_ns = 0, end_ns = 0;
  };

  explicit PerfettoPackets(std::ostream& out);

  /// The number of a track, which is described when it is first asked for: `name` is called then.  `unit`: it
  /// is a counter's.
  template <class Name>
  std::uint64_t track(std::uint64_t what, std::uint64_t parent, Name name, std::int32_t rank,
                      const char* unit = nullptr) {
    const auto [entry, is_new] = tracks_.try_emplace(what, tracks_.size() + 1);
    if (is_new) describe(entry->second, parent, name(), rank, unit);
    return entry->second;
  }
  /// The same of a process, which is a track with tracks below it.
  template <class Name>
  std::uint64_t process(std::uint64_t what, std::int32_t pid, Name name) {
    const auto [entry, is_new] = tracks_.try_emplace(what, tracks_.size() + 1);
    if (is_new) describe_process(entry->second, pid, name());
    return entry->second;
  }
  std::optional<std::uint64_t> known(std::uint64_t what) const {
    const auto track = tracks_.find(what);
    return track == tracks_.end() ? std::nullopt : std::optional(track->second);
  }

  /// The number of an event's name.
  std::uint64_t event_name(const std::string& text);

  void begin(const Slice& slice, std::uint64_t name, const char* category, const Annotations& annotations,
             std::span<const std::uint64_t> flows = {});
  void end(const Slice& slice);
  void instant(std::uint64_t track, std::uint64_t at_ns, std::uint64_t name);
  void counter(std::uint64_t track, std::uint64_t at_ns, double value);

  /// Writes what is left.
  void flush();

 private:
  using Interned = std::unordered_map<std::string, std::uint64_t>;
  enum class EventType : std::int32_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };

  void describe(std::uint64_t track, std::uint64_t parent, const std::string& name, std::int32_t rank,
                const char* unit);
  void describe_process(std::uint64_t track, std::int32_t pid, const std::string& name);
  std::uint64_t iid(Interned& known, protozero::pbf_tag_type kind, const std::string& text);
  template <class Fill>
  void event(std::uint64_t track, std::uint64_t at_ns, EventType type, Fill fill);

  std::ostream& out_;
  std::string buffer_;
  protozero::pbf_writer packets_{buffer_};
  std::unordered_map<std::uint64_t, std::uint64_t> tracks_;  // by what it is: its number, from 1
  Interned event_names_, annotation_names_, categories_;
};

}  // namespace corun
