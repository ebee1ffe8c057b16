#include "hw/process/mps_sms.h"

#include <chrono>
#include <thread>

#include "hw/driver/driver.h"
#include "hw/process/messages.h"
#include "hw/process/mps_daemon.h"
#include "hw/process/worker.h"

namespace corun::hw {
namespace {

constexpr int kPatienceMs = 30'000;

Child start_this_program(const Channel& channel, const std::vector<std::string>& environment) {
  return Child::start(worker_command(), environment, channel.fd(), false);
}

}  // namespace

std::uint32_t sms_of_process(const StartWorker& start, const std::vector<std::string>& environment) {
  Channel channel = Channel::make();
  Child child = start(channel, environment);
  channel.send({static_cast<std::uint32_t>(Kind::count_sms), {}}, [&] { return child.ended().has_value(); });
  for (int ms = 0; ms < kPatienceMs; ++ms) {
    const bool ended = child.ended().has_value();  // before the look: what it told before it ended is there
    if (const auto told = channel.receive()) {
      std::size_t at = 0;
      if (static_cast<Kind>(told->kind) == Kind::ready) return told->take<std::uint32_t>(at);
      throw DriverError("a process under MPS: " + told->bytes);
    }
    if (ended) throw DriverError("a process under MPS ended without a word");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw DriverError("a process under MPS does not answer");
}

std::vector<std::uint32_t> sms_under_mps(const std::vector<double>& percentages) {
  const MpsDaemon daemon;
  std::vector<std::uint32_t> sms;
  for (const double percentage : percentages)
    sms.push_back(sms_of_process(start_this_program, daemon.environment(percentage)));
  return sms;
}

}  // namespace corun::hw
