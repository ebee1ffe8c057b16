// What a broken precondition tells.
#include "traces/model/expects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace corun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Expects, WhatHoldsTellsNothing) { EXPECT_NO_THROW(CORUN_EXPECTS(1 + 1 == 2)); }

TEST(Expects, WhatDoesNotHoldTellsFileLineAndCondition) {
  const int two = 2;
  const std::string line = std::to_string(__LINE__ + 1);
  EXPECT_THAT([&] { CORUN_EXPECTS(two == 3); },
              ThrowsMessage<std::logic_error>(
                  AllOf(HasSubstr("expects_test.cpp:"), HasSubstr(":" + line + ":"), HasSubstr("two == 3"))));
}

TEST(Expects, ASlowOneIsOnWhereSpeedDoesNotCount) {
  bool looked = false;
  const auto look = [&] { return looked = true; };
  CORUN_EXPECTS_SLOW(look());
  EXPECT_EQ(looked, kExpectsSlow);
}

}  // namespace
}  // namespace corun
