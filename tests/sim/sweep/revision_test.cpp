// Does the revision of results change with the results?
#include <gtest/gtest.h>

#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/sweep/sweep.h"

namespace corun::sim {
namespace {

TEST(Revision, IsRaisedWhenTheGoldenSummariesChange) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden"))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  ASSERT_EQ(files.size(), 5u);
  std::ostringstream all;
  for (const auto& file : files) all << std::ifstream(file, std::ios::binary).rdbuf();
  const auto digest = boost::uuids::to_string(boost::uuids::name_generator_sha1(boost::uuids::ns::oid())(all.str()));
  EXPECT_EQ(std::make_pair(kResultsRevision, digest), std::make_pair(13, std::string("b94dcc2c-f6ea-5c96-b5cb-e7dc9a180637")))
      << "results have changed: raise kResultsRevision in sim/sweep/sweep.h, or known points of sweeps stay as they "
         "were; then write the pair here";
}

}  // namespace
}  // namespace corun::sim
