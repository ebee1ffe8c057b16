set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# Fused multiply-adds round differently: without this, gcc and clang would not write the same bytes.
add_compile_options(-ffp-contract=off)
# Every x86-64 machine since 2009 counts and finds bits with one instruction.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_compile_options(-march=x86-64-v2)
endif()
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion
                    -Wno-sign-conversion)
# Of a precompiled header, g++ 12 forgets that it is the system's, and finds fault with std::string inlined.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# By default g++ collects its garbage from 128 MB on, which is a tenth of the time of a unit that takes 500 MB to 1 GB.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")  # KB
endif()

# The libraries also go into the Python module. What is hidden costs nothing there: no call through a table, and
# functions are inlined as without -fPIC.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CORUN_SANITIZE "" CACHE STRING "Sanitizers to build with: address, thread, undefined")
if(CORUN_SANITIZE)
  # -g1 has the lines that a report names.  A unit of the model takes 5.8 s so, with -O1 8.3, with -O1 -g 13.9.
  set(CMAKE_CXX_FLAGS_SANITIZED "-Og -g1 -fno-omit-frame-pointer")
  add_compile_options(-fsanitize=${CORUN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CORUN_SANITIZE})
endif()
option(CORUN_FUZZ "Link tests/fuzz with libFuzzer (clang), which sees what code an input reaches" OFF)
if(CORUN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

option(CORUN_CHECKED_STDLIB "Check preconditions of the standard library" OFF)
if(CORUN_CHECKED_STDLIB)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release)
  endif()

  find_program(CORUN_CCACHE ccache)
  if(NOT CORUN_CCACHE)
    corun_left_out("a compiler cache; ccache is not here")
  endif()
  if(CORUN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Objects made with a precompiled header are kept only by permission. Paths below the build folder count from
    # there, so that `pip install .` finds what `make test` compiled. What a unit includes is known from the compiler
    # (CCACHE_DEPEND) and not from a run of the preprocessor before it.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env CCACHE_BASEDIR=${CMAKE_BINARY_DIR} CCACHE_DEPEND=1
        CCACHE_SLOPPINESS=pch_defines,time_macros "${CORUN_CCACHE}")
  endif()

  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold CORUN_HAS_MOLD)
  if(CORUN_HAS_MOLD)
    add_link_options(-fuse-ld=mold)
  else()
    corun_left_out("the faster linker; mold is not here, or not for this compiler")
  endif()
endif()
