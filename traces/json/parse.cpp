#include "traces/json/parse.h"

#include <fmt/format.h>

#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "traces/json/spelling.h"
#include "traces/model/error.h"

namespace corun {
namespace {

using nlohmann::json;

/// Where the parser is in the text.
class Cursor {
 public:
  Cursor(std::streambuf& text, const std::string& file, std::uint64_t most_bytes)
      : text_(text), file_(file), most_bytes_(most_bytes) {}

  std::streambuf::int_type peek() { return text_.sgetc(); }
  void advance() {
    const auto c = text_.sbumpc();
    if (++bytes_ > most_bytes_)
      throw InputError(file_, place(), fmt::format("the document is larger than {} GiB", most_bytes_ >> 30),
                       "split it, or leave out what is not needed");
    if (c == '\n') {
      ++line_;
      column_ = 0;
    } else {
      ++column_;
    }
  }
  /// Also notes that the parser has asked for more than there is.
  bool at_end() {
    if (peek() != std::streambuf::traits_type::eof()) return false;
    has_met_end_ = true;
    return true;
  }
  bool has_met_end() const { return has_met_end_; }
  std::string place() const { return fmt::format("line {}, column {}", line_, column_); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::streambuf& text_;
  const std::string& file_;
  std::uint64_t most_bytes_;
  std::uint64_t line_ = 1, column_ = 0, bytes_ = 0;
  bool has_met_end_ = false;
};

/// What the parser reads from: an iterator that moves the cursor, or (without one) the end of the text.
class CursorIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  CursorIterator() = default;
  explicit CursorIterator(Cursor& cursor) : cursor_(&cursor) {}
  char operator*() const { return std::char_traits<char>::to_char_type(cursor_->peek()); }
  CursorIterator& operator++() {
    cursor_->advance();
    return *this;
  }
  CursorIterator operator++(int) {
    CursorIterator before = *this;
    cursor_->advance();
    return before;
  }
  bool operator==(const CursorIterator& other) const { return at_end() == other.at_end(); }

 private:
  bool at_end() const { return cursor_ == nullptr || cursor_->at_end(); }
  Cursor* cursor_ = nullptr;
};

/// Takes the parser's events and builds the document.
class DocumentBuilder {
 public:
  DocumentBuilder(const Cursor& cursor, const std::string& file, const TakeElement& take)
      : cursor_(cursor), file_(file), take_(take) {}

  json take() { return std::move(root_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(json::number_integer_t value) { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) {
    if (value > static_cast<json::number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return add(static_cast<double>(value));
    return add(value);
  }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // cannot occur in text

  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [member, is_new] = members.try_emplace(std::move(name));
    slot_ = &member->second;
    keys_.back() = &member->first;
    if (!is_new && !take_)
      throw InputError(file_, pointer(),
                       fmt::format("duplicate key {} ({})", in_quotes(member->first), cursor_.place()),
                       "keep one of the two");
    return true;
  }

  bool parse_error(std::size_t, const std::string& token, const json::exception& error) {
    if (cursor_.bytes() == 0)
      throw InputError(file_, "", "the file is empty; expected a JSON document", "write or copy it again");
    throw InputError(file_, cursor_.place(), problem(error.what(), token), remedy(error.what(), token));
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }

  template <class Value>
  json* place(Value&& value) {
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    if (open_.back()->is_object()) {
      *slot_ = std::forward<Value>(value);
      return slot_;
    }
    auto& items = open_.back()->get_ref<json::array_t&>();
    return &items.emplace_back(std::forward<Value>(value));
  }

  bool open(json empty) {
    if (open_.size() == kMaxNesting)
      throw InputError(file_, cursor_.place(), fmt::format("nested deeper than {} levels", kMaxNesting),
                       "this is no trace or GPU description; check which file it is");
    open_.push_back(place(std::move(empty)));
    keys_.push_back(nullptr);
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    if (take_ && !open_.empty() && open_.back()->is_array()) {
      auto& items = open_.back()->get_ref<json::array_t&>();
      if (take_(keys(), items.back())) items.pop_back();
    }
    return true;
  }

  std::string keys() const {
    std::string all;
    for (const std::string* key : keys_)
      if (key != nullptr) all += (all.empty() ? "" : "/") + *key;
    return all;
  }

  std::string pointer() const {
    json::json_pointer at;
    for (std::size_t level = 0; level < open_.size(); ++level) {
      if (keys_[level] != nullptr)
        at /= *keys_[level];
      else
        at /= open_[level]->size() - 1;
    }
    return printable(at.to_string(), 300);
  }

  static std::string problem(std::string_view what, const std::string& token) {
    // "[json.exception.N] parse error at line 1, column 2: syntax error while ... - ...; last read: '...';
    // expected ..."
    const auto after = [&](std::string_view mark) {
      if (const auto at = what.find(mark); at != what.npos) what.remove_prefix(at + mark.size());
    };
    after("] ");
    if (what.starts_with("parse error at")) after(": ");
    std::string text(what);
    const std::string last_read = "'" + token + "'";  // as long as the token, which may be the whole file
    if (const auto at = text.find(last_read); at != text.npos)
      text.replace(at, last_read.size(), in_quotes(token));
    return "not valid JSON: " + printable(text, 300);
  }

  /// `read`: the end of what the parser has read.
  std::string remedy(std::string_view what, std::string_view read) const {
    const auto has = [&](std::string_view part) { return what.find(part) != what.npos; };
    const std::string_view word = read.substr(read.find_last_of(" \t\r\n:,[{\"") + 1);
    if (has("number overflow")) return "write a number below 1.8e308; times end at 8.64e15 ns (100 days)";
    if (has("ill-formed UTF-8") || has("invalid BOM")) return "save the file as UTF-8";
    if (cursor_.has_met_end())
      return "the text ends too early: the file may be cut short; write or copy it again";
    for (std::string_view not_a_number : {"NaN", "nan", "Infinity", "-Infinity", "infinity", "-infinity"})
      if (!word.empty() && not_a_number.starts_with(word))
        return "JSON has no NaN or Infinity: write a number, or leave the key out";
    if (word.starts_with("/") || word.starts_with("#"))
      return "JSON has no comments: remove them (`about` takes free text)";
    if (word.starts_with("'")) return "JSON strings stand in double quotes";
    return "correct the text there (`python3 -m json.tool FILE` checks it, too)";
  }

  const Cursor& cursor_;
  const std::string& file_;
  const TakeElement& take_;
  json root_;
  std::vector<json*> open_;               // arrays and objects around the current value, outermost first
  std::vector<const std::string*> keys_;  // for each of them the current key; null in arrays
  json* slot_ = nullptr;                  // where the current key's value goes
};

}  // namespace

json parse_json(std::istream& text, const std::string& file) { return parse_json(text, file, {}); }

json parse_json(std::istream& text, const std::string& file, const TakeElement& take, std::uint64_t most_bytes) {
  Cursor cursor(*text.rdbuf(), file, most_bytes);
  DocumentBuilder document(cursor, file, take);
  json::sax_parse(CursorIterator(cursor), CursorIterator(), &document);
  return document.take();
}

}  // namespace corun
