#!/usr/bin/env python3
"""What recordings of `sim serve` say of stops, of requests beside best-effort programs, and of launches that came late.

recordings.py RECORDING.jsonl.gz...   prints one JSON object a recording
"""
import gzip
import json
import sys


def quantiles(values):
    values = sorted(values)
    at = lambda share: round(values[min(len(values) - 1, int(share * len(values)))], 1)
    return {"n": len(values)} | ({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1)} if values else {})


def read(path):
    real_time, asked, ended, stops, took, last = [], {}, {}, {}, {}, {}
    with gzip.open(path, "rt") as lines:
        for line in map(json.loads, lines):
            us = line.get("t", 0) / 1e6
            if "join" in line:
                real_time.append(line["real_time"])
            elif "asked" in line:
                asked[tuple(line["asked"][:3])] = us
            elif "ended" in line:
                ended[tuple(line["ended"][:3])] = us
            elif "stop" in line:
                launch = tuple(line["stop"][:3])
                last[launch] = us
                stops[launch[0]] = stops.get(launch[0], 0) + 1
            elif "stopped" in line:
                launch = tuple(line["stopped"][:3])
                took.setdefault(launch[0], []).append(us - last[launch])
    return real_time, asked, ended, stops, took


def describe(path):
    real_time, asked, ended, stops, took = read(path)
    launches = {p: sorted((l for l in asked if l[0] == p), key=asked.get) for p in range(len(real_time))}
    programs = []
    for p, of in launches.items():
        if not real_time[p]:
            late = [(asked[b] - max(asked[a], ended.get(a, 0)), i + 2) for i, (a, b) in enumerate(zip(of, of[1:]))]
            programs.append({"class": "best_effort", "launches": len(of), "stops_ordered": stops.get(p, 0),
                             "us_from_order_to_stop": quantiles(took.get(p, [])),
                             "asked_late_us": [[round(us), number] for us, number in sorted(late)[:-3:-1]]})
            continue
        busy = [(asked[b[0]], max(ended.get(l, 0) for l in b)) for q, b in launches.items() if b and not real_time[q]]
        beside, alone = [], []
        for first, last in zip(of[::3], of[2::3]):  # three launches make a request
            if last in ended:  # a program's last ones may have no end
                during = any(begin <= asked[first] < end for begin, end in busy)
                (beside if during else alone).append(ended[last] - asked[first])
        programs.append({"class": "real_time", "launches": len(of), "us_asked_to_end_while_best_effort": quantiles(beside),
                         "us_asked_to_end_alone": quantiles(alone)})
    return {"recording": path.split("/")[-1], "programs": programs}


for path in sys.argv[1:]:
    print(json.dumps(describe(path)))
