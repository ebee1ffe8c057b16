// TrackEvent packets.  Field numbers: protos/perfetto/trace/perfetto_trace.proto.
#include "traces/timeline/perfetto_packets.h"

#include <ostream>

namespace corun {
namespace {

namespace field {
constexpr protozero::pbf_tag_type kPacket = 1;
constexpr protozero::pbf_tag_type kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                                  kSequenceFlags = 13, kTrackDescriptor = 60;
namespace descriptor {
constexpr protozero::pbf_tag_type kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8,
                                  kChildOrdering = 11, kRank = 12;
constexpr protozero::pbf_tag_type kPid = 1, kProcessName = 6;
constexpr protozero::pbf_tag_type kUnitName = 6;
}  // namespace descriptor
namespace event {
constexpr protozero::pbf_tag_type kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11,
                                  kCounter = 44, kFlow = 47;
}  // namespace event
namespace annotation {
constexpr protozero::pbf_tag_type kName = 1, kInt = 4, kString = 6;
}  // namespace annotation
namespace interned {
constexpr protozero::pbf_tag_type kCategories = 1, kEventNames = 2, kAnnotationNames = 3;
constexpr protozero::pbf_tag_type kIid = 1, kText = 2;
}  // namespace interned
}  // namespace field

constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kIncrementalStateCleared = 1;
constexpr std::int32_t kExplicitOrder = 3;

}  // namespace

PerfettoPackets::PerfettoPackets(std::ostream& out) : out_(out) {
  protozero::pbf_writer packet(packets_, field::kPacket);
  packet.add_uint32(field::kSequence, kSequence);
  packet.add_uint32(field::kSequenceFlags, kIncrementalStateCleared);
}

void PerfettoPackets::describe(std::uint64_t track, std::uint64_t parent, const std::string& name,
                               std::int32_t rank, const char* unit) {
  protozero::pbf_writer packet(packets_, field::kPacket);
  packet.add_uint32(field::kSequence, kSequence);
  protozero::pbf_writer descriptor(packet, field::kTrackDescriptor);
  descriptor.add_uint64(field::descriptor::kUuid, track);
  descriptor.add_string(field::descriptor::kName, name);
  descriptor.add_uint64(field::descriptor::kParent, parent);
  if (unit != nullptr) {
    protozero::pbf_writer counter(descriptor, field::descriptor::kCounter);
    counter.add_string(field::descriptor::kUnitName, unit);
  }
  descriptor.add_int32(field::descriptor::kChildOrdering, kExplicitOrder);
  descriptor.add_int32(field::descriptor::kRank, rank);
}

void PerfettoPackets::describe_process(std::uint64_t track, std::int32_t pid, const std::string& name) {
  protozero::pbf_writer packet(packets_, field::kPacket);
  packet.add_uint32(field::kSequence, kSequence);
  protozero::pbf_writer descriptor(packet, field::kTrackDescriptor);
  descriptor.add_uint64(field::descriptor::kUuid, track);
  {
    protozero::pbf_writer named(descriptor, field::descriptor::kProcess);
    named.add_int32(field::descriptor::kPid, pid);
    named.add_string(field::descriptor::kProcessName, name);
  }
  descriptor.add_int32(field::descriptor::kChildOrdering, kExplicitOrder);
}

std::uint64_t PerfettoPackets::iid(Interned& known, protozero::pbf_tag_type kind, const std::string& text) {
  const auto [entry, is_new] = known.try_emplace(text, known.size() + 1);
  if (is_new) {
    protozero::pbf_writer packet(packets_, field::kPacket);
    packet.add_uint32(field::kSequence, kSequence);
    protozero::pbf_writer data(packet, field::kInternedData);
    protozero::pbf_writer string(data, kind);
    string.add_uint64(field::interned::kIid, entry->second);
    string.add_string(field::interned::kText, text);
  }
  return entry->second;
}

std::uint64_t PerfettoPackets::event_name(const std::string& text) {
  return iid(event_names_, field::interned::kEventNames, text);
}

template <class Fill>
void PerfettoPackets::event(std::uint64_t track, std::uint64_t at_ns, EventType type, Fill fill) {
  {
    protozero::pbf_writer packet(packets_, field::kPacket);
    packet.add_uint64(field::kTimestamp, at_ns);
    packet.add_uint32(field::kSequence, kSequence);
    protozero::pbf_writer event(packet, field::kTrackEvent);
    event.add_enum(field::event::kType, static_cast<std::int32_t>(type));
    event.add_uint64(field::event::kTrack, track);
    fill(event);
  }
  constexpr std::size_t kEnough = 1 << 20;
  if (buffer_.size() < kEnough) return;
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

void PerfettoPackets::begin(const Slice& slice, std::uint64_t name, const char* category,
                            const Annotations& annotations, std::span<const std::uint64_t> flows) {
  const std::uint64_t category_iid = iid(categories_, field::interned::kCategories, category);
  std::vector<std::uint64_t> names;
  for (const Annotation& a : annotations)
    names.push_back(iid(annotation_names_, field::interned::kAnnotationNames, std::string(a.name)));
  event(slice.track, slice.begin_ns, EventType::slice_begin, [&](protozero::pbf_writer& e) {
    e.add_uint64(field::event::kCategory, category_iid);
    e.add_uint64(field::event::kName, name);
    for (std::size_t i = 0; i < annotations.size(); ++i) {
      protozero::pbf_writer annotation(e, field::event::kAnnotation);
      annotation.add_uint64(field::annotation::kName, names[i]);
      if (annotations[i].text.empty()) {
        annotation.add_int64(field::annotation::kInt, static_cast<std::int64_t>(annotations[i].number));
      } else {
        annotation.add_string(field::annotation::kString, annotations[i].text.data(),
                              annotations[i].text.size());
      }
    }
    for (std::uint64_t flow : flows) e.add_fixed64(field::event::kFlow, flow);
  });
}

void PerfettoPackets::end(const Slice& slice) {
  event(slice.track, slice.end_ns, EventType::slice_end, [](protozero::pbf_writer&) {});
}

void PerfettoPackets::instant(std::uint64_t track, std::uint64_t at_ns, std::uint64_t name) {
  event(track, at_ns, EventType::instant,
        [&](protozero::pbf_writer& e) { e.add_uint64(field::event::kName, name); });
}

void PerfettoPackets::counter(std::uint64_t track, std::uint64_t at_ns, double value) {
  event(track, at_ns, EventType::counter,
        [&](protozero::pbf_writer& e) { e.add_double(field::event::kCounter, value); });
}

void PerfettoPackets::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  out_.flush();
  buffer_.clear();
}

}  // namespace corun
