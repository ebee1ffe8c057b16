#!/usr/bin/env bash
# Runs the jobs of mechanisms.cu, alone and under MPS; a record a line.  mechanisms.sh OUT
set -u
here=$(cd "$(dirname "$0")" && pwd) out=$1 work=$(mktemp -d)
nvcc -O2 -std=c++17 -gencode arch=compute_90a,code=sm_90a "$here/mechanisms.cu" -o "$work/mechanisms" -lcuda || exit 1
run() { timeout 60 "$work/mechanisms" "$@"; }
{
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader | sed 's/.*/{"card": "&"}/'
  date -u '+{"date": "%F %R UTC", "command": "mechanisms.sh"}'
  for job in green atomics cold; do run $job; done
  export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
  mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
  nvidia-cuda-mps-control -d >&2
  for percent in 6 12 25 33 50 75 100; do CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$percent run rates "mps $percent"; done
  for set in "50 50" "25 75" "30 50" "70 70" "50 50 50" "30 30 30" "70 70 70" "100 100" "25 25 25 25" "10 90"; do
    i=0
    for percent in $set; do
      CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=$percent run client "$set: $i" 1.5 > "$work/client-$i" &
      i=$((i + 1))
    done
    wait $(jobs -p)
    cat "$work"/client-*; rm -f "$work"/client-*
  done
  echo quit | nvidia-cuda-mps-control >&2
} > "$out"
wc -l "$out"
