// Reading and writing the trace format (traces/FORMAT.md), GPU descriptions, and their JSON Schemas.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/model/gpu.h"
#include "traces/model/trace.h"

namespace corun {

/// Reads a trace, plain or gzip, with its includes.  Throws InputError (file, JSON pointer or line, what was
/// expected, what to do).  Warnings (assumed registers, ...) are appended to Trace::notes.
/// `recordings`: makes a trace of a profiler's recording that is included, and nothing of any other file.
using RecordingReader = std::function<std::optional<Trace>(const std::filesystem::path& file)>;
Trace read_trace(const std::filesystem::path& file, const RecordingReader& recordings = {});
/// A trace that stands within another file, whose includes start there.
Trace read_trace(const nlohmann::json& document, const std::filesystem::path& file);

/// The document as version 1 writes it: keys in the order of FORMAT.md, two spaces, same bytes for the same
/// trace.  `schema`: the value of "$schema"; empty: without one.
void write_trace(const Trace& trace, std::ostream& out, const std::string& schema = "trace.schema.json");

/// A GPU by name (built in; our name, or what nvidia-smi and profilers call the card) or by the path of a
/// description; relative paths start at `beside`.  Throws one InputError for all that is wrong with a file.
Gpu read_gpu(const std::string& name_or_path, const std::filesystem::path& beside = {});
/// What a command line says of a GPU, for read_gpu() beside any trace: a path starts at the working
/// directory.  Throws InputError where there is no such GPU.
std::string locate_gpu(const std::string& name_or_path);
/// Names of the built-in descriptions, sorted.
std::vector<std::string> gpu_names();

/// Text of a built-in JSON Schema: "trace", "gpu", "reference", "figure".  Throws InputError listing the names.
std::string_view schema(std::string_view name);
/// From a file that is written to that schema on this disk: in the installation or the source tree that the running
/// command is of.  Empty: it is not there.
std::string schema_from(const std::filesystem::path& file, std::string_view name);

}  // namespace corun
