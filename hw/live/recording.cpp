#include "hw/live/recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <deque>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "traces/json/input_file.h"
#include "traces/model/error.h"

namespace corun::live {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 14> kNames{"kernel",   "join",   "leave",  "asked",    "ended",
                                             "failed",   "waits",  "standing", "decide", "granted",
                                             "foretold", "stop",   "stopped", "resize"};

constexpr std::array<const char*, 6> kOfMemory{"allocates", "frees", "moved", "wants", "has", "touched"};

void happened_to_memory(Books& books, const Json& line, Time now) {
  const Json& event = line.at("memory");
  const auto number = [&](std::size_t i) { return event.at(i).get<std::uint32_t>(); };
  const std::string name = event.at(0).get<std::string>();
  if (books.memory() == nullptr) throw std::out_of_range(name);
  if (name == "allocates")
    books.allocates(number(1), number(2), number(3), event.at(4).get<std::uint64_t>(), now);
  else if (name == "frees")
    books.frees(number(1), number(2), number(3), now);
  else if (name == "moved")
    books.moved(number(1), number(2), number(3), number(4) != 0, now);
  else if (name == "wants")
    books.wants(number(1), number(2), now);
  else if (name == "has")
    books.has(number(1), number(2), now);
  else
    books.touched(number(1), now);
}

Json dims(const Dim3& d) { return {d.x, d.y, d.z}; }
Dim3 dims_of(const Json& j) {
  return {j.at(0).get<std::uint32_t>(), j.at(1).get<std::uint32_t>(), j.at(2).get<std::uint32_t>()};
}

}  // namespace

Recording::Recording(const std::string& policy, const Gpu& gpu, const BooksOptions& options, std::size_t most)
    : header_(Json{{"corun_recording", 1},
                   {"of", "sim serve"},
                   {"policy", policy},
                   {"gpu", gpu.name},
                   {"ahead_ps", options.ahead.count()},
                   {"in_flight", options.in_flight},
                   {"programs", options.programs},
                   {"memory", options.memory},
                   {"persistent", options.persistent}}
                  .dump()),
      most_(most) {
  parts_.emplace_back().lines.reserve(kPart);
}

bool Recording::has_space() {
  full_ |= size() >= most_;
  return !full_;
}

void Recording::keep(Line line) {
  const std::size_t size = size_.load(std::memory_order_relaxed);
  if (size % kPart == 0 && size != 0) {
    Part& before = parts_.back();
    parts_.emplace_back().lines.reserve(kPart);
    before.next.store(&parts_.back(), std::memory_order_relaxed);  // seen with the line's number
  }
  parts_.back().lines.push_back(std::move(line));
  size_.store(size + 1, std::memory_order_release);
}

void Recording::joined(const ClientOptions& client_options) {
  if (!has_space()) return;
  Happened h{What::join};
  h.client_options = &client_options_.emplace_back(client_options);
  keep(h);
}

void Recording::asked(std::uint32_t client, std::uint32_t stream, std::uint32_t number, const Kernel& kernel,
                      Time now, std::uint32_t attempts) {
  if (!has_space()) return;
  const auto [at, added] =
      number_of_.try_emplace({client, &kernel}, static_cast<std::uint32_t>(kernels_.size()));
  if (added) {
    Happened h{What::kernel, {}, client, 0, 0, at->second};
    h.of = &kernels_.emplace_back(kernel);
    keep(h);
  }
  keep(Happened{What::asked, now, client, stream, number, at->second, attempts});
}

void Recording::stopped(std::uint32_t client, std::uint32_t stream, std::uint32_t number, std::uint32_t blocks,
                        Time now) {
  if (has_space()) keep(Happened{What::stopped, now, client, stream, number, blocks});
}

void Recording::happened(What what, std::uint32_t client, std::uint32_t stream, std::uint32_t number,
                         Time now) {
  if (!has_space()) return;
  keep(Happened{what, now, client, stream, number});
  if (what == What::leave)
    std::erase_if(number_of_, [&](const auto& each) { return each.first.first == client; });
}

void Recording::memory(const OfMemory& event, Time now) {
  if (has_space()) keep(MemoryLine{now, event});
}

void Recording::told(Time now, const std::vector<Notice>& notices) {
  if (!full_) keep(Told{now, notices});
}

void Recording::decided(const Decision& decision) {
  if (!full_) keep(decision);
}

