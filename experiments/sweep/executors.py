#!/usr/bin/env python3
"""The same 1,000 points on one process, two, Dask, Ray and MPI: are the bytes the same, and are both cores used?

    PYTHONPATH=build/python python3 experiments/sweep/executors.py serial two dask ray    # pip install 'dask[distributed]' ray
    PYTHONPATH=build/python mpiexec -n 3 python3 -m mpi4py.futures experiments/sweep/executors.py mpi    # pip install mpi4py mpich

`--lines FILE` writes the lines, `--store FOLDER` keeps them there.  `python_executors_test` runs this.
"""

import argparse
import hashlib
import os
import sys
import time
from typing import Any, Optional

import corun

TRACE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"
POLICIES = ["fcfs", "timeslice", "priority", "mps"]
GRID = dict(set={"camera.rate": [50, 60, 70, 80, 90, 100, 120, 140, 160, 200]}, seeds=range(1, 26), duration="20ms")


def run(kind: str, store: Optional[str]) -> corun.Sweep:
    def sweep(**how: Any) -> corun.Sweep:
        return corun.sweep(TRACE, POLICIES, store=store, **GRID, **how)

    if kind == "serial":
        return sweep(workers=1)
    if kind == "two":
        return sweep(workers=2)
    if kind == "dask":
        from dask.distributed import Client

        with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
            return sweep(executor=client.get_executor())
    if kind == "ray":
        import ray

        with ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False):
            return sweep(executor=corun.RayExecutor())
    if kind == "mpi":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor(2) as executor:
            return sweep(executor=executor)
    sys.exit(f"{kind}: use serial, two, dask, ray or mpi")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["serial", "two"])
    parser.add_argument("--lines")
    parser.add_argument("--store")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        began, before = time.monotonic(), os.times()
        result = run(kind, arguments.store)
        took, after = time.monotonic() - began, os.times()
        busy = after.user + after.children_user - before.user - before.children_user
        digest = hashlib.sha256("\n".join(result.lines).encode()).hexdigest()[:16]
        print(f"{kind:8}{len(result)} points, {len(result.errors)} errors, {digest}, {took:.1f} s, {busy:.1f} s of processors")
        if arguments.lines:
            result.write(arguments.lines)


if __name__ == "__main__":
    main()
