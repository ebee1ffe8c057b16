#!/usr/bin/env python3
"""Reads block logs the way the plotters of cuda_scheduling_examiner do, and says what they would draw.

    tests/block_log_reader.py FILE...

Reads only fields that view_blocksbysm.py, view_timelines.py and the rule checkers for these logs read, in the same
places, and fails where they would. Prints a line per stream: label, kernels, blocks, SMs drawn, most threads at once.
"""
import json
import sys

THREADS_PER_SM = 2048  # both plotters take this for granted


def require(condition, message):
    if not condition:
        sys.exit(f"block log: {message}")


def is_time(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def read_kernel(kernel, sms):
    """Start and end of each block, with its SM and threads."""
    called, returned, synchronised = kernel["cuda_launch_times"]
    require(is_time(called) and is_time(returned) and is_time(synchronised), "launch times are not times")
    require(called <= returned, "a launch returns before it was called")
    require(isinstance(kernel["kernel_name"], str), "a kernel has no name")
    require(isinstance(kernel["shared_memory"], int), "shared memory is not in bytes")
    times, smids = kernel["block_times"], kernel["block_smids"]
    count, threads = kernel["block_count"], kernel["thread_count"]
    require(count > 0 and threads > 0, "a kernel has no blocks")
    require(len(times) == 2 * count and len(smids) == count, "not one start, end and SM a block")
    blocks = []
    for start, end, sm in zip(times[0::2], times[1::2], smids):
        require(is_time(start) and is_time(end) and start <= end, "a block ends before it starts")
        require(0 <= sm < sms, f"SM {sm} is not drawn: max_resident_threads allows {sms}")
        require(synchronised == 0 or end <= synchronised, "a block outlives its kernel")
        blocks.append((start, end, sm, threads))
    return blocks


def most_threads(blocks):
    """Most threads at once; at one instant, ends come first."""
    changes = sorted([(end, 0, -threads) for _, end, _, threads in blocks] +
                     [(start, 1, threads) for start, _, _, threads in blocks])
    now = most = 0
    for _, _, change in changes:
        now += change
        most = max(most, now)
    require(now == 0, "starts and ends do not balance")
    return most


def read_stream(log):
    for key in ("scenario_name", "benchmark_name", "label"):
        require(isinstance(log[key], str), f"{key} is not a string")
    for key in ("max_resident_threads", "data_size", "PID", "TID"):
        require(isinstance(log[key], int), f"{key} is not an integer")
    require(is_time(log["release_time"]), "release_time is not a time")
    sms = log["max_resident_threads"] // THREADS_PER_SM
    require(log["times"][0] == {}, "the first of times is not empty")
    whole = log["times"][1]
    spans = [whole[key] for key in ("copy_in_times", "execute_times", "copy_out_times", "cpu_times")]
    require(all(len(s) == 2 and is_time(s[0]) and s[0] <= s[1] for s in spans), "a span of the run is not one")
    blocks = []
    kernels = [entry for entry in log["times"][1:] if "cpu_times" not in entry]
    require(len(kernels) == len(log["times"]) - 2, "more than one summary")
    for kernel in kernels:
        blocks += read_kernel(kernel, sms)
    require(blocks, "a stream without blocks has no end, which the plotters need")
    return len(kernels), len(blocks), sms, most_threads(blocks)


def main(names):
    require(names, "no files")
    scenarios = set()
    for name in names:
        with open(name, encoding="utf-8") as file:
            log = json.load(file)
        kernels, blocks, sms, threads = read_stream(log)
        scenarios.add(log["scenario_name"])
        print(f"{log['label']}: {kernels} kernels, {blocks} blocks, {sms} SMs, at most {threads} threads")
    require(len(scenarios) == 1, "the files are of several runs")


if __name__ == "__main__":
    main(sys.argv[1:])
