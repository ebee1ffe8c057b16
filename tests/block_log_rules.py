#!/usr/bin/env python3
"""Checks the block logs of one run against UNC's scheduling rules: which block may start when.

    tests/block_log_rules.py [--warps N] [--blocks N] [--shared BYTES] [--interval-ps PS] FILE...

Rules G1 to G4, X1 and R1 to R3 of Amert, Otterness, Yang, Anderson and Smith, "GPU Scheduling on the NVIDIA
TX2" (RTSS 2017), which hold those of OSPERT 2017. A kernel joins its stream's queue when it is launched (G1)
and the queue of the execution engine when it has come to the head of that (G2); it leaves the engine's queue
with its last block's start (G3) and its stream's with its last block's end (G4). Only the head of the
engine's queue starts blocks (X1), each on an SM that has room for it (R1 to R3). The options are what an SM
holds and how far apart blocks start; what is not given is not checked, but that an SM holds 2,048 threads.

A kernel joins the engine's queue at its `ee_queue_time`, which is corun's; without it, as in the examiner's
own logs, at its call or when the kernel before it is known to have ended, which on a GPU is right but for
microseconds.

Leaves out: priorities, masks, the null stream, several contexts, copies, registers (no log tells them), and
whether the head starts a block as soon as it may. Of a kernel that is unfinished at the end of the run, the
log lacks the blocks that had not ended.
"""
import argparse
import bisect
import collections
import decimal
import json
import sys

THREADS_PER_SM = 2048
END, ARRIVAL, START = 0, 1, 2  # at one instant, in this order


class Broken(Exception):
    pass


def require(condition, time, message):
    if not condition:
        raise Broken(f"at {time / 1e6:.6f} us: {message}")


def picoseconds(text):
    return int(decimal.Decimal(text).scaleb(12).to_integral_value())


Block = collections.namedtuple("Block", "start end sm")


class Kernel:
    def __init__(self, stream, number, entry, before):
        self.name = f"{entry['kernel_name']} ({stream}, kernel {number})"
        self.call, self.returned, self.known = entry["cuda_launch_times"]
        times, sms = entry["block_times"], entry["block_smids"]
        self.blocks = [Block(*b) for b in zip(times[0::2], times[1::2], sms, strict=True)]
        self.first = min(b.start for b in self.blocks)
        self.last = max(b.start for b in self.blocks)
        self.end = max(b.end for b in self.blocks)
        self.warps = -(-entry["thread_count"] // 32)
        self.shared = entry["shared_memory"]
        ready = self.call if before is None else max(self.call, before.known or before.end)
        self.arrival = entry.get("ee_queue_time", ready)


def read_stream(name):
    with open(name, encoding="utf-8") as file:
        log = json.load(file, parse_float=picoseconds, parse_int=int)
    kernels = []
    for number, entry in enumerate(log["times"][2:], start=1):
        kernels.append(Kernel(log["label"], number, entry, kernels[-1] if kernels else None))
    return kernels, log["max_resident_threads"] // THREADS_PER_SM


def check_stream(kernels):
    before = None
    for k in kernels:
        require(k.call <= k.returned, k.call, f"the launch of {k.name} returns before it was called")
        require(k.call <= k.arrival, k.arrival, f"G1: {k.name} is queued before it is launched")
        require(k.arrival <= k.first, k.first, f"G2: {k.name} starts a block before it is queued")
        require(all(b.start < b.end for b in k.blocks), k.first, f"a block of {k.name} ends before it starts")
        require(k.known == 0 or k.end <= k.known, k.known,
                f"G4: {k.name} is known to have ended before it has")
        if before is not None:
            require(before.call <= k.call, k.call, f"G1: {k.name} is launched before {before.name}")
            require(before.end <= k.arrival, k.arrival,
                    f"G2: {k.name} is queued while {before.name} runs")
            require(before.known <= k.call, k.call,
                    f"{k.name} is launched while its host waits for {before.name}")
        before = k


class Sms:
    """What each SM holds."""

    def __init__(self, count, limits):
        self.count, self.limits = count, limits
        self.used = collections.defaultdict(lambda: {resource: 0 for resource in limits})

    def take(self, k, block):
        require(0 <= block.sm < self.count, block.start,
                f"R1: {k.name} starts a block on SM {block.sm}, which is not there")
        for resource, amount in (("warps", k.warps), ("blocks", 1), ("shared", k.shared)):
            if resource in self.limits:
                self.used[block.sm][resource] += amount
                require(self.used[block.sm][resource] <= self.limits[resource], block.start,
                        f"R1 to R3: SM {block.sm} has not the {resource} for a block of {k.name}")

    def give_back(self, k, block):
        for resource, amount in (("warps", k.warps), ("blocks", 1), ("shared", k.shared)):
            if resource in self.limits:
                self.used[block.sm][resource] -= amount


def check_engine(kernels, sms, interval):
    events = [(k.arrival, ARRIVAL, i, k, None) for i, k in enumerate(kernels)]
    for i, k in enumerate(kernels):
        events += [(b.start, START, i, k, b) for b in k.blocks] + [(b.end, END, i, k, b) for b in k.blocks]
    queue, pending, last = [], {}, None
    for time, what, _, k, block in sorted(events, key=lambda event: event[:3]):
        if what == ARRIVAL:
            pending[k] = len(k.blocks)
            bisect.insort(queue, k, key=lambda other: other.arrival)
        elif what == END:
            sms.give_back(k, block)
        else:
            require(last is None or time - last >= interval, time,
                    f"X1: {k.name} starts a block too soon after the one before")
            last = time
            # Of kernels that came at one instant, any may be the first, but then it goes on.
            head = queue[0]
            if head is not k and head.arrival == k.arrival and pending[head] == len(head.blocks):
                queue.remove(k)
                queue.insert(0, k)
            require(queue[0] is k, time, f"X1: {k.name} starts a block while {queue[0].name} is the head")
            sms.take(k, block)
            pending[k] -= 1
            if pending[k] == 0:
                queue.pop(0)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--warps", type=int, default=THREADS_PER_SM // 32)
    arguments.add_argument("--blocks", type=int)
    arguments.add_argument("--shared", type=int)
    arguments.add_argument("--interval-ps", type=int, default=0)
    arguments.add_argument("files", nargs="+")
    given = arguments.parse_args()
    streams = [read_stream(name) for name in given.files]
    limits = {"warps": given.warps, "blocks": given.blocks, "shared": given.shared}
    sms = Sms(streams[0][1], {resource: limit for resource, limit in limits.items() if limit is not None})
    kernels = [k for stream, _ in streams for k in stream]
    try:
        for stream, _ in streams:
            check_stream(stream)
        check_engine(kernels, sms, given.interval_ps)
    except Broken as rule:
        sys.exit(f"block log: {rule}")
    blocks = sum(len(k.blocks) for k in kernels)
    print(f"{len(streams)} streams, {len(kernels)} kernels, {blocks} blocks: by the rules")


if __name__ == "__main__":
    main()
