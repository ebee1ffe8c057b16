# The plain `clang++` of Debian 12 is version 14, which cannot compile <ranges> of libstdc++.
find_program(CORUN_CLANG NAMES clang++-19 clang++-18 clang++-17 clang++-16 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER "${CORUN_CLANG}")
execute_process(COMMAND "${CORUN_CLANG}" -dumpversion OUTPUT_VARIABLE clang_version OUTPUT_STRIP_TRAILING_WHITESPACE)
if(clang_version VERSION_LESS 16)
  message(FATAL_ERROR "${CORUN_CLANG} is version ${clang_version}: clang 16 or newer is needed: packaging/install.sh packaging/apt-clang.txt")
endif()
