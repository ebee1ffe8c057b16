// A test that has a folder of its own, for the files that it writes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "traces/json/temporary_folder.h"

namespace corun {

class InFolder : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

 private:
  TemporaryFolder own_{"test"};

 protected:
  const std::filesystem::path folder_ = own_.path();
};

}  // namespace corun
