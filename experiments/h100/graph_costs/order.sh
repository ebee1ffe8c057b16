#!/bin/bash
# order.sh OUT: all cases of order.cu (compiled beside this file), in streams of a process and in clients of MPS; lines of JSON, 25 s
O=$1; B=$(dirname $(realpath $0))/order; export CUDA_MPS_PIPE_DIRECTORY=/tmp/om CUDA_MPS_LOG_DIRECTORY=/tmp/om
for c in smem threads small short fits; do timeout 12 $B both $c $O "streams $c" 0.4; done
mkdir -p /tmp/om; nvidia-cuda-mps-control -d
timeout 12 $B probe $O "mps alone" 0.4
for c in smem threads small short fits; do timeout 12 $B both $c $O "mps streams $c" 0.4; rm -rf /tmp/oh; mkdir -p /tmp/oh; timeout 15 $B hog $c /tmp/oh & H=$!; for i in $(seq 100); do [ -e /tmp/oh/ready ] && break; sleep 0.05; done; timeout 12 $B probe $O "mps clients $c" 0.4; touch /tmp/oh/stop; wait $H; done
echo quit | timeout 10 nvidia-cuda-mps-control
