// Is each entry point that the installed cuda.h declares in the list of those that were looked at, and does the library do with each what
// the list says?
#include "hw/shim/driver_calls.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace corun::live {
namespace {

/// The symbols of what a header declares: its macros give names numbers and variants.  As driver_calls.py has it, which makes the list.
std::set<std::string> symbols_of(const std::string& header) {
  const std::size_t end = header.find("CUDA API versioning support");  // behind it names are symbols
  static const std::regex macro(R"(^[ \t]*#[ \t]*define[ \t]+(cu\w+)[ \t]+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu\w+)\)?[ \t]*$)", std::regex::multiline);
  static const std::regex declared(R"(CUresult\s+CUDAAPI\s+(cu\w+)\s*\()");
  std::map<std::string, std::vector<std::string>> of;
  const std::string first = header.substr(0, end), rest = end != std::string::npos ? header.substr(end) : "";
  for (std::sregex_iterator at(first.begin(), first.end(), macro), none; at != none; ++at) {
    std::vector<std::string> symbols{(*at)[3]};
    if ((*at)[2].matched) symbols.push_back(symbols[0] + ((*at)[2] == "PTDS" ? "_ptds" : "_ptsz"));
    of.try_emplace((*at)[1], symbols);
  }
  std::set<std::string> all;
  for (std::sregex_iterator at(first.begin(), first.end(), declared), none; at != none; ++at) {
    const auto named = of.find((*at)[1]);
    if (named == of.end())
      all.insert((*at)[1]);
    else
      all.insert(named->second.begin(), named->second.end());
  }
  for (std::sregex_iterator at(rest.begin(), rest.end(), declared), none; at != none; ++at) all.insert((*at)[1]);
  return all;
}

std::vector<std::string> not_listed(const std::string& header) {
  std::set<std::string> missing = symbols_of(header);
  for (const DriverCall& call : driver_calls()) missing.erase(std::string(call.symbol));
  return {missing.begin(), missing.end()};
}

TEST(DriverCalls, EachEntryPointOfTheInstalledHeaderIsListed) {
#ifndef CORUN_CUDA_H
  GTEST_SKIP() << "no cuda.h is installed";
#else
  std::ifstream in(CORUN_CUDA_H);
  const std::string header{std::istreambuf_iterator<char>(in), {}};
  EXPECT_GT(symbols_of(header).size(), 400u) << CORUN_CUDA_H;
  EXPECT_THAT(not_listed(header), testing::IsEmpty()) << "look at them, and add them by hw/shim/driver_calls.py";
  EXPECT_THAT(not_listed(header + "\nCUresult CUDAAPI cuLaunchTomorrow(CUfunction f);\n"), testing::ElementsAre("cuLaunchTomorrow"));
#endif
}

TEST(DriverCalls, ANewVersionAndANewVariantOfAnEntryPointAreFound) {
  EXPECT_THAT(not_listed("#define cuLaunchKernel __CUDA_API_PTSZ(cuLaunchKernel_v7)\nCUresult CUDAAPI cuLaunchKernel(CUfunction f);\n"),
              testing::ElementsAre("cuLaunchKernel_v7", "cuLaunchKernel_v7_ptsz"));
  EXPECT_THAT(not_listed("#define cuInit cuInit_v2\nCUresult CUDAAPI cuInit(unsigned flags);\n/* CUDA API versioning support */\nCUresult CUDAAPI "
                         "cuInit(unsigned flags);"),
              testing::ElementsAre("cuInit_v2"));
}

TEST(DriverCalls, TheLibraryAnswersForWhatIsSteeredOrCountedAndForNothingElse) {
#if !defined(CORUN_STEER) || !defined(CORUN_CUDA_H)
  GTEST_SKIP() << "the library is not built here";
#else
  // Calls that the header does not declare are not asked for.  Version numbers do not tell: 12.6 has calls that only the header of 12.8 declares.
  std::ifstream in(CORUN_CUDA_H);
  const std::set<std::string> declared = symbols_of({std::istreambuf_iterator<char>(in), {}});
  void* library = dlopen(CORUN_STEER, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const DriverCall& call : driver_calls()) {
    const bool there = dlsym(library, std::string(call.symbol).c_str()) != nullptr;
    if (call.is == Treatment::passed || declared.contains(std::string(call.symbol))) {
      EXPECT_EQ(there, call.is != Treatment::passed) << call.symbol;
    }
  }
#endif
}

std::string meant(std::string_view name, int version, bool of_thread = false) {
  const DriverCall* call = meant_by(name, version, of_thread);
  return call != nullptr ? std::string(call->symbol) : "none";
}

TEST(DriverCalls, AProgramMeansByANameWhatItsVersionOfCudaDid) {
  EXPECT_EQ(meant("cuMemcpyHtoD", 3019), "cuMemcpyHtoD");
  EXPECT_EQ(meant("cuMemcpyHtoD", 3020), "cuMemcpyHtoD_v2");
  EXPECT_EQ(meant("cuMemcpyHtoD", 6999, true), "cuMemcpyHtoD_v2");
  EXPECT_EQ(meant("cuMemcpyHtoD", 7000, true), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(meant("cuStreamBeginCapture", 10009), "cuStreamBeginCapture");
  EXPECT_EQ(meant("cuStreamBeginCapture", 10010), "cuStreamBeginCapture_v2");
  EXPECT_EQ(meant("cuStreamBeginCapture", 13000, true), "cuStreamBeginCapture_v2_ptsz");
  EXPECT_EQ(meant("cuStreamBeginCaptureToGraph", 12029), "none");
  EXPECT_EQ(meant("cuStreamBeginCaptureToGraph", 12030, true), "cuStreamBeginCaptureToGraph_ptsz");
  EXPECT_EQ(meant("cuCtxSynchronize", 12999), "cuCtxSynchronize");
  EXPECT_EQ(meant("cuCtxSynchronize", 13000), "cuCtxSynchronize_v2");
  EXPECT_EQ(meant("cuStreamWriteValue32", 11069), "cuStreamWriteValue32");
  EXPECT_EQ(meant("cuStreamWriteValue32", 11070), "cuStreamWriteValue32_v2");
  EXPECT_EQ(meant("cuGetProcAddress", 11990), "cuGetProcAddress");
  EXPECT_EQ(meant("cuGetProcAddress", 12000), "cuGetProcAddress_v2");
  EXPECT_EQ(meant("cuGraphInstantiate", 10000), "cuGraphInstantiate");
  EXPECT_EQ(meant("cuGraphInstantiate", 11999), "cuGraphInstantiate_v2");
  EXPECT_EQ(meant("cuGraphInstantiate", 12000), "cuGraphInstantiateWithFlags");
  EXPECT_EQ(meant("cuLaunchTomorrow", 13000), "none");
  EXPECT_EQ(meant("cuCheckpointProcessLock", 13000, true), "cuCheckpointProcessLock") << "there is no variant";
}

}  // namespace
}  // namespace corun::live
