#!/bin/bash
# together.sh PROGRAMS OUT SECONDS: three programs beside each other under MPS, the kernels of each recorded at once; 20 s, most of it starts.
# PROGRAMS holds sim and libcorun_capture.so.  Then together.py collect SIM OUT together-1.json.gz
set -u
g=$(realpath $1); mkdir -p $2; O=$(realpath $2); S=$3; T=$(mktemp -d); P=$(realpath $(dirname $0))/../../h200/live/programs.py
( nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader; date -u ) > $O/card.txt
export CUDA_MPS_PIPE_DIRECTORY=$T/mps CUDA_MPS_LOG_DIRECTORY=$T/mps; mkdir -p $T/mps
nvidia-cuda-mps-control -d; sleep 1
together() { # SECONDS NAMES...
  s=$1; shift; D=$T/together; mkdir -p $D; ids=""
  for n in "$@"; do
    timeout -k 1 60 $g/sim capture --all --gpu=h100-sxm --name=$n --keep=$D/keep-$n -o $D/$n.json -- python3 $P $n $D loop > $D/$n.txt 2>&1 & ids="$ids $!"
  done
  for n in "$@"; do for i in $(seq 400); do [ -e $D/$n.ready ] && break; sleep 0.1; done; done
  sleep 0.3; touch $D/go; sleep $s; touch $D/stop; wait $ids
  for n in "$@"; do mkdir -p $O/$n; cp $D/keep-$n/*.jsonl $O/$n/; done; }
together $S decode-graph train vision-graph
echo quit | nvidia-cuda-mps-control; rm -rf $T
