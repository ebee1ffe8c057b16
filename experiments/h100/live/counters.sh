#!/bin/bash
# counters.sh PROGRAMS FOLDER NAME LAUNCHES: a program of ../../h200/live captured, and counters of one request's launches, at
# most LAUNCHES; PROGRAMS holds sim and libcorun_capture.so.  Training: 38 s and 205 s.  ncu writes what it has at its end alone.
set -u
g=$(realpath $1); mkdir -p $2; O=$(realpath $2); here=$(realpath $(dirname $0)); T=$(mktemp -d); P=$here/../../h200/live/programs.py
( nvidia-smi --query-gpu=name,uuid,driver_version,memory.used --format=csv,noheader; date -u ) > $O/card.txt 2>&1
export CUDA_MPS_PIPE_DIRECTORY=$T/no-mps
again() { rm -rf $T/$1; mkdir -p $T/$1; touch $T/$1/go; }
again $3; timeout -k 1 60 $g/sim capture --twice --gpu=h100-sxm --name=$3 --keep=$T/keep -o $T/$3.json -- python3 $P $3 $T/$3 60:0:1 > $O/$3.txt 2>&1
metrics=$($g/sim import --help | tr -d '\n ' | grep -o 'metrics:[^)]*' | cut -d: -f2-)
again $3; ncu --csv --print-units base --clock-control none --target-processes all --profile-from-start off --launch-count $4 --metrics $metrics \
  --log-file $O/$3-ncu.csv python3 $here/counters.py profiled $P $3 $T/$3 1:0:1 > $O/$3-ncu.txt 2>&1
$g/sim import capture $T/keep --gpu=h100-sxm --name=$3 --range=request --counters $O/$3-ncu.csv -o $O/$3-counted.json >> $O/$3.txt 2>&1
gzip -f9n $O/$3-ncu.csv $O/$3-counted.json; rm -rf $T
