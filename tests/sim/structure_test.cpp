// Can the simulator be read part by part?  Files and classes of sim/ stay small.  The reading of C++ here is
// rough: it knows the forms that this code has, and a form that it cannot read fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace corun {
namespace {

constexpr std::size_t kMostLines = 500, kMostMembers = 20;

std::string without_comments(const std::string& text) {
  static const std::regex comment(R"(//[^\n]*|"(\\.|[^"\\\n])*")");
  return std::regex_replace(text, comment, "");
}

/// From the bracket at `open` to behind its partner.
std::size_t behind(const std::string& text, std::size_t open, char opens, char closes) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == opens;
    depth -= text[i] == closes;
    if (depth == 0) return i + 1;
  }
  return text.size();
}

/// Of a statement of a class body, how many data members it declares.
std::size_t members_in(std::string statement) {
  static const std::regex access(R"(\b(public|private|protected)\s*:)");
  statement = std::regex_replace(statement, access, "");
  static const std::regex angle(R"(<[^<>]*>)");
  for (std::string shorter; (shorter = std::regex_replace(statement, angle, "")) != statement;)
    statement = shorter;
  static const std::regex other(R"(^\s*(using|typedef|friend|static|template|enum|return|class|struct)\b)");
  if (std::regex_search(statement, other) || statement.find_first_not_of(" \n\t") == std::string::npos)
    return 0;
  static const std::regex value(R"(=\s*[\w:]+\([^()]*\)|=[^,;]*)");
  const std::string names = std::regex_replace(statement, value, "");
  if (names.find('(') != std::string::npos || names.find("operator") != std::string::npos) return 0;
  return 1 + static_cast<std::size_t>(std::ranges::count(names, ','));
}

/// Data members of each class in `text`, by name; those of a nested struct that is a member itself count as
/// the outer one's.
void count_members(const std::string& text, std::map<std::string, std::size_t>& counts,
                   const std::string& outer = "") {
  static const std::regex head(R"(\b(class|struct)\s+(\w+)(\s+final)?(\s*:[^;{]*)?\s*\{)");
  std::smatch m;
  std::string rest = text;
  while (std::regex_search(rest, m, head)) {
    const std::string name = outer + m[2].str();
    const auto open = static_cast<std::size_t>(m.position() + m.length() - 1);
    const std::size_t end = behind(rest, open, '{', '}');
    std::string body = rest.substr(open + 1, end - open - 2);
    std::map<std::string, std::size_t> nested;
    count_members(body, nested, name + "::");
    counts.insert(nested.begin(), nested.end());
    // Bodies of functions and nested classes, and initialisers, are no statements of this class.
    std::size_t members = 0;
    std::string statement;
    for (std::size_t i = 0; i < body.size(); ++i) {
      if (body[i] == '{') {
        i = behind(body, i, '{', '}') - 1;
        std::smatch of;
        const std::string before = statement + "{";
        const std::size_t next = body.find_first_not_of(" \n\t", i + 1);
        const bool ends = next == std::string::npos || (body[next] != ';' && body[next] != ',');
        if (std::regex_search(before, of, head)) {
          const bool is_member = next != std::string::npos && body[next] != ';';
          if (is_member) {
            members += nested[name + "::" + of[2].str()];
            i = body.find(';', i);
          }
          statement.clear();
        } else if (ends) {
          statement.clear();  // a function
        }
        continue;
      }
      if (body[i] == ';') {
        members += members_in(statement);
        for (const auto& [inner, n] : nested) {  // a nested struct declared before, held as a member
          const std::string type = inner.substr(name.size() + 2);
          if (std::regex_search(statement, std::regex("^\\s*((public|private):)?\\s*" + type + "\\s+\\w+_\\s*$")))
            members += n - 1;
        }
        statement.clear();
        continue;
      }
      statement += body[i];
    }
    counts[name] = members;
    rest = rest.substr(end);
  }
}

std::map<std::string, std::size_t> members_of(const std::string& text) {
  std::map<std::string, std::size_t> counts;
  count_members(without_comments(text), counts);
  return counts;
}

template <class F>
void for_each_file(F&& f) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator("sim")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    f(entry.path().string(), text.str());
  }
}

TEST(Structure, NoFileOfTheSimulatorIsLongerThanFiveHundredLines) {
  for_each_file([](const std::string& path, const std::string& text) {
    EXPECT_LE(std::ranges::count(text, '\n'), kMostLines) << path;
  });
}

TEST(Structure, NoClassOfTheSimulatorHasMoreThanTwentyDataMembers) {
  std::size_t classes = 0;
  for_each_file([&](const std::string& path, const std::string& text) {
    for (const auto& [name, members] : members_of(text)) {
      ++classes;
      EXPECT_LE(members, kMostMembers) << name << " in " << path;
    }
  });
  EXPECT_GE(classes, 100u);
}

TEST(Structure, DataMembersAreCountedThroughNestedStructs) {
  const auto counts = members_of(R"(
class Outer : public Base {
 public:
  explicit Outer(int a) : a_(a) {}
  int f() const { return a_; }
  std::function<void(int, int)> g;   // one
  static constexpr int kNot = 1;
  using Not = int;

 private:
  struct Inner {
    int a = 0, b{};
    std::map<int, int> c;
  } inner_;                           // three
  struct Element { int x, y; };
  std::vector<Element> elements_;     // one
  struct Held { int p; double q = f(1, 2); };
  Held held_;                         // two
  int a_ = 0, b_ = 1;                 // two
};
struct Next { bool only = true; };
)");
  EXPECT_EQ(counts.at("Outer"), 9u);
  EXPECT_EQ(counts.at("Outer::Inner"), 3u);
  EXPECT_EQ(counts.at("Outer::Held"), 2u);
  EXPECT_EQ(counts.at("Next"), 1u);
}

}  // namespace
}  // namespace corun
