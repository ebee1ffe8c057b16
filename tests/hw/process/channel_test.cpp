// What a process and its worker say to each other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "hw/process/channel.h"

namespace corun::hw {
namespace {

TEST(Channel, MessagesOfAnySizeArriveWholeAndInOrderBothWays) {
  Channel here = Channel::make();
  Channel there(dup(here.fd()), Channel::End::worker);
  std::thread answers([&] {
    for (int i = 0; i < 200;)
      if (auto m = there.receive()) there.send(*m), ++i;
  });
  for (std::uint32_t i = 0; i < 200; ++i)
    here.send({i, std::string(i % 5 == 0 ? 300'000 : i, static_cast<char>('a' + i % 26))});
  for (std::uint32_t i = 0; i < 200;)
    if (const auto m = here.receive()) {
      ASSERT_EQ(m->kind, i);
      ASSERT_EQ(m->bytes, std::string(i % 5 == 0 ? 300'000 : i, static_cast<char>('a' + i % 26)));
      ++i;
    }
  answers.join();
}

TEST(Channel, AMessageToNobodyIsGivenUp) {
  Channel here = Channel::make();
  EXPECT_FALSE(here.send({1, std::string(5'000'000, 'x')}, [] { return true; }));
}

}  // namespace
}  // namespace corun::hw
