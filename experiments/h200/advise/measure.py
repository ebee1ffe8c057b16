#!/usr/bin/env python3
"""Measures the settings of predictions.json on an NVIDIA GPU, as ../networks/measure.py measures its mixes.

  measure.py CASE SETTING      what a process of its own runs for a setting of one process; its results on its output
  measure.py OUT.json WAY...   WAY: priority, green-contexts (one process), time-slicing, mps, percentages
"""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../networks"))
import measure as networks_measure  # noqa: E402
from cases import SECONDS  # noqa: E402
from gpu import UNIT, Parts, drive  # noqa: E402

REPEATS = 3


def period(client):
    return client["period_ms"] / 1e3 if "period_ms" in client else None


def in_process(clients, setting):
    if setting["mode"] == "priority":
        gpu, kinds = Parts(), ["high" if c.get("priority") else "plain" for c in clients]
    else:
        units = [int(tpcs) * 2 // UNIT for tpcs in setting["policy"].rsplit("tpcs=", 1)[1].split("/")]
        gpu, kinds = Parts(units), [f"part{i}" for i in range(len(clients))]
    ready = [{"work": gpu.graph(c["network"], kinds[i], i), "offset": networks_measure.offset(i), "period": period(c)}
             for i, c in enumerate(clients)]
    drive(gpu.torch, ready, 0.1)
    return [drive(gpu.torch, ready, SECONDS) for _ in range(REPEATS)]


def in_process_of_its_own(case, setting):
    """Green contexts come and go with their process: several divisions in one end in an illegal access."""
    ran = subprocess.run([sys.executable, os.path.abspath(__file__), case, setting], text=True, stdout=subprocess.PIPE, timeout=60)
    return json.loads(ran.stdout.splitlines()[-1])


def by_processes(processes, clients):
    processes.ask([{"prepare": c["network"], "slot": i} for i, c in enumerate(clients)])
    repeats = []
    for repeat in range(REPEATS + 1):
        begin = time.perf_counter() + 0.02
        repeats.append(processes.ask([{"drive": c["network"], "slot": i, "begin": begin, "offset": networks_measure.offset(i),
                                       "seconds": SECONDS if repeat else 0.1, "period": period(c)}
                                      for i, c in enumerate(clients)]))
    processes.ask([{"forget": True}] * len(clients))
    return repeats[1:]


def predictions():
    with open(os.path.join(HERE, "predictions.json")) as file:
        return json.load(file)


def main(path, ways):
    cases = predictions()
    data = {**networks_measure.describe_without_context(), "runs": []}
    for way in ways:
        shared = None
        if way in ("time-slicing", "mps"):
            shared = networks_measure.Processes({"time-slicing": "timeslice"}.get(way, way), max(len(c["clients"]) for c in cases.values()))
        for name, case in cases.items():
            for setting in case["settings"]:
                if setting["mode"] != way:
                    continue
                clients, own = case["clients"], None
                try:
                    if way == "percentages":
                        own = networks_measure.Processes("mps_percent", len(clients), setting["policy"].rsplit("=", 1)[1].split("/"))
                    repeats = by_processes(shared or own, clients) if shared or own else in_process_of_its_own(
                        name, setting["setting"])
                    data["runs"].append({"case": name, "setting": setting["setting"], "repeats": repeats})
                    print(name, setting["setting"], *(max(r["latencies_us"]) if "latencies_us" in r else r["per_s"] for r in repeats[0]),
                          flush=True)
                except Exception as error:  # one that fails must not cost the others
                    print(name, setting["setting"], "LEFT OUT:", repr(error)[:300], flush=True)
                finally:
                    if own:
                        own.close()
                networks_measure.save(path, data)
        if shared:
            shared.close()


if sys.argv[1] in predictions():
    of = predictions()[sys.argv[1]]
    print(json.dumps(in_process(of["clients"], next(s for s in of["settings"] if s["setting"] == sys.argv[2]))))
else:
    main(sys.argv[1], sys.argv[2:])
