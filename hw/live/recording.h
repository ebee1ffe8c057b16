// What the books of a service were told and what the policy decided, as JSON lines in the form of hw/record,
// so that its decisions can be asked for again without a GPU and without the programs.  The first line says
// how the books were opened.  Then comes what happened (join, leave, asked, ended, failed, waits, standing,
// decide, foretold, memory, stopped), and after it the policy's notices and decisions and the grants.
//
// To make text takes longer than to decide: so lines are kept in memory, and a thread of its own writes them as they come
// (RecordingFile).  A service that is killed leaves all but those of the last kEach, and maybe a part of a line.  Lines stay where
// they are: to move a million of them stands the service still for as long as a request, and the thread reads them without a lock.
//
// Leaves out: what happens after kMost lines.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iosfwd>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "hw/record/recording.h"
#include "policies/service/books.h"

namespace corun::live {

class Recording final : public BooksListener {
 public:
  static constexpr std::size_t kMost = 5'000'000;  // of about 100 bytes

  Recording(const std::string& policy, const Gpu& gpu, const BooksOptions& options, std::size_t most = kMost);
  /// Records these books from here on, and lives as long as they do.
  explicit Recording(Books& books) : Recording(books.policy(), books.gpu(), books.options()) { books.listen(*this); }

  void joined(const ClientOptions& client_options) override;
  void asked(std::uint32_t client, std::uint32_t stream, std::uint32_t number, const Kernel& kernel, Time now,
             std::uint32_t attempts) override;
  void stopped(std::uint32_t client, std::uint32_t stream, std::uint32_t number, std::uint32_t blocks,
               Time now) override;
  void happened(What what, std::uint32_t client, std::uint32_t stream = 0, std::uint32_t number = 0,
                Time now = {}) override;
  void memory(const OfMemory& event, Time now) override;
  void told(Time now, const std::vector<Notice>& notices) override;
  void decided(const Decision& decision) override;
  void granted(const Granted& launch, Time now) override;

  bool full() const { return full_; }
  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  std::string line(std::size_t i) const { return text_of(parts_[i / kPart].lines[i % kPart]); }
  void write(std::ostream& out) const;

 private:
  struct Happened {
    What what;
    Time now{};
    std::uint32_t client = 0, stream = 0, number = 0, kernel = 0;  // of stopped: blocks done
    std::uint32_t attempts = 0;
    const ClientOptions* client_options = nullptr;  // of join
    const Kernel* of = nullptr;          // of kernel
  };
  struct Told {
    Time now{};
    std::vector<Notice> notices;
  };
  struct MemoryLine {
    Time now{};
    OfMemory event;
  };
  using Line = std::variant<Happened, Told, Decision, MemoryLine>;
  static constexpr std::size_t kPart = 4096;
  struct Part {
    std::vector<Line> lines;  // has room for all of them from the beginning
    std::atomic<const Part*> next{nullptr};
  };
  friend class RecordingFile;
  static std::string text_of(const Line& line);
  void keep(Line line);
  /// False: nothing more is kept, so that the last to have happened is there with all that came of it.
  bool has_space();

  std::string header_;
  std::size_t most_;
  bool full_ = false;
  std::deque<Part> parts_;
  std::atomic<std::size_t> size_{0};  // of lines that are whole
  std::deque<ClientOptions> client_options_;
  std::deque<Kernel> kernels_;
  std::map<std::pair<std::uint32_t, const Kernel*>, std::uint32_t>
      number_of_;  // those of a program end with it
};

/// Writes a recording into a file while it is made.
class RecordingFile {
 public:
  static constexpr auto kEach = std::chrono::milliseconds(200);

  /// Throws InputError where the file cannot be written.
  RecordingFile(const Recording& recording, const std::string& file);
  RecordingFile(const RecordingFile&) = delete;
  RecordingFile& operator=(const RecordingFile&) = delete;
  /// With what is left.
  ~RecordingFile() { finish(); }
  /// Writes what is left.  0, or why the file could not be written.
  int finish();
  /// 0, or why nothing is written any more.
  int error() const { return error_.load(); }

 private:
  void write_on();
  void write(const std::string& text);

  const Recording& recording_;
  int fd_;
  const Recording::Part* part_;
  std::size_t written_ = 0;  // lines
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::atomic<int> error_{0};
  std::thread thread_;
};

/// Tells books of the recording's policy again what happened.  Throws InputError where it is no recording of
/// a service.
hw::Replayed replay(const std::string& file, const Gpu& gpu, decltype(BooksOptions::forecast) forecast = {});

}  // namespace corun::live
