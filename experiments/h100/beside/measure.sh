#!/bin/bash
# measure.sh PROGRAMS ORDER OUT: each program's kernels alone and beside another under MPS, 160 s, and order.cu in streams and under MPS, 10 s.
# PROGRAMS holds sim and libcorun_capture.so; ORDER: order.cu, compiled; OUT: a folder.  Then kernels.py collect OUT/keep kernels-1.json.gz
set -u
g=$(realpath $1); order=$(realpath $2); mkdir -p $3; O=$(realpath $3); T=$(mktemp -d); P=$(realpath $(dirname $0))/../../h200/live/programs.py
( nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader; date -u ) > $O/card.txt
( timeout 20 $order one streams; timeout 20 $order one streams-high -5 ) > $O/order.jsonl
export CUDA_MPS_PIPE_DIRECTORY=$T/mps CUDA_MPS_LOG_DIRECTORY=$T/mps; mkdir -p $T/mps $O/keep
nvidia-cuda-mps-control -d; sleep 1
( timeout 20 $order two mps; timeout 20 $order two mps-high -5; timeout 20 $order one mps-streams ) >> $O/order.jsonl
capture() { # NAME COUNT FILE
  mkdir -p $T/$3; touch $T/$3/go
  timeout -k 1 60 $g/sim capture --all --gpu=h100-sxm --name=$1 --keep=$O/keep/$3 -o $T/$3.json -- python3 $P $1 $T/$3 $2 > $O/$3.txt 2>&1; }
beside() { # NAME OTHER COUNT
  rm -rf $T/o; mkdir -p $T/o; python3 $P $2 $T/o loop > $O/$1-beside-$2.loop.txt 2>&1 & L=$!
  for i in $(seq 300); do [ -e $T/o/$2.ready ] && break; sleep 0.1; done; touch $T/o/go
  capture $1 $3 $1-beside-$2; touch $T/o/stop; wait $L; }
for program in decode-graph vision-graph; do
  capture $program 100:0:1 $program-alone
  beside $program train 200:0:1
done
echo quit | nvidia-cuda-mps-control; rm -rf $T