void Recording::granted(const Granted& launch, Time now) {
  if (!full_)
    keep(Happened{launch.stop ? What::stop : launch.resize ? What::resize : What::granted, now, launch.client, launch.stream,
                  launch.number});
}

std::string Recording::text_of(const Line& kept) {
  if (const auto* told = std::get_if<Told>(&kept)) {
    Json line{{"t", told->now.count()}, {"told", Json::array()}};
    for (const Notice& n : told->notices) line["told"].push_back(Json::parse(hw::text_of(n)));
    return line.dump();
  }
  if (const auto* decision = std::get_if<Decision>(&kept))
    return Json{{"decision", hw::text_of(*decision)}}.dump();
  if (const auto* memory = std::get_if<MemoryLine>(&kept)) {
    const OfMemory& m = memory->event;
    return Json{{"t", memory->now.count()}, {"memory", {kOfMemory[static_cast<std::size_t>(m.what)], m.client, m.block, m.generation, m.bytes}}}.dump();
  }
  const Happened& h = std::get<Happened>(kept);
  const char* name = kNames[static_cast<std::size_t>(h.what)];
  switch (h.what) {
    case What::kernel: {
      const Kernel& k = *h.of;
      return Json{{name, h.kernel},
                  {"name", k.name},
                  {"grid", dims(k.grid)},
                  {"block", dims(k.block)},
                  {"registers", k.registers_per_thread},
                  {"shared_bytes", {k.static_shared_memory_bytes, k.dynamic_shared_memory_bytes}}}
          .dump();
    }
    case What::join: {
      const ClientOptions& n = *h.client_options;
      Json line{
          {name, n.name}, {"real_time", n.service_class == ServiceClass::real_time}, {"priority", n.priority}};
      if (n.quota) line["quota"] = *n.quota;
      if (n.reservation) line["reservation"] = *n.reservation;
      if (n.deadline) line["slo"] = n.deadline->count();
      return line.dump();
    }
    case What::asked:
      if (h.attempts != 0)
        return Json{{"t", h.now.count()}, {name, {h.client, h.stream, h.number, h.kernel, h.attempts}}}
            .dump();
      [[fallthrough]];
    case What::stopped:
      return Json{{"t", h.now.count()}, {name, {h.client, h.stream, h.number, h.kernel}}}.dump();
    case What::stop:
    case What::resize:
    case What::ended:
    case What::failed:
    case What::granted:
      return Json{{"t", h.now.count()}, {name, {h.client, h.stream, h.number}}}.dump();
    case What::foretold:
      return Json{{name, true}}.dump();
    case What::decide:
      return Json{{"t", h.now.count()}, {name, true}}.dump();
    default:
      return Json{{name, h.client}}.dump();
  }
}

void Recording::write(std::ostream& out) const {
  out << header_ << "\n";
  for (std::size_t i = 0; i < size(); ++i) out << line(i) << "\n";
}

