#!/usr/bin/env python3
"""The same 1,000 points on one process, two, Dask and MPI: are the bytes the same, and are both cores used?

    PYTHONPATH=build/python python3 experiments/sweep/executors.py serial two dask     # pip install 'dask[distributed]'
    PYTHONPATH=build/python mpiexec -n 3 python3 -m mpi4py.futures experiments/sweep/executors.py mpi
"""

import concurrent.futures
import hashlib
import os
import sys
import time

import corun

TRACE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"
POLICIES = ["fcfs", "timeslice", "priority", "mps"]
GRID = dict(set={"camera.rate": [50, 60, 70, 80, 90, 100, 120, 140, 160, 200]}, seeds=range(1, 26), duration="20ms")


def run(kind: str) -> corun.Sweep:
    if kind == "serial":
        return corun.sweep(TRACE, POLICIES, workers=1, **GRID)
    if kind == "two":
        return corun.sweep(TRACE, POLICIES, workers=2, **GRID)
    if kind == "dask":
        from dask.distributed import Client

        with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
            return corun.sweep(TRACE, POLICIES, executor=client.get_executor(), **GRID)
    if kind == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor(2) as executor:
            return corun.sweep(TRACE, POLICIES, executor=executor, **GRID)
    sys.exit(f"{kind}: use serial, two, dask or mpi")


def main() -> None:
    for kind in sys.argv[1:] or ["serial", "two"]:
        began, before = time.monotonic(), os.times()
        result = run(kind)
        took, after = time.monotonic() - began, os.times()
        busy = after.user + after.children_user - before.user - before.children_user
        digest = hashlib.sha256("\n".join(result.lines).encode()).hexdigest()[:16]
        print(f"{kind:8}{len(result)} points, {len(result.errors)} errors, {digest}, {took:.1f} s, {busy:.1f} s of processors")


if __name__ == "__main__":
    main()
