// When requests came, as published recordings of services say: Azure's LLM traces, BurstGPT, Mooncake, and bare
// times.  Takes over times, token counts and hashes of prompts' blocks.  Leaves out which model a request asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "traces/model/time.h"

namespace corun {

struct RecordedRequest {
  Time at;                                        // since the recording's first request
  std::uint32_t context_tokens = 0, generated_tokens = 0;  // 0: the recording has none
  std::vector<std::uint64_t> blocks{};  // hashes of the prompt's blocks, of each or of all up to it
};

struct RecordedArrivals {
  std::string format;  // in words
  std::vector<RecordedRequest> requests;  // in the order of their times
  std::vector<std::string> notes;         // what was left out or assumed
  std::uint32_t block_tokens = 0;         // of a hash; 0: there are none
  std::string times_in{};                 // of JSON lines: "s" or "ms"
};

/// Unit of the times of JSON lines.
enum class TimeUnit : std::uint8_t { seconds, milliseconds };

/// Plain or gzip; the content tells which of these it is:
/// - CSV with TIMESTAMP (date and time), ContextTokens, GeneratedTokens: AzurePublicDataset, LLM 2023 and 2024;
/// - CSV with Timestamp (s), Request tokens, Response tokens: BurstGPT, without the failed requests (no response);
/// - JSON lines with input_length, output_length and timestamp_ms or timestamp_s; timestamp is ms with hash_ids (of 512 tokens), as
///   Mooncake has it, and s with chat_id and turn (hash_ids of 16 tokens), as Qwen's traces of Bailian do; else `unit` says it;
/// - one time in seconds a line, under a header or none.
/// `unit`: of the times of JSON lines, whatever the file says.  Throws InputError, also for times of JSON lines of which nothing
/// says what they are, unless all are 0.
RecordedArrivals read_arrivals(const std::filesystem::path& file, std::optional<TimeUnit> unit = {});

}  // namespace corun
