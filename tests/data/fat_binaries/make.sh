#!/bin/sh
# Makes the fat binaries in this folder with nvcc of CUDA 13: PTX for two architectures, by each way of compression.
set -e
cd "$(dirname "$0")"
for mode in none speed balance size; do
  nvcc -fatbin --compress-mode=$mode -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90 \
    -o $mode.fatbin kernels.cu
done
