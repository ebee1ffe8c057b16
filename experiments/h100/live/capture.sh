#!/bin/bash
# The programs of ../../h200/live captured on this card, with its clock meanwhile, and counters of a prefill's launches; 110 s.
# capture.sh PROGRAMS FOLDER: PROGRAMS holds sim and libcorun_capture.so.  A prefill draws the power limit in a row, so it is captured with
# pauses in which the clock comes back, and once more without them.
set -u
g=$(realpath $1); mkdir -p $2; O=$(realpath $2); here=$(realpath $(dirname $0)); T=$(mktemp -d); P=$here/../../h200/live/programs.py
( nvidia-smi --query-gpu=name,uuid,driver_version,memory.used --format=csv,noheader; date -u ) > $O/card.txt 2>&1
export CUDA_MPS_PIPE_DIRECTORY=$T/no-mps
clock() { nvidia-smi --query-gpu=timestamp,clocks.sm,power.draw.instant --format=csv,noheader,nounits -lms 20 > $O/$1.clock.txt & C=$!; }
program() { rm -rf $T/$1; mkdir -p $T/$1; touch $T/$1/go; echo "python3 $P $1 $T/$1 $2"; }
capture() { # NAME COUNT:PERIOD:ROUNDS FILE
  c=$(program $1 $2); clock $3
  timeout -k 1 45 $g/sim capture --twice --gpu=h100-sxm --name=$1 --keep=$T/keep-$3 -o $O/$3.json -- $c > $O/$3.txt 2>&1
  echo "rc $? $SECONDS s" >> $O/$3.txt; kill $C; gzip -f $O/$3.json; }
capture prefill 60:60:1 prefill
capture train 60:0:1 train
capture vision-graph 300:0:1 vision-graph
capture decode 200:0:1 decode
capture decode-graph 300:0:1 decode-graph
capture prefill 60:0:1 prefill-in-a-row
for m in 40:60:1 200:0:1; do clock prefill-untraced-${m%%:*}; timeout 20 $(program prefill $m) > $O/prefill-untraced-${m%%:*}.txt 2>&1; kill $C; done
metrics=$($g/sim import --help | tr -d '\n ' | grep -o 'metrics:[^)]*' | cut -d: -f2-)
timeout -k 1 60 ncu --csv --print-units base --clock-control none --target-processes all --nvtx --nvtx-include request/ --metrics $metrics \
  --log-file $O/prefill-counters.csv $(program prefill 1:0:1) > $O/prefill-counters.txt 2>&1; echo "rc $? $SECONDS s" >> $O/prefill-counters.txt
timeout 20 $g/sim import capture $T/keep-prefill --gpu=h100-sxm --name=prefill --counters $O/prefill-counters.csv -o $O/prefill-counted.json >> $O/prefill-counters.txt 2>&1
gzip -f $O/prefill-counted.json $O/prefill-counters.csv; tar czf $O/keep-prefill.tgz -C $T keep-prefill; rm -rf $T
tail -n 3 $O/*.txt | cut -c1-300
