// Details of an operation in one string, as XLA's profiler (JAX, TensorFlow) writes them: "regs:32 static_shared:0 grid:264,1,1 block:256,1,1".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace corun::kineto {

/// The value of `key`; empty: it has none.
std::string_view detail(std::string_view details, std::string_view key);

/// Whole numbers between commas; empty: one of them is none.
std::vector<std::int64_t> whole_numbers(std::string_view text);

/// "/device:GPU:3" -> 3; nothing: the name of another process.
std::optional<std::int64_t> gpu_of_process(std::string_view name);

}  // namespace corun::kineto
