// What do files that the command writes say of their schema?
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/in_folder.h"
#include "tests/support/sim_command.h"
#include "tests/support/sim_file.h"

namespace corun {
namespace {

namespace files = std::filesystem;

class WrittenFiles : public InFolder {
 protected:
  void SetUp() override {
    recording_ = write("recording.json", R"([{"name": "k", "ts": 1, "dur": 5, "grid": [8, 1, 1], "block": [128, 1, 1]}])");
  }
  /// The command, as it would stand in that folder.
  std::string command_in(const files::path& folder) const {
    files::create_directories(folder_ / folder);
    files::copy_file(sim_file(), folder_ / folder / "sim", files::copy_options::overwrite_existing);
    return (folder_ / folder / "sim").string();
  }
  void put_schemas(const files::path& folder) const {
    files::create_directories(folder_ / folder);
    for (const char* name : {"trace.schema.json", "profile.schema.json"})
      files::copy_file(files::path("traces/schema") / name, folder_ / folder / name);
  }
  /// "$schema" of what was written to `to`; empty: it has none.
  std::string schema_of(const std::string& command, const files::path& to) const {
    files::create_directories((folder_ / to).parent_path());
    const Ran ran = shell(command + " -o " + (folder_ / to).string());
    EXPECT_EQ(ran.code, 0) << ran.out;
    const nlohmann::json written = nlohmann::json::parse(std::ifstream(folder_ / to));
    return written.value("$schema", "");
  }
  std::string import(const std::string& sim) const { return sim + " import kineto " + recording_.string() + " --gpu h200"; }

  files::path recording_;
};

TEST_F(WrittenFiles, TheSchemaIsThatOfTheInstallationOrOfTheSourceTree) {
  const std::string installed = command_in("usr/bin"), built = command_in("tree/build/asan/bin");
  put_schemas("usr/share/corun/schema");
  put_schemas("tree/traces/schema");
  EXPECT_EQ(schema_of(import(installed), "t.json"), "usr/share/corun/schema/trace.schema.json");
  EXPECT_EQ(schema_of(import(built), "t.json"), "tree/traces/schema/trace.schema.json");
  EXPECT_EQ(schema_of(import(built), "tree/my/t.json"), "../traces/schema/trace.schema.json");
  const std::string profile = installed + " profile " + (folder_ / "t.json").string();
  EXPECT_EQ(schema_of(profile, "far/away/p.json"), "../../usr/share/corun/schema/profile.schema.json");
}

TEST_F(WrittenFiles, WithoutASchemaOnThisDiskTheKeyIsLeftOut) {
  EXPECT_EQ(schema_of(import(command_in("alone")), "t.json"), "");
  EXPECT_EQ(sim((folder_ / "t.json").string()).code, 0) << "it is read as with it";
}

TEST_F(WrittenFiles, StandardOutputHasNoPlaceAndKeepsTheName) {
  EXPECT_NE(shell(import("$CORUN_SIM") + " 2>/dev/null").out.find(R"("$schema": "trace.schema.json")"), std::string::npos);
}

}  // namespace
}  // namespace corun
