#!/usr/bin/env bash
# One of the jobs that take longer than a commit should wait:  tests/slow_job.sh [JOB [MINUTES]]
#
# Without JOB the commit's hash chooses, so that a row of commits has them all. A failure ends with 1. What was not reached
# in MINUTES (35) is printed and is no failure; nor is a tool that this machine lacks.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=(asan tsan clang tidy gates fuzz coverage)
commit=$(git rev-parse HEAD)
job=${1:-}
[ -n "$job" ] || job=${jobs[16#${commit:0:7} % ${#jobs[@]}]}
ends=$((SECONDS + ${2:-35} * 60))
cores=$(nproc)
mkdir -p build
log=$PWD/build/slow_job.log

say() { echo "slow job $job: $*"; }
missing() { say "left out: no $* here" && exit 0; }
left() { echo $((ends - SECONDS - ${1:-0})); }

# limited <what it is> <seconds> <command>...: 0 if it came to its end; a failure ends the job.
limited() {
  local what=$1 seconds=$2 code=0
  shift 2
  say "$what, $(($(left) / 60)) minutes left"
  if [ "$seconds" -gt 0 ]; then timeout --kill-after=20 "$seconds" "$@" >"$log" 2>&1 || code=$?; else code=124; fi
  case $code in
    0) tail -n 3 "$log" ;;
    124 | 137) say "not reached: the end of $what, which was at: $(tail -n 1 "$log" | cut -c1-160)" && return 1 ;;
    *) tail -n 100 "$log" && say "FAILED: $what" && exit 1 ;;
  esac
}
step() { limited "$1" "$(left)" "${@:2}" || exit 0; }
build() {
  step "configuring $1" cmake --preset "$1" "${@:2}"
  step "building $1" cmake --build --preset "$1" -j "$cores"
}
# In another order each time, so that what is not reached is not always the same.
tests() { limited "tests" "$(left "${reserve:-0}")" ctest --preset "$1" -j $((cores + 1)) --schedule-random --stop-on-failure "${@:2}"; }
newest_clang() {
  packaging/install.sh packaging/apt-clang.txt
  compgen -c clang++- | grep -qxE 'clang\+\+-1[6-9]' || missing "clang 16 to 19"
}

say "of commit ${commit:0:8}"
case $job in
  asan | tsan) build $job && tests $job ;;
  clang) newest_clang && build clang -DCMAKE_COMPILE_WARNING_AS_ERROR=ON && tests clang ;;
  tidy)
    newest_clang
    packaging/install.sh packaging/apt-tidy.txt
    command -v clang-tidy-19 >/dev/null || missing clang-tidy-19
    step "configuring" cmake --preset tidy
    step "clang-tidy" python3 tests/tidy.py build/tidy "$(left 30)"
    ;;
  gates) build release && tests release -R '/whole$' ;;
  fuzz)
    newest_clang
    build fuzz -DCORUN_CLANG=/usr/bin/clang++-16  # of which the sanitizers and libFuzzer are installed
    step "fuzzing" make fuzz FUZZ_SECONDS=$(($(left 60) / $(ls tests/fuzz/corpus | wc -l)))
    ;;
  coverage)
    build coverage
    reserve=180 tests coverage
    step "counting" python3 tests/coverage.py build/coverage
    cat "$log"
    ;;
  *) sed -n '2,5s/^# \?//p' "$0" && say "there are ${jobs[*]}" && exit 2 ;;
esac
exit 0
