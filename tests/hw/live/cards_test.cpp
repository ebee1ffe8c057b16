#include "hw/live/cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace corun::live {
namespace {

class Cards : public testing::Test {
 protected:
  Cards() {
    std::string name = (std::filesystem::temp_directory_path() / "corun-cards-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::filesystem::create_directory(folder_ / "dev");
    add("0000:c1:00.0", "NVIDIA H200", "GPU-22222222-aaaa", 1);
    add("0000:1B:00.0", "NVIDIA H200", "GPU-11111111-bbbb", 0);
    add("0000:0A:00.0", "NVIDIA H200", "GPU-00000000-cccc", 2);
    for (const char* here : {"nvidia0", "nvidia1"}) std::ofstream(folder_ / "dev" / here) << "\n";
  }
  ~Cards() override { std::filesystem::remove_all(folder_); }
  std::vector<Card> here() const { return cards(folder_ / "gpus", folder_ / "dev"); }
  void add(const std::string& bus, const std::string& model, const std::string& uuid, int minor) const {
    std::filesystem::create_directories(folder_ / "gpus" / bus);
    std::ofstream(folder_ / "gpus" / bus / "information") << "Model: \t\t " << model << "\nIRQ:   \t\t 38\nGPU UUID: \t " << uuid << "\nBus Location: \t " << bus << "\nDevice Minor: \t " << minor << "\n";
  }
  std::string first(const char* visible) const {
    const auto card = first_visible(here(), visible);
    return card ? card->bus : "none";
  }
  std::filesystem::path folder_;
};

TEST_F(Cards, AreInTheOrderOfTheirPlacesOnTheBusAndThoseThatAreNotForUsLeftOut) {
  const std::vector<Card> all = here();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].bus, "0000:1B:00.0");
  EXPECT_EQ(all[0].model, "NVIDIA H200");
  EXPECT_EQ(all[0].uuid, "GPU-11111111-bbbb");
  EXPECT_THAT(cards(folder_ / "none"), testing::IsEmpty());
}

TEST_F(Cards, TheFirstThatAProgramSeesIsOfANumberOrOfTheBeginningOfAName) {
  EXPECT_EQ(first(nullptr), "0000:1B:00.0");
  EXPECT_EQ(first("1"), "0000:c1:00.0");
  EXPECT_EQ(first("1,0"), "0000:c1:00.0");
  EXPECT_EQ(first("GPU-2222"), "0000:c1:00.0");
  for (const char* nothing : {"", "-1", "2", "GPU-3", "NoDevFiles", "1x"}) EXPECT_EQ(first(nothing), "none") << nothing;
}

TEST_F(Cards, APlaceIsTheSameHoweverItIsWritten) {
  EXPECT_TRUE(same_place("00000000:1B:00.0", "0000:1b:00.0"));
  EXPECT_TRUE(same_place("1b:00.0", "0000:1B:00.0"));
  EXPECT_FALSE(same_place("0000:1b:00.0", "0000:1b:00.1"));
  EXPECT_FALSE(same_place("0001:1b:00.0", "0000:1b:00.0"));
  EXPECT_FALSE(same_place("00010001:1b:00.0", "0000:1b:00.0"));
}

}  // namespace
}  // namespace corun::live
