#!/bin/bash
# Programs under sim serve with and without --persistent, then the library's kernels, the ladder, and Triton's; 83 s.
# live.sh PROGRAMS FOLDER: PROGRAMS holds sim, libcorun_steer.so, measure_gpu, live, ladder, rewrite, work.ptx.
set -u
g=$(realpath $1); mkdir -p $2; O=$(realpath $2); here=$(realpath $(dirname $0)); T=$(mktemp -d); SECONDS=0
( nvidia-smi --query-gpu=name,uuid,driver_version,memory.used --format=csv,noheader; date -u ) > $O/smi.txt 2>&1
left() { local r=$((86-SECONDS)); [ $r -lt $1 ] && { [ $r -gt 0 ] && echo $r || echo 0.1; } || echo $1; }
serve() { # NAME OPTIONS...
  n=$1; shift; S=$T/$n; timeout -k 2 40 $g/sim serve --gpu=h100-sxm --at $S --record $O/$n.jsonl "$@" > $O/$n.served.txt 2>&1 & P=$!
  for i in $(seq 60); do [ -s $S/environment ] && break; sleep 0.05; done
  ( for i in $(seq 30); do sleep 0.5; $g/sim top --json --at $S 2>/dev/null | tr -d '\n ' >> $O/$n.top.txt; echo >> $O/$n.top.txt; done ) & W=$!; }
end() { kill $W 2>/dev/null; kill -INT $P 2>/dev/null; wait $P 2>/dev/null; gzip -f $O/$n.jsonl 2>/dev/null; }
rt() { timeout -k 1 $(left 8) $g/sim run --at $S --name cam --class=real_time -- $g/live rt $1 $g/work.ptx $2 >> $O/$n.txt 2>&1; echo "rt rc $?" >> $O/$n.txt; }
be() { timeout -k 1 $(left 14) $g/sim run --at $S --name work -- $g/live be $1 $g/work.ptx >> $O/$n.txt 2>&1; echo "be rc $?" >> $O/$n.txt; }
timeout 6 $g/live be 200 $g/work.ptx > $O/unsteered.txt 2>&1
both() { be 500 & B=$!; sleep 0.6; rt 250 8000; wait $B; }
often() { be 400 & B=$!; sleep 0.6; rt 600 2000; wait $B; }
serve persistent --policy=wait --persistent; be 200; rt 100 8000; both; often; end
serve plain --policy=wait; both; often; end
serve beside --policy=wait:beside=on --persistent; both; end
serve beside_plain --policy=wait:beside=on; both; end
serve reef --policy=reef-n --persistent; both; end
export TRITON_CACHE_DIR=$T/triton
tri() { rm -f $T/ready; timeout -k 1 $(left 16) $@ python3 $here/triton_product.py 300 $T/ready >> $O/$n.txt 2>&1; echo "tri rc $?" >> $O/$n.txt; }
n=tri_unsteered; tri
for w in --persistent ""; do
  serve tri${w#-} --policy=wait $w; tri $g/sim run --at $S --name work -- & B=$!
  for i in $(seq 240); do [ -e $T/ready ] && break; kill -0 $B 2>/dev/null || break; sleep 0.05; done; rt 100 8000; wait $B; end; done
for k in conv3x3 traps blackscholes_small,nn_small,quasirandom,md5,tpacf copy_small,gather,triad,transpose \
    reduction,softmax,layernorm,softmax_small lavamd,fdtd3d sgemm,sgemm_small,hgemm,hgemm_small spin10,wait10,tick; do
  d=$O/ptx/${k%%,*}; mkdir -p $d; timeout -k 1 $(left 7) $g/measure_gpu ptx --kernels $k --out $d > $d/out.txt 2>&1; done
for s in a1 a2 b1 b2 b3 c1 d1 d2 e1 e2; do timeout -k 1 $(left 4) $g/ladder $g/work.ptx $s >> $O/ladder.txt 2>&1 || break; done
timeout -k 1 $(left 15) python3 $here/triton_kernels.py $g/rewrite > $O/triton.txt 2>&1
rm -rf $T
