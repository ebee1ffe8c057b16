#!/usr/bin/env bash
# Do the library of `sim run` and the service hold with other CUDA Toolkits, and on aarch64? Needs PyPI for the toolkits' headers,
# and Debian's packages for aarch64. Exits with 77 where something that it needs is not there.
#
#   tests/hw/other_machines.sh toolkits|aarch64 [folder]     a given folder keeps headers and builds, so that a second run is short
set -euo pipefail

part=${1:?toolkits or aarch64}
repository=$(cd "$(dirname "$0")/../.." && pwd)
folder=${2:-$(mktemp -d)}
[ $# -gt 1 ] || trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$repository"

skip() {
  echo "skipped: $*"
  exit 77
}

# headers <version> <package>: the folder of its cuda.h, in the variable `include`
headers() {
  local at=$folder/cuda-$1
  if [ ! -e "$at.done" ]; then
    rm -rf "$at" && mkdir -p "$at"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$at" "$2==$1.*" 2>"$at.log" ||
      skip "PyPI gives no headers of CUDA $1: $(tail -n 1 "$at.log")"
    python3 -m zipfile -e "$at"/*.whl "$at"
    touch "$at.done"
  fi
  include=$(dirname "$(find "$at" -name cuda.h)")
}

# build <name> <version> <include> <cmake options...> -- <targets...>: in the variable `built`
build() {
  built=$folder/build-$1
  local options=(-DCMAKE_MODULE_PATH="$repository/tests/cmake/old_toolkit" -DTOOLKIT="$2" -DINCLUDE="$3" -DCORUN_WITH_CUDA=ON
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
    -DCORUN_BUILD_BENCHMARKS=OFF -DCORUN_BUILD_PYTHON=OFF -DCORUN_INSTALL=OFF)
  shift 3
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  shift
  cmake -S . -B "$built" -G Ninja "${options[@]}" >"$built.log" 2>&1 && ninja -j1 -C "$built" "$@" >>"$built.log" 2>&1
}

toolkits() {
  local failed=0
  for version in 12.4 12.6 12.8 13.0; do
    case $version in 12.*) headers $version nvidia-cuda-runtime-cu12 ;; *) headers $version nvidia-cuda-runtime ;; esac
    # Of hw/live nothing includes CUDA's headers; the driver side of the backend, and what tests play a driver with, does.
    if ! build $version $version "$include" -- corun_steer corun_fake_driver corun_fake_card memory_program steered_program \
      hw/CMakeFiles/corun_hw.dir/Unity/unity_backend_cxx.cxx.o; then
      tail -n 30 "$built.log"
      echo "FAILED: CUDA $version"
      failed=1
      continue
    fi
    python3 tests/hw/held_against.py "$include/cuda.h" "$built/bin/libcorun_steer.so" nm || failed=1
  done
  # CORUN_OLDEST_CUDA is no higher than it needs to be: what it keeps out does not compile.
  headers 12.3 nvidia-cuda-runtime-cu12
  if build 12.3 12.4 "$include" -- corun_steer; then
    echo "FAILED: CUDA 12.3 would do (cmake/cuda.cmake)"
    failed=1
  else
    grep -m 1 "error: .*CU" "$built.log" || { tail -n 30 "$built.log" && failed=1; }
  fi
  return $failed
}

# The arm64 packages of two static libraries, without making this machine one of two architectures.
arm_libraries() {
  local at=$folder/arm64
  arm=$at/root/usr
  [ ! -e "$at.done" ] || return 0
  mkdir -p "$at/lists/partial" "$at/cache/archives/partial"
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$at/lists"
    -o Dir::State::status=/dev/null -o Dir::Cache="$at/cache")
  { "${apt[@]}" update && cd "$at" && "${apt[@]}" download liblz4-dev libzstd-dev; } >"$at.log" 2>&1 ||
    skip "no arm64 packages of lz4 and zstd: $(tail -n 1 "$at.log")"
  for package in *.deb; do dpkg-deb -x "$package" root; done
  cd "$repository"
  touch "$at.done"
}

aarch64() {
  local compiler=aarch64-linux-gnu-g++ gtest=/usr/src/googletest
  for needed in $compiler qemu-aarch64 apt-get; do
    command -v $needed >/dev/null || skip "no $needed (packaging/apt-test-all.txt)"
  done
  [ -d $gtest ] || skip "no sources of GoogleTest in $gtest"
  export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  headers 13.0 nvidia-cuda-runtime
  arm_libraries

  # The library in a program, with the driver that the tests play. Of this machine's packages cmake takes what is headers alone.
  local here options=() package
  here=/usr/lib/$(dpkg-architecture -qDEB_BUILD_MULTIARCH 2>/dev/null || g++ -print-multiarch)
  for package in "$here"/cmake/*/; do
    options+=("-D$(basename "$package" | sed 's/-[0-9].*//')_DIR=$package")
  done
  build aarch64 13.0 "$include" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=$compiler \
    -DCMAKE_LIBRARY_PATH="$here" "${options[@]}" -DCORUN_LZ4="$arm/lib/aarch64-linux-gnu/liblz4.a" \
    -DCORUN_ZSTD="$arm/lib/aarch64-linux-gnu/libzstd.a" -DCORUN_LZ4_INCLUDE_DIR="$arm/include" -DCORUN_ZSTD_INCLUDE_DIR="$arm/include" \
    -- corun_steer corun_fake_driver steered_program || { tail -n 30 "$built.log" && return 1; }
  python3 tests/hw/held_against.py "$include/cuda.h" "$built/bin/libcorun_steer.so" aarch64-linux-gnu-nm
  for way in linked dlsym address address-of-thread address-of-11 context graph capture-first-to-graph stream two-threads streams ring allocate \
    counted ptx fat-lz4 fat-zstd library kernel; do
    timeout 60 qemu-aarch64 -E LD_LIBRARY_PATH="$built/tests/driver" -E LD_PRELOAD="$built/bin/libcorun_steer.so" \
      "$built/bin/steered_program" $way 5 100 >"$folder/said" 2>&1 && grep -q "^done 5" "$folder/said" ||
      { cat "$folder/said" && echo "FAILED: $way" && return 1; }
    echo "ok: a program that launches by: $way"
  done

  # Unit tests of the service, but for those that run `sim` and two that take long so.
  local objects=$folder/objects flags=(-DFMT_HEADER_ONLY -O1 -std=c++20 -ffp-contract=off -ffunction-sections -fdata-sections -I.
    -idirafter /usr/include -I$gtest/googletest -I$gtest/googlemock -I$gtest/googletest/include -I$gtest/googlemock/include)
  mkdir -p "$objects"
  together() {
    local name=$1
    shift
    printf '#include "%s"\n' "$@" | $compiler "${flags[@]}" -x c++ - -c -o "$objects/$name.o"
  }
  together gtest src/gtest-all.cc src/gmock-all.cc src/gmock_main.cc
  together policies $(ls policies/*.cpp policies/registry/*.cpp | grep -v _bench)
  together session policies/session/*.cpp
  together model traces/model/*.cpp traces/json/temporary_folder.cpp tests/support/build.cpp
  together live hw/live/*.cpp hw/record/recording.cpp
  together tests tests/hw/live/{books,books_memory,orders,random_launches,groups,cards,folder,log,metrics,service}_test.cpp
  $compiler -Wl,--gc-sections "$objects"/*.o -o "$folder/unit_tests"
  timeout 600 qemu-aarch64 "$folder/unit_tests" --gtest_brief=1 \
    --gtest_filter='-ServeAt.*:LiveService.TopSays*:BooksMemory.ProgramsAtRandom*:LiveService.AsManyProgramsAsTheLimit*' 2>"$folder/unit_tests.log" ||
    { tail -n 30 "$folder/unit_tests.log" && return 1; }
}

$part
