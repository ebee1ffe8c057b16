// The JSON Schemas: their text, which is built in, and their files, for editors.
#include <fmt/format.h>

#include "traces/embedded.h"
#include "traces/json/spelling.h"
#include "traces/json/trace_json.h"
#include "traces/model/error.h"

namespace corun {

using std::filesystem::path;

std::string_view schema(std::string_view name) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_schemas()) {
    const std::string_view short_name =
        file.name.substr(0, file.name.find('.'));  // "trace" of "trace.schema"
    if (short_name == name) return file.text;
    names.emplace_back(short_name);
  }
  throw InputError("", "", fmt::format("no schema {}{}", in_quotes(name), did_you_mean(name, names)),
                   fmt::format("use one of {}", list_names(names)));
}

std::string schema_from(const path& file, std::string_view name) {
  const path wanted = std::string(name) + ".schema.json";
  std::error_code ignored;
  path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  path found = folder.parent_path() / "share" / "corun" / "schema" / wanted;
  for (int up = 0; up < 4 && !std::filesystem::exists(found, ignored); ++up) {  // from build/asan/bin
    found = folder / "traces" / "schema" / wanted;
    folder = folder.parent_path();
  }
  if (!std::filesystem::exists(found, ignored)) return {};
  return std::filesystem::relative(found, std::filesystem::absolute(file).parent_path(), ignored).generic_string();
}

}  // namespace corun
