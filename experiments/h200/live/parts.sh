#!/bin/bash
# parts.sh SIM: the SMs that each of three programs has under an even split; on the GPU, 22 s
here=$(realpath $(dirname $0)); T=$(mktemp -d)
nvidia-smi --query-gpu=name,uuid --format=csv,noheader
$1 serve --policy=tpc-mask:split=even > $T/serve 2>&1 & S=$!
sleep 4
for n in a b c; do $1 run --name $n $([ $n = a ] && echo --class=real_time) -- python3 $here/parts.py $n 14 > $T/$n 2>&1 & P="$P $!"; done
wait $P; kill -INT $S; wait $S
tail -n 1 $T/[abc]; rm -rf $T
