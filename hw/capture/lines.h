// A process' file of a capture, a line of JSON each: an array that begins with the kind of record.  From any thread.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace corun::capture {

class Line {
 public:
  explicit Line(char kind) : text_{'[', '"', kind, '"'} {}

  template <std::integral T>
  Line& add(T value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_ += ',';
    text_.append(digits, end);
    return *this;
  }
  Line& add_text(const char* text) {
    text_ += ",\"";
    for (; *text != '\0'; ++text) {
      const auto c = static_cast<unsigned char>(*text);
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c < 0x20 ? ' ' : *text;
    }
    text_ += '"';
    return *this;
  }
  const std::string& text() {
    if (text_.back() != '\n') text_ += "]\n";
    return text_;
  }

 private:
  std::string text_;
};

/// CORUN_CAPTURE/PID.jsonl; made by the first line.
class Output {
 public:
  void write(Line& line);
  void flush();
  void close();

 private:
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  int process_ = 0;
};

Output& output();


}  // namespace corun::capture
