// What the library could not do for a program, which it says when the program ends.
#pragma once

#include <string_view>

namespace corun::live {

/// A call that launches, or makes or touches memory that policies decide about, went to the driver as it is.
void not_steered(const char* call);
/// A program of a later CUDA than the list of calls knows means another function by this name, which it has been given as it is.
void of_later_cuda(std::string_view call);
/// From now on there is someone to whom what is not steered matters.
void joined_a_service();
/// In a forked child: nothing is its own.
void forget_what_to_say();

}  // namespace corun::live
