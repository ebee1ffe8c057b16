// What a function assumes of who calls it.  A call that breaks it is a defect of corun, and told as one: by a
// std::logic_error with the place and the condition.
#pragma once

#include <stdexcept>
#include <string>

namespace corun {

/// Whether CORUN_EXPECTS_SLOW looks: in builds that are not for speed.
#ifdef NDEBUG
inline constexpr bool kExpectsSlow = false;
#else
inline constexpr bool kExpectsSlow = true;
#endif

[[noreturn, gnu::cold, gnu::noinline]] inline void not_as_expected(const char* condition, const char* file,
                                                                   int line) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": not so: " + condition);
}

}  // namespace corun

// Without the folder, objects are the same wherever they are built.
#ifdef __FILE_NAME__
#define CORUN_FILE_NAME __FILE_NAME__
#else
#define CORUN_FILE_NAME __FILE__
#endif

/// In every build.
#define CORUN_EXPECTS(...)              \
  ((__VA_ARGS__) ? static_cast<void>(0) \
                 : ::corun::not_as_expected(#__VA_ARGS__, CORUN_FILE_NAME, __LINE__))
/// The same where a look would cost: for what happens with every block.
#define CORUN_EXPECTS_SLOW(...) \
  (::corun::kExpectsSlow ? CORUN_EXPECTS(__VA_ARGS__) : static_cast<void>(0))
