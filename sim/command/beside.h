// Libraries that go into other programs, which are installed beside this one's executable.
#pragma once

#include <filesystem>
#include <string>

namespace corun::sim {

/// Throws InputError, with the remedy, where it is not there.
std::filesystem::path beside_this(const std::string& library, const std::string& remedy);

}  // namespace corun::sim
