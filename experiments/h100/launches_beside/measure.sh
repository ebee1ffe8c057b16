#!/bin/bash
# measure.sh LAUNCHES_BESIDE OUT: chains beside each load, of the same process and of another client of MPS; 150 s. OUT: a file of lines of JSON
set -u
P=$(realpath $1); T=$(mktemp -d)
nvidia-smi --query-gpu=name,uuid,driver_version --format=csv,noheader | python3 -c 'import json, sys, time; print(json.dumps({"gpu": sys.stdin.read().strip(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}))' > $2
for load in none $($P loads); do timeout 30 $P measure streams $load >> $2; done
export CUDA_MPS_PIPE_DIRECTORY=$T/mps CUDA_MPS_LOG_DIRECTORY=$T/mps; mkdir -p $T/mps; nvidia-cuda-mps-control -d; sleep 1
timeout 30 $P measure clients none >> $2
for load in $($P loads); do
  rm -f $T/ready $T/stop; timeout 40 $P load $load $T >> $2 & L=$!
  for i in $(seq 200); do [ -e $T/ready ] && break; sleep 0.05; done
  timeout 30 $P measure clients -$load >> $2; touch $T/stop; wait $L
done
echo quit | nvidia-cuda-mps-control; rm -rf $T
