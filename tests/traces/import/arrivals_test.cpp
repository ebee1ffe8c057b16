// Are requests of published recordings read as their publishers describe them, and is what is wrong told with its
// line?
#include "traces/import/arrivals.h"

#include <fmt/format.h>
#include <gtest/gtest.h>


#include "tests/support/in_folder.h"
#include "traces/model/error.h"

namespace corun {
namespace {

class ArrivalsOfRecordings : public InFolder {
 protected:

  RecordedArrivals read(const std::string& text) const {
    return read_arrivals(write("arrivals", text));
  }
  void expect_refused(const std::string& text, const std::string& place, const std::string& word) const {
    try {
      read(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const InputError& error) {
      EXPECT_EQ(error.place(), place) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
};

TEST_F(ArrivalsOfRecordings, AzureRowsAreTimesSinceTheFirstWithTheirTokens) {
  const RecordedArrivals a = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-11-30 23:59:59.9999999,374,44\r\n"
      "2023-12-01 00:00:00.0000001,396,109\r\n"
      "2024-03-01 00:00:00+00:00,879,55\r\n");
  EXPECT_EQ(a.format, "Azure LLM CSV");
  ASSERT_EQ(a.requests.size(), 3u);
  EXPECT_EQ(a.requests[0].at, Time{});
  EXPECT_EQ(a.requests[1].at, from_ns(200));
  EXPECT_EQ(a.requests[2].at, Time{91LL * 86'400'000'000'000'000 + 100'000}) << "2024 has a 29 February";
  EXPECT_EQ(a.requests[1].context_tokens, 396u);
  EXPECT_EQ(a.requests[1].generated_tokens, 109u);
  EXPECT_TRUE(a.notes.empty());
}

TEST_F(ArrivalsOfRecordings, ABurstGptRequestWithoutResponseFailedAndIsLeftOutWithANote) {
  const RecordedArrivals a = read(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
      "118.5,GPT-4,417,276,693,API log\n");
  EXPECT_EQ(a.format, "BurstGPT CSV");
  ASSERT_EQ(a.requests.size(), 2u);
  EXPECT_EQ(a.requests[1].at, from_ns(113.5e9));
  EXPECT_EQ(a.requests[1].generated_tokens, 276u);
  ASSERT_EQ(a.notes.size(), 1u);
  EXPECT_NE(a.notes[0].find("1 failed"), std::string::npos);
}

TEST_F(ArrivalsOfRecordings, MooncakeLinesAreMilliseconds) {
  const RecordedArrivals a = read(
      "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\n"
      "{\"timestamp\": 30535, \"input_length\": 6472, \"output_length\": 26, \"hash_ids\": []}\n");
  ASSERT_EQ(a.requests.size(), 2u);
  EXPECT_EQ(a.requests[1].at, from_ns(3053e6));
  EXPECT_EQ(a.requests[0].context_tokens, 6955u);
}

TEST_F(ArrivalsOfRecordings, TheUnitOfATimeIsReadFromItsKeyOrItsWholeFormat) {
  const auto second = [&](const std::string& a, const std::string& b) {
    const RecordedArrivals read = this->read("{" + a + ", \"input_length\": 400, \"output_length\": 10}\n{" + b + ", \"input_length\": 400, \"output_length\": 10}\n");
    return read.requests.at(1).at;
  };
  // Qwen's traces, as Alibaba publishes them, are in seconds.
  EXPECT_EQ(second("\"chat_id\": 0, \"parent_chat_id\": -1, \"timestamp\": 0.0, \"turn\": 1, \"hash_ids\": [0]",
                   "\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 0.5, \"turn\": 1, \"hash_ids\": [1]"),
            from_ns(500e6));
  EXPECT_EQ(second("\"timestamp_s\": 1", "\"timestamp_s\": 3"), from_ns(2e9));
  EXPECT_EQ(second("\"timestamp_ms\": 1", "\"timestamp_ms\": 3"), from_ns(2e6));
  EXPECT_EQ(second("\"timestamp\": 0", "\"timestamp\": 0"), Time{}) << "all at once in any unit";
}

TEST_F(ArrivalsOfRecordings, AUnitThatNothingSaysIsAskedFor) {
  const std::string none = "{\"timestamp\": 0, \"input_length\": 400, \"output_length\": 10}\n{\"timestamp\": 5, \"input_length\": 400, \"output_length\": 10}\n";
  expect_refused(none, "line 2", "seconds or milliseconds");
  expect_refused(none, "line 2", "timestamp_s");
  expect_refused("{\"timestamp_s\": 0}\n{\"timestamp_ms\": 5}\n", "line 2", "another unit");
}

TEST_F(ArrivalsOfRecordings, ATableSaysItsUnitOrIsAsked) {
  const auto second = [&](const std::string& text, std::optional<TimeUnit> unit = {}) { return read_arrivals(write("arrivals", text), unit).requests.at(1).at; };
  const auto ms = TimeUnit::milliseconds;
  for (const char* header : {"timestamp_ms", "time_ms", "arrival_ms", "Milliseconds"}) EXPECT_EQ(second(std::string(header) + "\n100\n600\n"), from_ns(500e6)) << header;
  for (const char* header : {"timestamp_s", "time_s", "arrival_s", "seconds"}) EXPECT_EQ(second(std::string(header) + "\n0.1\n0.6\n"), from_ns(500e6)) << header;
  EXPECT_EQ(second("timestamp,input_length,output_length\n0,100,5\n500,100,5\n", ms), from_ns(500e6));
  EXPECT_EQ(second("time\n0\n0.5\n", TimeUnit::seconds), from_ns(500e6));
  EXPECT_EQ(second("0\n500\n", ms), from_ns(500e6)) << "bare times";
  EXPECT_EQ(second("time\n0\n0\n"), Time{}) << "all at once in any unit";
  expect_refused("timestamp,input_length,output_length\n0,100,5\n500,100,5\n", "line 3", "nothing says whether \"timestamp\" is in seconds or milliseconds");
  expect_refused("time\n0\n500\n", "line 3", "\"time_s\" or \"time_ms\"");
  const auto contradicted = [&](const std::string& text, TimeUnit unit) {
    try {
      second(text, unit);
    } catch (const InputError& error) {
      return error.problem();
    }
    return std::string();
  };
  EXPECT_NE(contradicted("time_ms\n0\n500\n", TimeUnit::seconds).find("\"time_ms\" says another unit than unit=s"), std::string::npos);
  EXPECT_NE(contradicted("{\"timestamp_ms\": 0}\n{\"timestamp_ms\": 500}\n", TimeUnit::seconds).find("says another unit"), std::string::npos);
  EXPECT_NE(contradicted("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-30 23:59:59,374,44\n2023-12-01 00:00:00,396,109\n", ms).find("is a date and time"), std::string::npos);
  EXPECT_EQ(second("{\"timestamp\": 0, \"hash_ids\": []}\n{\"timestamp\": 3, \"hash_ids\": []}\n", TimeUnit::seconds), from_ns(3e9)) << "Mooncake's keys, another's unit";
}

TEST_F(ArrivalsOfRecordings, TokensOfATableAreThoseOfJsonLines) {
  const RecordedArrivals a = read("timestamp_ms,input_length,output_length\n0,100,5\n500,120,6\n");
  EXPECT_EQ(a.requests[1].context_tokens, 120u);
  EXPECT_EQ(a.requests[1].generated_tokens, 6u);
}

TEST_F(ArrivalsOfRecordings, TimesSince1970KeepTheirFraction) {
  EXPECT_EQ(read("{\"timestamp_ms\": 1700000000000}\n{\"timestamp_ms\": 1700000000500}\n").requests[1].at, from_ns(500e6));
  EXPECT_EQ(read("{\"timestamp_s\": 1700000000.25}\n{\"timestamp_s\": 1700000000.75}\n").requests[1].at, from_ns(500e6));
  expect_refused("[{\"timestamp_ms\": 0}]\n", "line 1", "JSON object");
}

TEST_F(ArrivalsOfRecordings, HashesAreOfMooncakesOrOfQwensBlocksAndQwensTimesAreSeconds) {
  const RecordedArrivals mooncake = read("{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 52, \"hash_ids\": [46, 47]}\n");
  EXPECT_EQ(mooncake.requests[0].blocks, (std::vector<std::uint64_t>{46, 47}));
  EXPECT_EQ(mooncake.block_tokens, 512u);
  EXPECT_EQ(mooncake.times_in, "ms");
  const std::string line = "{{\"chat_id\": {0}, \"parent_chat_id\": -1, \"timestamp\": {1}, \"input_length\": 40, \"output_length\": 10, "
                           "\"type\": \"text\", \"turn\": 1, \"hash_ids\": [{0}, 7]}}\n";
  const RecordedArrivals qwen = read(fmt::format(fmt::runtime(line), 0, "61.0") + fmt::format(fmt::runtime(line), 1, "61.5"));
  EXPECT_EQ(qwen.requests[1].at, from_ns(0.5e9)) << "seconds read as ms are a thousandfold";
  EXPECT_EQ(qwen.requests[1].blocks, (std::vector<std::uint64_t>{1, 7}));
  EXPECT_EQ(qwen.block_tokens, 16u);
  EXPECT_EQ(qwen.times_in, "s");
}

TEST_F(ArrivalsOfRecordings, AFractionOfWhichNothingSaysTheUnitIsAskedFor) {
  const std::string lines = "{\"timestamp\": 0, \"input_length\": 4}\n{\"timestamp\": 0.5, \"input_length\": 4}\n";
  expect_refused(lines, "line 2", "unit=s or unit=ms");
  EXPECT_EQ(read_arrivals(write("arrivals", lines), TimeUnit::seconds).requests[1].at, from_ns(0.5e9));
  EXPECT_EQ(read_arrivals(write("arrivals", lines), TimeUnit::milliseconds).requests[1].at, from_ns(0.5e6));
  expect_refused("{\"timestamp\": 0, \"hash_ids\": [\"a\"]}\n", "line 1", "no list of whole numbers");
}

TEST_F(ArrivalsOfRecordings, BareTimesAreSecondsUnderAHeaderOrNone) {
  for (const char* text : {"0.25\n1.5\n", "time_s\n0.25\n1.5\n"}) {
    const RecordedArrivals a = read(text);
    ASSERT_EQ(a.requests.size(), 2u) << text;
    EXPECT_EQ(a.requests[1].at, from_ns(1.25e9)) << text;
  }
}

TEST_F(ArrivalsOfRecordings, RequestsOutOfOrderAreSortedAndThatIsSaid) {
  const RecordedArrivals a = read("2\n1\n");
  EXPECT_EQ(a.requests[1].at, from_ns(1e9));
  EXPECT_EQ(a.notes.size(), 1u);
}

TEST_F(ArrivalsOfRecordings, WhatIsAfterAsManyDaysAsATraceMayHaveIsLeftOutWithANote) {
  const auto days = [](double n) { return fmt::format("{:.3f}", n * 86400); };
  EXPECT_EQ(read("0\n" + days(99) + "\n").requests.size(), 2u);
  const RecordedArrivals a = read("0\n" + days(99.00001) + "\n");
  EXPECT_EQ(a.requests.size(), 1u);
  EXPECT_EQ(a.notes.size(), 1u);
}

TEST_F(ArrivalsOfRecordings, WhatIsWrongIsToldWithItsLine) {
  expect_refused("", "", "no request");
  expect_refused("a,b\n1,2\n", "line 1", "no column of times");
  expect_refused("time_s\n1\nsoon\n", "line 3", "no time");
  expect_refused("time_s\n-1\n", "line 2", "seconds from 0 on");
  expect_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:15:46,1,1\n", "line 2", "no time");
  expect_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,many,1\n", "line 2", "tokens");
  expect_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1\n", "line 2", "fields");
  expect_refused("{\"timestamp_ms\": 1}\n{\"time\": 1}\n", "line 2", "timestamp");
  expect_refused("{\"timestamp_ms\": 1}\n[1]\n", "line 2", "JSON object");
}

}  // namespace
}  // namespace corun
