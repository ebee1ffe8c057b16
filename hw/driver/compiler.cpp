#include "hw/driver/compiler.h"

#include "traces/model/error.h"

#ifdef CORUN_WITH_CUDA

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace corun::hw {
namespace {

namespace files = std::filesystem;

std::uint64_t fnv(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

class Nvrtc final : public Compiler {
 public:
  Nvrtc(std::string architecture, std::string store)
      : architecture_(std::move(architecture)), store_(std::move(store)) {
    if (!store_.empty()) files::create_directories(store_);
  }

  std::string compile(const std::string& source, const std::string& file,
                      const std::vector<std::string>& options) override {
    std::vector<std::string> all{"-arch=" + architecture_, "-std=c++17", "-default-device", "-w"};
    all.insert(all.end(), options.begin(), options.end());
    const std::string text = fmt::format("{}\n{}\n{}", fmt::join(all, " "), CUDA_VERSION_TEXT, source);
    const files::path kept =
        files::path(store_) /
        fmt::format("{:016x}{:016x}.cubin", fnv(text, 0xcbf29ce484222325u), fnv(text, 0x9e3779b97f4a7c15u));
    if (!store_.empty())
      if (std::ifstream in(kept, std::ios::binary); in)
        return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::string code = compile_anew(source, file, all);
    if (!store_.empty()) {
      const files::path fresh = kept.string() + fmt::format(".{}", getpid());
      std::ofstream(fresh, std::ios::binary) << code;
      files::rename(fresh, kept);
    }
    return code;
  }

 private:
  static constexpr const char* CUDA_VERSION_TEXT = "nvrtc 1";

  void open() {
    if (library_ != nullptr) return;
    for (const char* name : {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12",
                             "/usr/local/cuda/lib64/libnvrtc.so", "libnvrtc.so"})
      if ((library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    if (library_ == nullptr)
      throw InputError("", "--backend=cuda", "NVIDIA's run-time compiler is not here (libnvrtc.so)",
                       "install the CUDA Toolkit's nvrtc, or put its folder into LD_LIBRARY_PATH");
    get(create_, "nvrtcCreateProgram");
    get(destroy_, "nvrtcDestroyProgram");
    get(compile_, "nvrtcCompileProgram");
    get(log_size_, "nvrtcGetProgramLogSize");
    get(log_, "nvrtcGetProgramLog");
    const bool ptx = architecture_.starts_with("compute_");
    get(code_size_, ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
    get(code_, ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
  }
  template <class F>
  void get(F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(library_, name));
    if (f == nullptr)
      throw InputError("", "--backend=cuda", fmt::format("the run-time compiler has no {}", name),
                       "use CUDA 12 or later");
  }

  std::string compile_anew(const std::string& source, const std::string& file,
                           const std::vector<std::string>& options) {
    open();
    nvrtcProgram program = nullptr;
    if (create_(&program, source.c_str(), file.c_str(), 0, nullptr, nullptr) != NVRTC_SUCCESS)
      throw InputError(file, "", "the run-time compiler cannot take it", "check the file");
    std::vector<const char*> arguments;
    for (const std::string& o : options) arguments.push_back(o.c_str());
    const nvrtcResult result = compile_(program, static_cast<int>(arguments.size()), arguments.data());
    std::size_t bytes = 0;
    std::string text;
    if (result != NVRTC_SUCCESS) {
      log_size_(program, &bytes);
      text.resize(bytes);
      log_(program, text.data());
      destroy_(&program);
      throw InputError(file, "", "it does not compile:\n" + text, "correct the source");
    }
    code_size_(program, &bytes);
    text.resize(bytes);
    code_(program, text.data());
    destroy_(&program);
    if (architecture_.starts_with("compute_") && text.ends_with('\0')) text.pop_back();
    return text;
  }

  std::string architecture_, store_;
  void* library_ = nullptr;
  decltype(&nvrtcCreateProgram) create_ = nullptr;
  decltype(&nvrtcDestroyProgram) destroy_ = nullptr;
  decltype(&nvrtcCompileProgram) compile_ = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size_ = nullptr;
  decltype(&nvrtcGetProgramLog) log_ = nullptr;
  decltype(&nvrtcGetCUBINSize) code_size_ = nullptr;
  decltype(&nvrtcGetCUBIN) code_ = nullptr;
};

}  // namespace

std::unique_ptr<Compiler> open_nvrtc(const std::string& architecture, const std::string& store) {
  return std::make_unique<Nvrtc>(architecture, store);
}

}  // namespace corun::hw

#else

namespace corun::hw {

std::unique_ptr<Compiler> open_nvrtc(const std::string&, const std::string&) {
  throw InputError("", "--backend=cuda", "this build has no CUDA backend",
                   "configure with -DCORUN_WITH_CUDA=ON where the CUDA Toolkit is installed");
}

}  // namespace corun::hw

#endif
