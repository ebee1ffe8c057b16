# A bare machine needs `apt-get install make git` first; everything else is installed from here.

# What `make bench` compares the simulator's speed with.
EARLIER := 06a3354
DEMO_TRACE := traces/h200/examples/realtime-resnet50-beside-resnet152.json

# Seconds for which `make fuzz` fuzzes each reader.
FUZZ_SECONDS := 300
PREFIX ?= /usr/local
# One more than cores, as ninja has it: some tests wait for processes.
JOBS = $$(($$(nproc) + 1))

.PHONY: demo test test-all docs install bench asan tsan clang coverage fuzz format tidy clean
.DEFAULT_GOAL := test

demo: build/build.ninja
	cmake --build --preset release --target sim
	build/bin/sim compare --policies fcfs,timeslice,greedy --duration=100ms $(DEMO_TRACE)
	build/bin/sim --policy=priority --duration=20ms --out build/demo $(DEMO_TRACE)

test: build/build.ninja
	cmake --build --preset release
	ctest --preset release -j $(JOBS) -LE all

# Also what takes minutes, packages of PyPI or a browser: wheels, their commands, pages, Parquet, Dask, Ray, MPI, Arrow, notebooks.
test-all: build/build.ninja
	-packaging/install.sh packaging/apt-test-all.txt
	cmake --build --preset release --target all benchmarks
	ctest --preset release -j $(JOBS)

# The pages, as a site: build/docs/index.html.
docs:
	docs/build.sh

# The command, and the libraries for find_package(corun).
install: build/packages
	cmake -S . -B build-install -G Ninja -DCMAKE_BUILD_TYPE=Release -DCORUN_BUILD_TESTS=OFF \
		-DCORUN_BUILD_BENCHMARKS=OFF -DCORUN_BUILD_PYTHON=OFF
	cmake --build build-install
	cmake --install build-install --prefix $(PREFIX)

bench: build/build.ninja
	cmake --build --preset release --target benchmarks sim
	set -e; for bench in build/bin/*_bench; do $$bench; done
	test -d build/earlier/src || git worktree add --detach build/earlier/src $(EARLIER)
	cmake -S build/earlier/src -B build/earlier/build -G Ninja -DCMAKE_BUILD_TYPE=Release > build/earlier/log
	cmake --build build/earlier/build --target sim >> build/earlier/log
	python3 experiments/speed/against.py build/earlier/build/bin/sim build/bin/sim --markdown build/speed.md

# The tests of `make test` under address and undefined-behaviour sanitizers, under the thread sanitizer (decision 409), or compiled by clang.
asan tsan clang: build/packages
	-[ $@ != clang ] || packaging/install.sh packaging/apt-clang.txt
	cmake --preset $@
	cmake --build --preset $@
	ctest --preset $@ -j $(JOBS)

# Lines and branches by folder that the tests of `make test` run; a test that fails does not end it.
coverage: build/packages
	cmake --preset coverage
	cmake --build --preset coverage
	find build/coverage -name '*.gcda' -delete
	-ctest --preset coverage -j $(JOBS)
	python3 tests/coverage.py build/coverage

# With clang 16 or newer (cmake/clang.cmake).  What a reader breaks on is left as build/fuzz/<reader>-*; cut down, it belongs
# into tests/fuzz/corpus as found-*.
fuzz: build/packages
	-packaging/install.sh packaging/apt-clang.txt
	cmake --preset fuzz
	cmake --build --preset fuzz
	set -e; for folder in tests/fuzz/corpus/*; do \
	  reader=$${folder##*/}; \
	  case $$reader in figure|networks|profile|reference|sweep) kind=results;; service) kind=service;; *) kind=inputs;; esac; \
	  mkdir -p build/fuzz/corpus/$$reader; \
	  build/fuzz/bin/fuzz_$$kind --reader=$$reader -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/$$reader- build/fuzz/corpus/$$reader $$folder; \
	done

format:
	git ls-files '*.h' '*.cpp' | xargs clang-format-19 -i

# An hour and a half of two cores.
tidy: build/packages
	-packaging/install.sh packaging/apt-tidy.txt
	cmake --preset tidy
	python3 tests/tidy.py build/tidy

clean:
	rm -rf build build-*

build/build.ninja: CMakePresets.json build/packages
	cmake --preset release

# Installs what packaging/apt.txt names and this machine lacks.
build/packages: packaging/apt.txt
	@packaging/install.sh
	@mkdir -p build && touch $@
