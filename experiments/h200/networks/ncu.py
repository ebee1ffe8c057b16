#!/usr/bin/env python3
"""Nsight Compute's counters of the networks' kernels.

  ncu.py counters OUT.csv SECONDS [NAME...]   each distinct operation of each network once
  ncu.py pipes OUT.csv SECONDS [NAME...]      the same, of the pipes of the SMs alone
  ncu.py split CSV DIR NAME...                what `counters` wrote, a file a network; NAMEs in the order in which they were given
  ncu.py join CSV DIR NAME...                 what `pipes` wrote, into these files
  ncu.py rest CSV DIR PART NAME...            what `counters` wrote under sms.c (PART: mps40, mps60) or with AS_CAPTURED (captured), a
                                              file a network: NAME.PART.csv.gz has the launches that NAME.csv.gz lacks
  ncu.py profiled SECONDS NAME...             what `counters` runs under ncu
"""
import csv
import gc
import gzip
import io
import os
import re
import subprocess
import sys
import time

from gpu import networks

PIPES = [*(f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active" for pipe in ("alu", "fma", "fmaheavy", "lsu", "xu")),
         "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
         "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"]
METRICS = ["smsp__inst_executed.sum", "smsp__issue_active.avg.pct_of_peak_sustained_active", "dram__bytes_read.sum",
           "dram__bytes_write.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum",
           "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__inst_executed_pipe_tensor.sum",
           "gpu__time_duration.sum", "launch__cluster_dim_x", "launch__cluster_dim_y", "launch__cluster_dim_z",
           "launch__registers_per_thread", "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"]


def profiled(seconds, names):
    """One request of each network, of which ncu sees each distinct operation once: what its kernels are follows from the
    operation and its arguments' shapes. A kernel of torch.cuda._sleep ends each network's."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    cudart, begin = torch.cuda.cudart(), time.time()

    class Each(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            def key(x):
                if isinstance(x, torch.Tensor):
                    return str(x.dtype), tuple(x.shape), tuple(x.stride()), x.is_cuda
                if isinstance(x, (list, tuple)):
                    return tuple(key(y) for y in x)
                return str(x)
            what = str(function), key(args), key(list((kwargs or {}).values()))
            if what in self.seen:
                return function(*args, **(kwargs or {}))
            self.seen.add(what)
            cudart.cudaProfilerStart()
            try:
                return function(*args, **(kwargs or {}))
            finally:
                cudart.cudaProfilerStop()
    if "AS_CAPTURED" in os.environ:  # transformers' attention has a mask where a graph is captured, and so other kernels
        torch.cuda.is_current_stream_capturing = lambda: True
    for name in names:
        if time.time() - begin > seconds:
            print("NOT PROFILED:", name, flush=True)
            continue
        run = networks().build(name)
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        started = time.time()
        with Each() as each:
            run()
        torch.cuda.synchronize()
        cudart.cudaProfilerStart()
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
        cudart.cudaProfilerStop()
        print(f"profiled {name}: {len(each.seen)} operations, {time.time() - started:.1f} s", flush=True)
        del run, each
        gc.collect()
        torch.cuda.empty_cache()


def counters(path, seconds, names, metrics):
    names = names or list(networks().NETWORKS)
    command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--print-units", "base",
               "--log-file", path, "--metrics", ",".join(metrics), sys.executable, os.path.abspath(__file__), "profiled",
               str(seconds), *names]
    print("ncu exits with", subprocess.run(command).returncode, flush=True)


def lines_of(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        return [line for line in file if line.startswith('"')]


def save_lines(folder, name, lines):
    with open(f"{folder}/{name}.csv.gz", "wb") as file:
        file.write(gzip.compress("".join(lines).encode(), 9, mtime=0))


def by_network(path, names):
    """The table's head, and the rows of each network."""
    head, *rows = lines_of(path)
    of, left, ended = {name: [] for name in names}, list(names), None
    for row in rows:
        launch = row.split(",", 1)[0]
        if "spin_kernel" in row and launch != ended:  # _sleep's, once for each of its metrics
            ended, left = launch, left[1:]
        elif launch != ended:
            of[left[0]].append(row)
    return head, of


def split(path, folder, names):
    os.makedirs(folder, exist_ok=True)
    head, of = by_network(path, names)
    for name, lines in of.items():
        save_lines(folder, name, [head, *lines])


def join(path, folder, names):
    """Adds each launch's new rows to those it has, which is found by its place in the order of launches."""
    head, of = by_network(path, names)
    columns = next(csv.reader([head]))
    place = {name: columns.index(name) for name in ("ID", "Kernel Name", "Block Size", "Grid Size", "Metric Name")}

    def kind(row):  # of namespaces one run of ncu names the inner one, another the outer one
        return [re.sub(r"\w+::", "", row[place["Kernel Name"]]), row[place["Block Size"]], row[place["Grid Size"]]]

    def launches(lines):
        found = {}
        for line in lines:
            row = next(csv.reader([line]))
            found.setdefault(row[place["ID"]], (kind(row), []))[1].append(row)
        return list(found.items())
    for name, lines in of.items():
        known_head, *known = lines_of(f"{folder}/{name}.csv.gz")
        before, after = launches(known), launches(lines)
        if known_head != head or [kind for _, (kind, _) in before] != [kind for _, (kind, _) in after]:
            print(name, "NOT JOINED: other columns or launches,", len(before), "before and", len(after), "now", flush=True)
            continue
        has, more = {row[place["Metric Name"]] for _, (_, rows) in before for row in rows}, []
        for (number, (_, rows)), (_, (_, added)) in zip(before, after):
            kept = {"ID": number, "Process ID": rows[0][columns.index("Process ID")]}
            for row in added:
                if row[place["Metric Name"]] not in has:
                    more.append([kept.get(column, value) for column, value in zip(columns, row)])
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(more)
        save_lines(folder, name, [head, *known, text.getvalue()])
        print(name, "joined,", len(after), "launches", flush=True)


def rest(path, folder, part, names):
    head, of = by_network(path, names)
    columns = next(csv.reader([head]))
    number, process, kernel, block, grid = (columns.index(c) for c in ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size"))

    def which(row):
        return row[kernel], row[block], row[grid]
    for name, lines in of.items():
        known = list(csv.reader(lines_of(f"{folder}/{name}.csv.gz")[1:]))
        there, after = {which(row) for row in known}, max(int(row[number]) for row in known) + 1
        rows = [row for row in csv.reader(lines) if which(row) not in there]
        if not rows:
            continue
        first = int(rows[0][number])
        for row in rows:  # read after the others, as launches of the same process
            row[number], row[process] = str(int(row[number]) - first + after), known[0][process]
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
        save_lines(folder, f"{name}.{part}", [text.getvalue()])
        print(name, len({row[number] for row in rows}), "launches that it lacks", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["counters", path, seconds, *names]: counters(path, float(seconds), names, METRICS)
        case ["pipes", path, seconds, *names]: counters(path, float(seconds), names, PIPES)
        case ["split", path, folder, *names]: split(path, folder, names)
        case ["join", path, folder, *names]: join(path, folder, names)
        case ["rest", path, folder, part, *names]: rest(path, folder, part, names)
        case ["profiled", seconds, *names]: profiled(float(seconds), names)
        case _: sys.exit(__doc__)
