#!/bin/bash
# What the pages show of a GPU: runs their commands on a machine that has one, and prints each with what it says, to be put into the pages.
#
#   docs/on_gpu.sh [sim]     about 90 s; python3 has PyTorch. PROGRAMS, SERVE and ONLY: for its test without a GPU
set -eu
sim=$(realpath "${1:-build/bin/sim}")
root=$(cd "$(dirname "$0")/.." && pwd)
programs=${PROGRAMS:-python3 $root/experiments/h200/live/programs.py}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/mixes" && cd "$scratch/mixes"
cp "$root/experiments/h200/policies/kernels.json" ..
cp "$root/experiments/h200/policies/mixes/issue.json" trace.json

show() {  # show <as the page has it> <as it is run>
  printf '$ %s\n' "$1"
  bash -c "$2" 2>&1 || echo "exit code $?"
  echo
}
wanted() { case " ${ONLY:-calibrate backend profile record capture serve} " in *" $1 "*) ;; *) return 1 ;; esac; }

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true
date -u '+%Y-%m-%d %H:%M UTC'
if wanted calibrate; then show 'sim calibrate -o my-gpu.json' "$sim calibrate -o my-gpu.json"; fi
if wanted backend; then
  show 'sim --backend=cuda --policy=greedy --verify trace.json' "$sim --backend=cuda --policy=greedy --verify trace.json"
fi
if wanted profile; then
  show 'sim profile --backend=cuda trace.json -o profiles.json' "$sim profile --backend=cuda trace.json -o profiles.json"
fi
if wanted record; then
  show 'sim record --policies fcfs greedy --profiles profiles.json --out DIR -- trace.json' \
    "$sim record --policies fcfs greedy --profiles profiles.json --out DIR --repeats 1 -- trace.json"
fi
if wanted capture; then
  touch go
  show 'sim capture -o captured.json -- python serve.py' "$sim capture -o captured.json -- $programs decode-graph . 2000:1:1"
  rm go
fi
if wanted serve; then
  at="--at $PWD/service"
  show 'sim serve --policy=wait:beside=on &' "$sim serve --policy=wait:beside=on $at ${SERVE:-} > service.txt 2>&1 & echo \$! > service.pid
    for i in \$(seq 100); do grep -q joins service.txt && break; sleep 0.1; done; sed 's/^<[0-7]>//' service.txt"
  show 'sim run --name cam --class=real_time --priority=-5 -- python camera.py &' \
    "$sim run $at --name cam --class=real_time --priority=-5 -- $programs decode-graph . 4000:1.23:1 > cam.txt 2>&1 & echo \$! > cam.pid"
  show 'sim run --name training -- python train.py &' "$sim run $at --name training -- $programs train . loop > training.txt 2>&1 & echo \$! > training.pid"
  for i in $(seq 600); do [ -e decode-graph.ready ] && [ -e train.ready ] && break; sleep 0.1; done
  touch go
  sleep 4
  show 'sim top' "$sim top $at"
  for i in $(seq 100); do kill -0 "$(cat cam.pid)" 2>/dev/null || break; sleep 0.1; done
  touch stop
  for i in $(seq 100); do kill -0 "$(cat training.pid)" 2>/dev/null || break; sleep 0.1; done
  cut -c1-400 cam.txt training.txt
  kill -INT "$(cat service.pid)" 2>/dev/null || true
fi
