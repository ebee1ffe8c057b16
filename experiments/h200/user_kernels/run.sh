#!/bin/bash
# Profiles the kernels and records the mixes of a set on the GPU of this machine; from the repository's root:
#     experiments/h200/user_kernels/run.sh path/of/sim [folder for an archive of what was made] [folder, as second]
# What was compiled is kept for the run in a folder of its own.
set -eu
sim=$(realpath "$1")
to=${2:+$(realpath "$2")}
cd "$(dirname "$0")/${3:-}"
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
policies=(fcfs sequential priority tpc-mask:split=even static-split greedy slate smcompactor wait reef-n timeslice mps)

rm -rf recordings runs.json
date +%T
"$sim" profile --backend=cuda --store "$store" --kernels kernels.json -o profiles.json kernels-source.json
date +%T
status=0
"$sim" record --profiles profiles.json --out . --store "$store" --repeats 2 --policies "${policies[@]}" -- mixes/*.json ||
  status=$?
date +%T
if [ -n "$to" ]; then
  tar czf "$to/user_kernels.tgz" $(ls -d kernels.json profiles.json runs.json recordings 2>/dev/null)
fi
exit $status
