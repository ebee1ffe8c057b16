#include "hw/capture/lines.h"

#include <unistd.h>

#include <cstdlib>

namespace corun::capture {

void Output::write(Line& line) {
  const std::scoped_lock lock(mutex_);
  if (process_ != getpid()) {  // also in the child of a fork
    const char* folder = std::getenv("CORUN_CAPTURE");
    process_ = getpid();
    file_ = folder == nullptr ? nullptr : std::fopen((std::string(folder) + '/' + std::to_string(process_) + ".jsonl").c_str(), "we");
    if (file_ != nullptr) {
      char name[256] = "";
      if (std::FILE* of = std::fopen("/proc/self/comm", "re")) {
        if (std::fgets(name, sizeof name, of) == nullptr) name[0] = '\0';
        std::fclose(of);
      }
      for (char& c : name)
        if (c == '\n') c = '\0';
      Line head('p');
      head.add(1).add(process_).add_text(name);
      std::fputs(head.text().c_str(), file_);
    }
  }
  if (file_ != nullptr) std::fputs(line.text().c_str(), file_);
}

void Output::flush() {
  const std::scoped_lock lock(mutex_);
  if (file_ != nullptr) std::fflush(file_);
}

void Output::close() {
  const std::scoped_lock lock(mutex_);
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
  process_ = 0;
}

Output& output() {
  static Output* all = new Output;  // outlives the program's own destructors
  return *all;
}

}  // namespace corun::capture
