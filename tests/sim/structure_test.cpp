// Can the code be read part by part?  Files stay small, and so do classes of sim/.  The reading of C++ here is
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

/// How many a class declares, and the names of its bases.
struct Counted {
  std::size_t members = 0;
  std::vector<std::string> bases;
};
using Classes = std::map<std::string, Counted>;

std::vector<std::string> bases_in(const std::string& list) {
  static const std::regex base(R"((\w+)\s*(<[^<>]*>)?\s*(,|$))");
  std::vector<std::string> names;
  for (std::sregex_iterator it(list.begin(), list.end(), base), end; it != end; ++it) names.push_back((*it)[1]);
  return names;
}

/// Of each class in `text`, by name.  Members of a nested struct that is a member itself, also in an array or as what
/// may be missing, count as the outer one's.
void count_members(const std::string& text, Classes& counts, const std::string& outer = "") {
  static const std::regex head(R"((\benum\s+)?\b(class|struct)\s+(\w+)(\s+final)?\s*(:[^;{]*)?\s*\{)");
  std::smatch m;
  std::string rest = text;
  while (std::regex_search(rest, m, head)) {
    const std::string name = outer + m[3].str();
    const auto open = static_cast<std::size_t>(m.position() + m.length() - 1);
    const std::size_t end = behind(rest, open, '{', '}');
    std::string body = rest.substr(open + 1, end - open - 2);
    if (m[1].matched) {
      rest = rest.substr(end);
      continue;
    }
    Classes nested;
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
            members += of[1].matched ? 1 : nested[name + "::" + of[3].str()].members;
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
        for (const auto& [inner, n] : nested) {  // declared before, held as a member
          const std::string type = inner.substr(name.size() + 2);
          const std::regex held("^\\s*((public|private):)?\\s*(mutable\\s+)?(std::(array|optional)<\\s*)?" + type +
                                "\\s*(,[^<>]*)?>?\\s+\\w+\\s*(=.*)?$");
          if (std::regex_search(statement, held)) members += n.members - 1;
        }
        statement.clear();
        continue;
      }
      statement += body[i];
    }
    counts[name] = {members, bases_in(m[5].str())};
    rest = rest.substr(end);
  }
}

Classes classes_of(const std::string& text) {
  Classes counts;
  count_members(without_comments(text), counts);
  return counts;
}

/// With those of its bases, as far as they are among `all`.  Not of one of the same name, which is another library's.
std::size_t members_of(const std::string& name, const Counted& of, const Classes& all) {
  std::size_t members = of.members;
  for (const std::string& base : of.bases)
    if (const auto found = all.find(base); found != all.end() && base != name)
      members += members_of(base, found->second, all);
  return members;
}

template <class F>
void for_each_file(F&& f, const char* folder = "sim") {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    std::ifstream file(entry.path());
    std::ostringstream text;
    text << file.rdbuf();
    f(entry.path().string(), text.str());
  }
}

TEST(Structure, NoFileIsLongerThanFiveHundredLines) {
  for (const char* folder : {"hw", "policies", "sim", "traces"}) {
    std::size_t files = 0;
    const auto is_short = [&](const std::string& path, const std::string& text) {
      ++files;
      EXPECT_LE(std::ranges::count(text, '\n'), kMostLines) << path;
    };
    for_each_file(is_short, folder);
    EXPECT_GE(files, 10u) << folder;
  }
}

TEST(Structure, NoClassOfTheSimulatorHasMoreThanTwentyDataMembers) {
  Classes all;  // bases may be in another file
  for (const char* folder : {"sim", "policies", "traces"})
    for_each_file([&](const std::string&, const std::string& text) { all.merge(classes_of(text)); }, folder);
  for_each_file([&](const std::string& path, const std::string& text) {
    for (const auto& [name, of] : classes_of(text))
      EXPECT_LE(members_of(name, of, all), kMostMembers) << name << " in " << path;
  });
  EXPECT_GE(all.size(), 100u);
}

TEST(Structure, DataMembersAreCountedThroughNestedStructsAndBases) {
  const Classes counts = classes_of(R"(
struct Grand { int a; };
class Base : Grand, std::vector<int> {
  int b_, c_;                         // and that of Grand
};
class Outer : public Base, private Next {
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
  std::optional<Held> maybe_;         // two
  std::array<Held, 3> three_{};       // two
  enum class Kind : std::uint8_t { p, q } kind_ = Kind::p;  // one
  enum class Other { r, s };
  int a_ = 0, b_ = 1;                 // two
};
struct Next { bool only = true; };
)");
  EXPECT_EQ(counts.at("Outer").members, 14u);
  EXPECT_EQ(counts.at("Outer::Inner").members, 3u);
  EXPECT_EQ(counts.at("Outer::Held").members, 2u);
  EXPECT_EQ(counts.at("Next").members, 1u);
  EXPECT_EQ(members_of("Base", counts.at("Base"), counts), 3u);
  EXPECT_EQ(members_of("Outer", counts.at("Outer"), counts), 14u + 3u + 1u);
}

}  // namespace
}  // namespace corun
