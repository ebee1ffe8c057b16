// Opens a text file for reading, plain or gzip-compressed; its content tells which.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>

namespace corun {

/// Throws InputError if there is no such file, it is a directory, or it is compressed in another way. Reading
/// from the stream throws InputError if a gzip file is cut short or corrupt, so that half a file is never
/// taken for all of it.
std::unique_ptr<std::istream> open_input(const std::filesystem::path& file);

/// The root of the files built into the program (embedded_tree()): what lies below it is found there and
/// nowhere else.
inline constexpr const char* kBuiltIn = "built-in:";
bool input_exists(const std::filesystem::path& file);

}  // namespace corun
