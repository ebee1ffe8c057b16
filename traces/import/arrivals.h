// When requests came, as published recordings of services say: Azure's LLM traces, BurstGPT, Mooncake, and bare
// times.  Takes over times and token counts.  Leaves out which model a request asked for and which cached
// prefixes it could have used.
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
};

struct RecordedArrivals {
  std::string format;  // in words
  std::vector<RecordedRequest> requests;  // in the order of their times
  std::vector<std::string> notes;         // what was left out or assumed
};

/// Plain or gzip; the content tells which of these it is:
/// - CSV with TIMESTAMP (date and time), ContextTokens, GeneratedTokens: AzurePublicDataset, LLM 2023 and 2024;
/// - CSV with Timestamp (s), Request tokens, Response tokens: BurstGPT, without the failed requests (no response);
/// - JSON lines with input_length, output_length and timestamp_ms or timestamp_s; timestamp is ms with hash_ids, as Mooncake has
///   it, and s with chat_id and turn, as Qwen's traces do; else it is refused, unless all are 0;
/// - one time in seconds a line, under a header or none.
/// Throws InputError.
RecordedArrivals read_arrivals(const std::filesystem::path& file);

}  // namespace corun
