#!/bin/sh
# What `cmake --install` leaves is enough for a program that says find_package(corun): it builds, prints what the
# installed command prints, and nothing that was installed names the folders of sources and build.
#
#   tests/install/consumer.sh BUILD COMPILER [launcher...]     of a build that is complete
set -eu
cd "$(dirname "$0")/../.."
build=$(cd "$1" && pwd)
compiler=$2
shift 2
launcher=$(IFS=';' && echo "$*")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
if grep -rlF -e "$PWD" -e "$build" "$work/prefix/include" "$work/prefix/lib"*/cmake; then
  echo "These name the folders of sources or build"
  exit 1
fi
[ "$(ls "$work/prefix/bin")" = sim ] || { echo "More than the command is in bin"; exit 1; }
if [ -e "$build/bin/libcorun_capture.so" ]; then
  said=$("$work/prefix/bin/sim" capture -o "$work/captured.json" -- true 2>&1) || true
  grep -q "no process used CUDA" <<END || { echo "The command does not find its library: $said"; exit 1; }
$said
END
fi
for file in bash-completion/completions/sim zsh/site-functions/_sim fish/vendor_completions.d/sim.fish man/man1/sim.1; do
  grep -q compare "$work/prefix/share/$file" || { echo "share/$file does not know the subcommands"; exit 1; }
done
cmake -S tests/install -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >"$work/configure.log"
cmake --build "$work/build"

trace=traces/h200/examples/realtime-resnet50-beside-resnet152.json
for policy in fcfs greedy; do
  consumer=$("$work/build/consumer" "$trace" "$policy")
  command=$("$work/prefix/bin/sim" "--policy=$policy" "$trace" | awk '$1 == "STP" { print $2 }')
  echo "$policy: STP $consumer in the program, $command in the command"
  [ "$consumer" = "$command" ]
done
