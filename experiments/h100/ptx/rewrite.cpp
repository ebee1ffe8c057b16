// rewrite FOLDER FILE...: which kernels of these PTX files are accepted; their persistent modules are written into the folder.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "hw/transform/ptx.h"

using namespace corun::hw;

int main(int arguments, char** argument) {
  for (int i = 2; i < arguments; ++i) {
    std::ifstream in(argument[i]);
    std::stringstream text;
    text << in.rdbuf();
    const ParsedPtx parsed = parse_ptx(text.str());
    if (!parsed.problem.empty()) std::printf("%s: %s\n", argument[i], parsed.problem.c_str());
    for (const PtxFunction& f : parsed.module.functions) {
      if (!f.entry) continue;
      const std::string name(f.name);
      const PersistentPtx made = make_persistent(parsed.module, name);
      std::printf("%-40.40s %s%s%s%s\n", name.c_str(), made.refused.empty() ? "ok" : made.refused.c_str(),
                  made.shared ? " shared" : "", made.serve ? " serve" : "",
                  made.by_warps_along_x ? " along_x" : "");
      if (made.refused.empty()) std::ofstream(std::string(argument[1]) + "/" + name + ".ptx") << made.text;
    }
  }
}
