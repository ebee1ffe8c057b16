# The plain `clang++` of Debian 12 is version 14, which cannot compile <ranges> of libstdc++.
find_program(CORUN_CLANG NAMES clang++-19 clang++-18 clang++-17 clang++-16 clang++ REQUIRED)
set(CMAKE_CXX_COMPILER "${CORUN_CLANG}")
