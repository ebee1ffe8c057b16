// A file of a tool's that no importer here reads, told by its name or its first line, so that the refusal says what it is and
// which form to ask the tool for.  Leaves out what is inside of compressed files.
#pragma once

#include <filesystem>

namespace corun {

/// Throws InputError where the file is known to be of such a form; else does nothing.
void refuse_foreign(const std::filesystem::path& file);

}  // namespace corun
