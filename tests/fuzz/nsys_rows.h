// Text of which Nsight Systems' tables are made, so that a fuzzer changes rows and not pages of a database.
//
// A line is a table's letter and values parted by blanks: an integer, "-" for null, else text.  K: kernel, R:
// runtime call, C: copy, M: memset, S: synchronization, N: range, T: string, G: GPU, P: process.  What is left
// over is dropped.
#pragma once

#include <filesystem>

namespace corun::fuzz {

void write_rows(const std::filesystem::path& text, const std::filesystem::path& database);

}  // namespace corun::fuzz