RecordingFile::RecordingFile(const Recording& recording, const std::string& file)
    : recording_(recording), fd_(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)), part_(&recording.parts_.front()) {
  if (fd_ < 0) throw InputError(file, "--record", "cannot be written", "name a file in a folder that exists and has room");
  write(recording_.header_ + "\n");
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the service's
  thread_ = std::thread([this] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);  // of this thread: programs and the service go first
    for (bool ends = false; !ends;) {
      {
        std::unique_lock lock(mutex_);
        ends = wakes_.wait_for(lock, kEach, [this] { return ends_; });
      }
      write_on();
    }
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

int RecordingFile::finish() {
  if (!thread_.joinable()) return error();
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
  if (close(fd_) != 0 && error() == 0) error_.store(errno);
  return error();
}

void RecordingFile::write_on() {
  std::string text;
  for (const std::size_t size = recording_.size(); written_ < size && error() == 0; ++written_) {
    if (written_ % Recording::kPart == 0 && written_ != 0) part_ = part_->next.load(std::memory_order_relaxed);
    text += Recording::text_of(part_->lines[written_ % Recording::kPart]);
    text += '\n';
    if (text.size() >= std::size_t{1} << 16) write(std::exchange(text, {}));
  }
  write(text);
}

void RecordingFile::write(const std::string& text) {
  for (std::size_t at = 0; at < text.size() && error() == 0;) {
    const ssize_t n = ::write(fd_, text.data() + at, text.size() - at);
    if (n >= 0)
      at += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      error_.store(errno);
  }
}

hw::Replayed replay(const std::string& file, const Gpu& gpu, decltype(BooksOptions::forecast) forecast) {
  const std::unique_ptr<std::istream> in = open_input(file);
  std::string text;
  std::size_t row = 1;
  hw::Replayed result;
  try {
    std::getline(*in, text);
    const Json head = Json::parse(text);
    if (head.value("of", "") != "sim serve")
      throw InputError(file, "line 1", "it is no recording of sim serve", "make one with sim serve --record");
    Books books(head.at("policy").get<std::string>(), gpu,
                {Time{head.at("ahead_ps").get<std::int64_t>()}, head.at("in_flight").get<std::uint32_t>(),
                 head.at("programs").get<std::vector<std::string>>(), std::move(forecast),
                 head.value("memory", std::uint64_t{0}), head.value("persistent", false)});
    Recording now(books);
    const auto share = [](const Json& line, const char* name) {
      return line.contains(name) ? std::optional(line[name].get<double>()) : std::nullopt;
    };
    std::deque<Kernel> kernels;
    std::vector<Granted> granted;
    std::size_t compared = 0;  // of the lines of now
    while (std::getline(*in, text)) {
      ++row;
      const Json line = Json::parse(text, nullptr, !in->eof());
      if (line.is_discarded()) break;  // a part of a line, of a service that was killed
      const auto number = [&](const char* name, std::size_t i) {
        return line.at(name).at(i).get<std::uint32_t>();
      };
      const auto at = [&] { return Time{line.at("t").get<std::int64_t>()}; };
      if (line.contains("kernel")) {
        Kernel& k = kernels.emplace_back();
        k.name = line.at("name").get<std::string>();
        k.grid = dims_of(line.at("grid")), k.block = dims_of(line.at("block"));
        k.registers_per_thread = line.at("registers").get<std::uint32_t>();
        k.static_shared_memory_bytes = number("shared_bytes", 0),
        k.dynamic_shared_memory_bytes = number("shared_bytes", 1);
        continue;
      }
      if (compared == now.size()) {  // nothing more comes of what happened before
        if (line.contains("join"))
          books.join({line["join"].get<std::string>(),
                      line.at("real_time").get<bool>() ? ServiceClass::real_time : ServiceClass::best_effort,
                      line.at("priority").get<std::int32_t>(), share(line, "quota"), share(line, "reservation"),
                      line.contains("slo") ? std::optional(Time{line["slo"].get<std::int64_t>()}) : std::nullopt});
        else if (line.contains("leave"))
          books.leave(line["leave"].get<std::uint32_t>());
        else if (line.contains("asked"))
          books.asked(number("asked", 0), number("asked", 1), number("asked", 2),
                      kernels.at(number("asked", 3)), at(),
                      line["asked"].size() > 4 ? number("asked", 4) : 0);
        else if (line.contains("stopped"))
          books.stopped(number("stopped", 0), number("stopped", 1), number("stopped", 2), number("stopped", 3),
                        at());
        else if (line.contains("ended"))
          books.ended(number("ended", 0), number("ended", 1), number("ended", 2), at());
        else if (line.contains("failed"))
          books.failed(number("failed", 0), number("failed", 1), number("failed", 2), at());
        else if (line.contains("waits"))
          books.waits(line["waits"].get<std::uint32_t>());
        else if (line.contains("standing"))
          (void)books.standing(line["standing"].get<std::uint32_t>());
        else if (line.contains("memory"))
          happened_to_memory(books, line, at());
        else if (line.contains("foretold"))
          books.hear_forecast();
        else if (line.contains("decide"))
          ++result.waits, books.decide(at(), granted);
        if (compared < now.size() && Json::parse(now.line(compared)).contains("kernel")) ++compared;
      }
      const std::string decided = compared < now.size() ? now.line(compared++) : "nothing";
      if (decided != text) {
        result.difference = fmt::format("line {}: recorded {}, now {}", row, text, decided);
        return result;
      }
      result.decisions += line.contains("decision");
    }
    if (compared < now.size()) result.difference = "the recording ends before: " + now.line(compared);
  } catch (const Json::exception& e) {
    throw InputError(file, fmt::format("line {}", row), fmt::format("it is not a recording: {}", e.what()),
                     "record the run again");
  } catch (const std::out_of_range&) {
    throw InputError(file, fmt::format("line {}", row),
                     "it names a program or kernel that has not been told of", "record the run again");
  }
  return result;
}

}  // namespace corun::live
