// What libFuzzer calls, or driver.cpp where there is none: `fuzz_inputs --reader=NAME ...`.  A reader returns or
// throws InputError; all else ends the process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fuzz/readers.h"
#include "traces/model/error.h"

namespace {

namespace fs = std::filesystem;
using corun::fuzz::Reader;

/// The one file that is written again for each input.
class Scratch {
 public:
  Scratch() {
    std::string name =
        ((fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "corun-fuzz-XXXXXX")
            .string();
    folder_ = mkdtemp(name.data());
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  fs::path write(std::string_view bytes) const {
    std::ofstream(folder_ / "input", std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return folder_ / "input";
  }

 private:
  fs::path folder_;
};

const Reader* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  std::vector<std::string_view> names;
  for (const Reader& reader : corun::fuzz::readers()) {
    names.push_back(reader.name);
    for (int i = 1; i < *count; ++i)
      if ((*arguments)[i] == fmt::format("--reader={}", reader.name)) chosen = &reader;
  }
  if (chosen != nullptr) return 0;
  fmt::print(stderr, "give --reader=NAME of {}\n", fmt::join(names, ", "));
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  try {
    chosen->read(scratch.write({reinterpret_cast<const char*>(data), size}));
  } catch (const corun::InputError&) {
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: neither read nor refused by InputError: {}\n", chosen->name, error.what());
    std::abort();
  }
  return 0;
}
