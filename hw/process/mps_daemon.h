// NVIDIA's Multi-Process Service for one run: a control daemon of our own, with folders of its own, which is
// there as long as this.  Processes with environment() use it; others on the machine do not see it.  Where this process is killed
// they go on: a guard then tells the daemon to end when they have.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hw/process/child.h"
#include "traces/json/temporary_folder.h"

namespace corun::hw {

class MpsDaemon {
 public:
  /// `below`: where its folder is to be, if not where temporary files are.  Throws InputError where there is none, or where it
  /// may not run.
  explicit MpsDaemon(double patience_s = 10, const std::filesystem::path& below = {});
  /// Ends the daemon and its servers and removes the folders.
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;

  std::vector<std::string> environment() const;
  /// For a client with this active thread percentage.
  std::vector<std::string> environment(double percentage) const;
  /// Leaves it to the programs that use it: the guard ends it when they have ended, as where this process is killed.
  void let_go() noexcept;
  /// The daemon was killed or has failed: programs that come find none.
  bool ended() { return !daemon_ || daemon_->ended().has_value(); }
  /// Readable when it has ended; -1: the system has no such descriptor.
  int descriptor() const { return daemon_->descriptor(); }
  const std::string& folder() const { return folder_.path().native(); }

 private:
  void stop() noexcept;
  double patience_s_;
  TemporaryFolder folder_;
  std::optional<Child> daemon_, guard_;
  int alive_ = -1;  // of a pipe that the guard reads: closed when this process ends
};

}  // namespace corun::hw
