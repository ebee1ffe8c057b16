# Sources of a module: everything below the current folder except tests and benchmarks.
# corun_sources(<variable> [<excluded folder>...])
function(corun_sources variable)
  file(GLOB_RECURSE sources RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS *.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cpp$")
  foreach(folder IN LISTS ARGN)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

# Compiles the files as one, so that what they all include is read once and what they all instantiate, above all
# of nlohmann/json, is compiled once. Not for what people add to, as policies: an unnamed namespace is then one.
# corun_compile_together(<target> <group> <file or pattern>...)
option(CORUN_COMPILE_TOGETHER "Compile some files of a folder as one: faster from nothing" ON)
function(corun_compile_together target group)
  if(NOT CORUN_COMPILE_TOGETHER)
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${files} PROPERTIES UNITY_GROUP ${group})
endfunction()

# For what runs once a command and not in the loops of a simulation, as readers of files and reports: -O1 instead of -O2
# compiles it in three quarters of the time.
# All of it reads one precompiled header, but for executables, whose code is of another kind.
function(corun_compile_quickly target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -O1)
  endif()
  get_target_property(type ${target} TYPE)
  if(target STREQUAL corun_trace_files)
    target_precompile_headers(
      ${target} PRIVATE <algorithm> <chrono> <cmath> <filesystem> <functional> <map> <memory> <optional> <set> <span> <sstream>
                        <string> <unordered_map> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)
  elseif(NOT type STREQUAL EXECUTABLE)
    target_precompile_headers(${target} REUSE_FROM corun_trace_files)
  endif()
endfunction()

# A part of a library that is compiled so. It sees what the library sees.
# corun_add_quick_part(<part> <library> <source>...)
function(corun_add_quick_part part library)
  add_library(${part} OBJECT ${ARGN})
  target_compile_features(${part} PRIVATE cxx_std_20)
  target_include_directories(${part} PRIVATE "${PROJECT_SOURCE_DIR}")
  get_target_property(libraries ${library} LINK_LIBRARIES)
  target_link_libraries(${part} PRIVATE ${libraries})
  corun_compile_quickly(${part})
  target_sources(${library} PRIVATE $<TARGET_OBJECTS:${part}>)
endfunction()

# Compiles the files into the target as `std::span<const corun::EmbeddedFile> corun::<function>()`
# (traces/embedded.h), so that a program finds its data wherever it runs.
# With BASE, files are known by their path from that folder instead of their name.
# corun_embed(<target> <function> [BASE <folder>] <file>...)
function(corun_embed target function)
  cmake_parse_arguments(PARSE_ARGV 2 embed "" BASE "")
  set(ARGN ${embed_UNPARSED_ARGUMENTS})
  set(entries "")
  foreach(file IN LISTS ARGN)
    if(embed_BASE)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY "${embed_BASE}" OUTPUT_VARIABLE name)
    else()
      cmake_path(GET file FILENAME name)
      string(REGEX REPLACE "\\.(json|cu)$" "" name "${name}")
    endif()
    file(READ "${file}" text)
    string(APPEND entries "    {\"${name}\"sv, R\"CORUN(${text})CORUN\"sv},\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})

  list(LENGTH ARGN count)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  # Not file(GENERATE) or configure_file: they would expand $<...> and @...@ in the data.
  file(WRITE "${output}.new" "#include <array>

#include \"traces/embedded.h\"

using namespace std::string_view_literals;

std::span<const corun::EmbeddedFile> corun::${function}() {
  static constexpr std::array<EmbeddedFile, ${count}> files = {{
${entries}  }};
  return files;
}
")
  file(COPY_FILE "${output}.new" "${output}" ONLY_IF_DIFFERENT)
  set_source_files_properties("${output}" PROPERTIES COMPILE_OPTIONS "-Wno-overlength-strings")
  target_sources(${target} PRIVATE "${output}")
endfunction()

# One GoogleTest executable. Tests run in the repository root, check the simulator's invariants while it
# runs (CORUN_AUDIT) and find the command under test in CORUN_SIM.
# Each test is a process, but for the suites in <name>_suites: their tests look at one simulation.
# The suites in <name>_whole simulate a part of what was measured; `make test-all` runs them again with all of it.
# corun_add_test(<name> <source>...)
function(corun_add_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE corun::validate corun_test_support GTest::gmock_main)
  if(TARGET sim)
    add_dependencies(${name} sim)
  endif()
  if(name STREQUAL speed_test)
    set(alone RUN_SERIAL ON)
  else()
    corun_compile_as_tests(${name})
  endif()
  if(name MATCHES "^sim_(papers|validate)_")
    # They take longest, and begin first also where no run before this one has told ctest.
    set(comparison COST 100 LABELS comparison)
  endif()
  set(timeout 300)
  if(CORUN_SANITIZE)
    set(timeout 3000)  # up to ten times as long
  endif()
  set(properties TIMEOUT ${timeout} ${alone} ${comparison} ENVIRONMENT CORUN_AUDIT=1
                 ENVIRONMENT_MODIFICATION CORUN_SIM=set:${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sim)
  foreach(suite IN LISTS ${name}_suites)
    add_test(NAME ${suite} COMMAND ${name} --gtest_filter=${suite}.* WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${suite} PROPERTIES ${properties})
  endforeach()
  foreach(suite IN LISTS ${name}_whole)
    add_test(NAME ${suite}/whole COMMAND ${name} --gtest_filter=${suite}.* WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${suite}/whole PROPERTIES ${properties} LABELS all TIMEOUT 3000)
    set_property(TEST ${suite}/whole APPEND PROPERTY ENVIRONMENT CORUN_WHOLE=1)  # tests/support/whole.h
  endforeach()
  if(${name}_suites)
    list(JOIN ${name}_suites ".*:" suites)
    set(others TEST_FILTER "-${suites}.*")
  endif()
  gtest_discover_tests(
    ${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" ${others}
    PROPERTIES ${properties})
endfunction()

# What is tested is in libraries. Tests are compiled with -Og, in a third less time than with -O1 and no slower;
# all of them read one precompiled header.
function(corun_compile_as_tests target)
  # A precompiled header holds only for the kind of code it was made for: an executable's and a library's differ.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Og)
  endif()
  if(NOT target STREQUAL corun_test_support)
    target_precompile_headers(${target} REUSE_FROM corun_test_support)
  endif()
endfunction()

# One Google Benchmark executable of the target `benchmarks`, which `make bench` builds and runs. No test needs one.
# corun_add_benchmark(<name> <source>...)
function(corun_add_benchmark name)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${name} PRIVATE corun::sim benchmark::benchmark_main)
  add_dependencies(benchmarks ${name})
endfunction()
