// JSON as profilers write it and no parser takes it: read where the value is not needed, and sound JSON untouched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/traces/import/kineto_text.h"
#include "traces/import/mended_json.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using namespace kineto_text;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

const std::string kSound = R"x({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}], "traceEvents": [
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1000, "dur": 5, "args": {"correlation": 1}},
{"ph": "X", "cat": "python_function", "name": "run.py(1): main", "pid": 1, "tid": 1, "ts": 999, "dur": 9, "args": {}},
{"ph": "X", "cat": "kernel", "name": "work(float*)", "pid": 0, "tid": 7, "ts": 1010, "dur": 100, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 1, "registers per thread": 32, "shared memory": 0, "blocks per SM": 2.0, "grid": [264, 1, 1], "block": [256, 1, 1]}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 1200, "dur": 0, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 2, "bytes": 200, "memory bandwidth (GB/s)": 1.5}}
]})x";

std::string mended(const std::string& text) {
  const TestFile file(text);
  kineto::ByteSource source(file, text.size());
  kineto::MendedJson json(source);
  std::string out;
  for (; !json.at_end(); json.advance()) out += json.peek();
  return out;
}

TEST(UnsoundJson, WhatProfilersAreKnownToWriteIsReadAround) {
  const Trace sound = import_text(kSound);
  EXPECT_THAT(sound.notes, Each(Not(HasSubstr("no JSON"))));
  struct {
    const char *from, *to;
  } const kWritten[] = {{R"x("blocks per SM": 2.0)x", R"x("blocks per SM": 7,757576)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": inf)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": -nan)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": N/A)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": 1.#INF)x"},
                        {"run.py(1): main", R"x({"device": "cpu"}(12): run)x"},
                        {"run.py(1): main", R"x(f("a", b["c"]): x)x"},
                        {"run.py(1): main", R"x(C:\Users\me\new.py(1): main)x"},
                        {"run.py(1): main", R"x(C:\Users\me\)x"},
                        {"run.py(1): main", "tab\there"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": Infinity)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": -nan(ind))x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": 1,5e-3)x"},
                        {R"x("memory bandwidth (GB/s)": 1.5)x", R"x("memory bandwidth (GB/s)": 1.5,)x"},
                        {R"x("block": [256, 1, 1])x", R"x("block": [256, 1, 1,])x"},
                        {"}}\n]}", "}},\n]}"}};
  for (const auto& [from, to] : kWritten) {
    Trace trace = import_text(replaced(kSound, from, to));
    EXPECT_THAT(trace.notes, Contains(HasSubstr("no JSON"))) << to;
    EXPECT_EQ(trace.kernels, sound.kernels) << to;
    EXPECT_EQ(trace.programs, sound.programs) << to;
  }
}

TEST(UnsoundJson, ANeededValueIsReadWithTheCommaOfTheLocaleAndRefusedWithItsCauseWithoutAny) {
  EXPECT_EQ(import_text(replaced(kSound, R"x("dur": 100)x", R"x("dur": 100,5)x")).kernels[0].solo_time, from_ns(100500));
  try {
    import_text(replaced(kSound, R"x("dur": 100)x", R"x("dur": inf)x"));
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("has no number `dur`"));
    EXPECT_THAT(error.place(), HasSubstr("line 4"));
  }
}

TEST(UnsoundJson, SoundJsonStaysAsItIs) {
  for (const std::string& text :
       {kSound, std::string(R"x({"a": "q\"uo\\te\u00e9", "b": [1, 2.5e-3, -0, true, false, null, "x", []], "c": {}, "d": "}, \"e\": 1"})x"), std::string("[1,2,3]"),
        std::string(R"x({"path": "C:\\", "next": "a, b"})x"), text_of(kSmall)})
    EXPECT_EQ(mended(text), text);
}

TEST(UnsoundJson, WhatIsCutShortIsNotMended) {
  for (const std::size_t left : {kSound.size() - 2, kSound.size() / 2}) {
    try {
      import_text(replaced(kSound, "1.5", "inf").substr(0, left));
      ADD_FAILURE() << left;
    } catch (const InputError& error) {
      EXPECT_THAT(error.problem(), HasSubstr("ends in the middle")) << left;
    }
  }
}

}  // namespace
}  // namespace corun
