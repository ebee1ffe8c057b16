#!/usr/bin/env python3
"""What kernels took in a recording of `sim serve --record`, as the service saw it, and how regular requests came.

  times.py RECORDING.jsonl [KERNELS]
  times.py RECORDING.jsonl arrivals PROGRAM COUNT    when the last COUNT requests of a program came, seconds, a line each, as `--client NAME=TRACE,times=FILE` reads them
Microseconds, of the kernels that took longest in all: shortest, lower quartile, median, longest.  A launch begins with its grant, or with
the end of the one before it in its stream; where both ends were seen at once there is no time.
"""
import collections
import json
import statistics
import sys


def read(lines):
    kernels, of, granted, ended_at = {}, {}, {}, {}
    waiting = collections.defaultdict(collections.deque)  # by stream, granted and not ended
    times, arrivals, left = collections.defaultdict(list), collections.defaultdict(list), False
    for line in lines:
        at = line.get("t", 0) / 1e6
        if "kernel" in line:
            kernels[line["kernel"]] = (line["name"], line["grid"])
        elif "asked" in line:
            client, stream, number, kernel = line["asked"]
            of[client, stream, number] = kernel
        elif "granted" in line:
            client, stream, number = line["granted"]
            granted[client, stream, number] = at
            waiting[client, stream].append(number)
        elif "failed" in line:
            of.pop(tuple(line["failed"]), None)
        elif "ended" in line:
            client, stream, number = line["ended"]
            queue = waiting[client, stream]
            while queue and (number - queue[0]) % 2**32 < 2**31:
                launch = client, stream, queue.popleft()
                begin = max(granted.pop(launch), ended_at.get((client, stream), 0))
                kernel = of.pop(launch, None)
                if kernel is not None and at > begin:
                    times[launch[0], kernel].append(at - begin)
                ended_at[client, stream] = at
        left = left or "leave" in line  # from then on a policy's clients have other numbers
        for notice in line.get("told", []):
            if "request_arrived" in notice and not left:
                arrivals[notice["request_arrived"][0]].append(at)
    return kernels, times, arrivals


def main(path, most="30", program="0", count="2000"):
    with open(path) as file:
        kernels, times, arrivals = read(json.loads(line) for line in file)
    if most == "arrivals":
        at = arrivals[int(program)][-int(count):]
        print("".join(f"{(t - at[0]) / 1e6 + 1e-3:.7f}\n" for t in at), end="")
        return
    print(f"{'program':>8}{'launches':>10}{'shortest':>10}{'quartile':>10}{'median':>10}{'longest':>10}  kernel")
    for (client, kernel), took in sorted(times.items(), key=lambda each: -sum(each[1]))[: int(most)]:
        took.sort()
        name, grid = kernels[kernel]
        print(f"{client:8}{len(took):10}{took[0]:10.1f}{took[len(took) // 4]:10.1f}{statistics.median(took):10.1f}{took[-1]:10.1f}  {name[:60]} {grid}")
    for client, at in sorted(arrivals.items()):
        gaps = [b - a for a, b in zip(at, at[1:])]
        regular = [s[-2] - s[1] <= s[1] / 8 for s in (sorted(gaps[i:i + 8]) for i in range(len(gaps) - 7))]
        if regular:
            print(f"requests of client {client}: {len(at)}, a gap of {statistics.median(gaps):.1f} us in the median, expected after {100 * statistics.mean(regular):.0f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
