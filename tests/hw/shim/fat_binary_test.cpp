// Is PTX found in fat binaries in each way that nvcc compresses it, and is what is broken left alone?
#include "hw/shim/fat_binary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <lz4.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "hw/shim/decompress.h"

namespace corun::live {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string content(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::string made_by_nvcc(const std::string& mode) {
  return content("tests/data/fat_binaries/" + mode + ".fatbin");
}

/// Overwrites a field of the first entry, whose head begins behind the fat binary's.
template <class T>
std::string with(std::string fat, std::size_t offset, T value) {
  std::memcpy(fat.data() + 16 + offset, &value, sizeof value);
  return fat;
}
template <class T>
T field(const std::string& fat, std::size_t offset) {
  T value;
  std::memcpy(&value, fat.data() + 16 + offset, sizeof value);
  return value;
}
constexpr std::size_t kCompressedBytes = 16, kFlags = 40, kWholeBytes = 56;

/// Of the committed ones: with PTX of one architecture alone, the first.
std::string of_one(const std::string& mode) {
  std::string fat = made_by_nvcc(mode);
  const std::uint64_t bytes = field<std::uint32_t>(fat, 4) + field<std::uint64_t>(fat, 8);
  std::memcpy(fat.data() + 8, &bytes, sizeof bytes);
  fat.resize(16 + bytes);
  return fat;
}

class EachMode : public testing::TestWithParam<const char*> {};

TEST_P(EachMode, IsReadAsWhatIsNotCompressed) {
  const std::string fat = made_by_nvcc(GetParam());
  for (std::uint32_t architecture : {80u, 86u, 89u, 90u, 120u}) {
    const Ptx whole = read_ptx(made_by_nvcc("none"), architecture), image = read_ptx(fat, architecture);
    EXPECT_EQ(image.text, whole.text) << architecture;
    EXPECT_FALSE(image.unreadable);
    EXPECT_THAT(image.text, HasSubstr(architecture < 90 ? ".target sm_80" : ".target sm_90"));
    EXPECT_THAT(image.text, HasSubstr(".entry scaled("));
    EXPECT_EQ(fat_binary_of(fat.data()), fat);
    EXPECT_TRUE(has_ptx(fat, architecture));
  }
  EXPECT_FALSE(has_ptx(fat, 75));
  const Ptx older = read_ptx(fat, 75);
  EXPECT_EQ(older.text, "");
  EXPECT_FALSE(older.unreadable) << "none of it is for that";
}

TEST_P(EachMode, IsReadWithinItsBounds) {
  const std::string fat = of_one(GetParam());
  const std::string whole = read_ptx(fat, 90).text;
  ASSERT_NE(whole, "");
  for (std::size_t bytes = 0; bytes < fat.size(); ++bytes) {
    const std::string cut(fat, 0, bytes);  // of its own, so that a sanitizer sees what is read behind it
    EXPECT_EQ(read_ptx(cut, 90).text, "") << bytes;
  }
}

TEST_P(EachMode, WithAWrongSizeOrMethodIsLeftAlone) {
  const std::string fat = of_one(GetParam());
  const auto whole = field<std::uint64_t>(fat, kWholeBytes), flags = field<std::uint64_t>(fat, kFlags);
  const auto compressed = field<std::uint32_t>(fat, kCompressedBytes);
  const auto refused = [](const std::string& broken) {
    const Ptx image = read_ptx(broken, 90);
    return image.text.empty() && image.unreadable;
  };
  EXPECT_FALSE(refused(fat));
  for (std::uint64_t wrong : {std::uint64_t{0}, whole - 1, whole + 1, whole * 256, std::uint64_t{1} << 31, ~std::uint64_t{0}})
    EXPECT_TRUE(refused(with(fat, kWholeBytes, wrong))) << wrong;
  for (std::uint32_t wrong : {0u, 1u, compressed - 1, compressed + 8, ~0u})
    EXPECT_TRUE(refused(with(fat, kCompressedBytes, wrong))) << wrong;
  for (std::uint64_t wrong : {flags & ~0xa000u, flags | 0xa000u, flags ^ 0xa000u, (flags & ~0xa000u) | 0x1000u})
    EXPECT_TRUE(refused(with(fat, kFlags, wrong))) << fmt::format("{:#x}", wrong);
}

TEST_P(EachMode, BrokenIsReadOrRefused) {
  const std::string fat = made_by_nvcc(GetParam());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string broken = fat;
    for (unsigned n = 1 + random() % 4; n > 0; --n) broken[16 + random() % (broken.size() - 16)] = static_cast<char>(random());
    const Ptx image = read_ptx(broken, 90);
    refused += image.text.empty() && image.unreadable;
  }
  EXPECT_GT(refused, 0);
}
INSTANTIATE_TEST_SUITE_P(OfNvcc, EachMode, testing::Values("speed", "balance", "size"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(FatBinary, OlderPtxIsTakenWhereTheNewestIsBroken) {
  std::string fat = made_by_nvcc("balance");
  fat[fat.size() - 100] ^= 1;  // of the second entry, for 90
  const Ptx image = read_ptx(fat, 90);
  EXPECT_THAT(image.text, HasSubstr(".target sm_80"));
  EXPECT_FALSE(image.unreadable);
}

TEST(FatBinary, PtxAsTextIsReadAndWhatIsNoneIsNot) {
  EXPECT_THAT(text_of("// made by hand\n.version 8.0\n"), StartsWith("// made"));
  EXPECT_EQ(text_of("something else"), "");
  EXPECT_EQ(text_of(nullptr), "");
}

TEST(Decompressed, IsWhatWasCompressedOfAnySize) {
  std::mt19937 random(2);
  for (std::size_t bytes : {1u, 2u, 15u, 255u, 256u, 4096u, 100'000u, 3'000'000u}) {
    std::string whole(bytes, '\0');
    for (char& c : whole) c = static_cast<char>(random() % 4 + (bytes % 2 == 0 ? 0 : random() % 64));
    std::string lz4(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes))), '\0'), zstandard(ZSTD_compressBound(bytes), '\0');
    lz4.resize(static_cast<std::size_t>(LZ4_compress_default(whole.data(), lz4.data(), static_cast<int>(bytes), static_cast<int>(lz4.size()))));
    zstandard.resize(ZSTD_compress(zstandard.data(), zstandard.size(), whole.data(), bytes, 3));
    EXPECT_EQ(decompress(lz4, 0x2011, bytes), whole) << bytes;
    EXPECT_EQ(decompress(zstandard, 0x8011, bytes), whole) << bytes;
    EXPECT_EQ(decompress(lz4, 0x8011, bytes), std::nullopt) << bytes;
    EXPECT_EQ(decompress(zstandard, 0x8011, bytes + 1), std::nullopt) << bytes;
  }
}

TEST(Decompressed, TextAbove256MibIsRefusedBeforeThereIsMemoryForIt) {
  constexpr std::size_t kMost = 256u << 20;
  const std::string zeros(kMost + 1, '\0');
  for (std::size_t bytes : {kMost, kMost + 1}) {
    std::string zstandard(ZSTD_compressBound(bytes), '\0');
    zstandard.resize(ZSTD_compress(zstandard.data(), zstandard.size(), zeros.data(), bytes, 1));
    EXPECT_EQ(decompress(zstandard, 0x8000, bytes).has_value(), bytes == kMost) << bytes;
  }
  // A byte of LZ4 becomes 255 at most.
  EXPECT_EQ(decompress(std::string(1000, '\xff'), 0x2000, 255'001), std::nullopt);
}

TEST(FatBinary, OfTheNvccThatIsInstalledIsReadInEachMode) {
  std::string nvcc;
  for (const char* name : {"nvcc", "/usr/local/cuda/bin/nvcc"})
    if (nvcc.empty() && std::system(fmt::format("{} --version >/dev/null 2>&1", name).c_str()) == 0) nvcc = name;
  if (nvcc.empty()) GTEST_SKIP() << "no nvcc";
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "fat_binary_of_nvcc";
  std::filesystem::create_directories(folder);
  const auto make = [&](const std::string& how) {
    const std::filesystem::path file = folder / "made.fatbin";
    std::filesystem::remove(file);
    const std::string command = fmt::format("{} -fatbin -arch=compute_80 -code=compute_80 {} -o {} tests/data/fat_binaries/kernels.cu >{} 2>&1",
                                            nvcc, how, file.string(), (folder / "log").string());
    return std::system(command.c_str()) == 0 ? content(file) : std::string();
  };
  const std::string whole = read_ptx(make("-Xfatbin -compress=false"), 90).text;
  EXPECT_THAT(whole, HasSubstr(".entry scaled("));
  EXPECT_EQ(read_ptx(make(""), 90).text, whole);
  EXPECT_EQ(read_ptx(make("-Xfatbin -compress-all"), 90).text, whole);
  for (const char* mode : {"default", "size", "speed", "balance", "none"}) {
    const std::string fat = make(fmt::format("--compress-mode={}", mode));
    if (fat.empty()) continue;  // older ones have no modes
    EXPECT_EQ(read_ptx(fat, 90).text, whole) << mode;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace corun::live
