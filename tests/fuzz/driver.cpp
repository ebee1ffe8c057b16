// Stands in for libFuzzer where it is not linked: the corpus as it is, then mutations of it, the same ones in each
// run, until the processor time is up or so many are read.  `fuzz_inputs --reader=NAME --corpus=FOLDER --seconds=N`, or
// --mutations=N, or files to read each once.
//
// An input that ends the process, takes over 10 s of CPU time or more than 2 GiB is left in the working directory.
// Leaves out what libFuzzer is for: it does not see which code an input reaches.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMostMemory = rlim_t{2} << 30;
constexpr long kMostSeconds = 10;
constexpr std::size_t kLongestInput = 64 * 1024;

std::string current;
std::string crash_file = "crash";

extern "C" void keep_input(int signal) {
  const int file = open(crash_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file >= 0) {
    (void)!write(file, current.data(), current.size());
    close(file);
  }
  constexpr std::string_view slow = "took too long\n", ended = "ended the process\n";
  const std::string_view why = signal == SIGPROF ? slow : ended;
  (void)!write(STDERR_FILENO, why.data(), why.size());
  (void)!write(STDERR_FILENO, crash_file.data(), crash_file.size());
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(1);
}

void guard() {
  static std::array<char, 1 << 16> stack;  // where the reader's has run out
  const stack_t other{stack.data(), 0, stack.size()};
  sigaltstack(&other, nullptr);
  struct sigaction keep {};
  keep.sa_handler = keep_input;
  keep.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGPROF}) sigaction(signal, &keep, nullptr);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
#endif
}

void read(std::string bytes) {
  current = std::move(bytes);
  const itimerval most{{}, {kMostSeconds, 0}}, none{};
  setitimer(ITIMER_PROF, &most, nullptr);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  setitimer(ITIMER_PROF, &none, nullptr);
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// No distribution of the standard library: those differ between libraries.
class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t n = 1 + below(4); n > 0; --n) change(text);
    text.resize(std::min(text.size(), kLongestInput));
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& text) {
    static constexpr std::array<std::string_view, 28> kWords = {"0",
                                                                "-1",
                                                                "1",
                                                                "65536",
                                                                "4294967296",
                                                                "2147483648",
                                                                "9223372036854775807",
                                                                "-9223372036854775808",
                                                                "1e30",
                                                                "-0.5",
                                                                "1e-30",
                                                                "18446744073709551615",
                                                                "null",
                                                                "true",
                                                                "[]",
                                                                "{}",
                                                                "[[",
                                                                "\"\"",
                                                                "\"",
                                                                ",",
                                                                "\n",
                                                                "\\u0000",
                                                                "\xff",
                                                                "-",
                                                                "nan",
                                                                "1e308",
                                                                "9007199254740993",
                                                                "\xEF\xBB\xBF"};
    const std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(text.size() - at, 64) + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size() + 1), std::string(text, at, length));
        break;
      case 4: {
        const std::string& other = corpus_[below(corpus_.size())];
        text.insert(at, other, below(other.size() + 1), below(256));
        break;
      }
      case 5:
        if (below(8) == 0) text.resize(at);
        break;
      case 6:
        text.insert(at, kWords[below(kWords.size())]);
        break;
      default:
        replace_number(text, at, kWords[below(kWords.size())]);
    }
  }

  /// The first one from there on.
  static void replace_number(std::string& text, std::size_t at, std::string_view by) {
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    text.replace(begin, std::min(text.find_first_not_of("0123456789.", begin), text.size()) - begin, by);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{160};
};

}  // namespace

int main(int count, char** arguments) {
  LLVMFuzzerInitialize(&count, &arguments);
  fs::path corpus;
  double seconds = 0;
  std::size_t at_least = 0;
  guard();
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const auto value = [&](std::string_view option) { return argument.substr(option.size()); };
    if (argument.starts_with("--reader="))
      crash_file = "crash-" + std::string(value("--reader="));
    else if (argument.starts_with("--corpus="))
      corpus = value("--corpus=");
    else if (argument.starts_with("--seconds="))
      seconds = std::atof(arguments[i] + std::strlen("--seconds="));
    else if (argument.starts_with("--mutations="))
      at_least = static_cast<std::size_t>(std::atoll(arguments[i] + std::strlen("--mutations=")));
    else
      read(content(argument));
  }
  if (corpus.empty()) return 0;

  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(corpus)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const fs::path& file : files) inputs.push_back(content(file));
  if (inputs.empty()) {
    std::fprintf(stderr, "%s: no inputs\n", corpus.c_str());
    return 1;
  }
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  for (const std::string& input : inputs) read(input);
  Mutator mutator(inputs);
  std::size_t mutations = 0;
  for (; mutations < at_least || std::clock() < end; ++mutations) read(mutator.next());
  std::printf("%zu inputs and %zu mutations of them\n", inputs.size(), mutations);
}
