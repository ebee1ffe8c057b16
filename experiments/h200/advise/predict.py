#!/usr/bin/env python3
"""Asks `sim advise` about each case before anything of it is measured, and names six settings of it: time-slicing, MPS,
priorities, the percentages and the green contexts that serve best of their kind, and the next best of these two kinds.

  predict.py SIM        writes traces/CASE.json and predictions.json beside this file
  predict.py SIM LATER  afterwards, with another simulator: leaves those as they are, and writes LATER with the settings of
                        predictions.json as it sees them, and with what it advises where that is none of them
"""
import gzip
import json
import os
import statistics
import subprocess
import sys

from cases import CASES, MODES, SECONDS, names, promise_ms

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = {"time-slicing": "time-slicing", "MPS": "mps", "priorities": "priority", "streams of one process": "streams",
         "MPS percentages": "percentages", "green contexts": "green-contexts"}


def trace_of(clients):
    made = []
    for i, (client, name) in enumerate(zip(clients, names(clients))):
        one = {"name": name, "program": client["network"] + ".graph", "class": "best_effort",
               "arrivals": {"type": "closed_loop", "in_flight": 2}}
        if "period_ms" in client:
            one.update({"class": "real_time", "priority": client["priority"], "arrivals": {
                "type": "periodic", "period_ns": client["period_ms"] * 1_000_000, "offset_ns": 700_000 * i, "stale": "keep_newest"}})
        made.append(one)
    used = sorted({c["network"] for c in clients})
    return {"corun_trace": 1, "gpu": "h200", "include": [f"../../networks/traces/{n}.json.gz" for n in used], "clients": made,
            "run": {"duration_ns": round(SECONDS * 1e9)}}


def in_order(answer, modes, value):
    """As advise has it: what holds surely, what holds, each by the goal; then what misses by least."""
    kind = [t for t in answer["tried"] if WORDS[t["mode"]] in modes and "refused" not in t]
    return sorted(kind, key=lambda t: (not t["surely"], not t["holds"], -value(t) if t["holds"] else t["use"] or float("inf")))


def simulated(sim, path, setting):
    """A setting that the search left out."""
    ran = subprocess.run([sim, f"--policy={setting['policy']}", "--json", path], stdout=subprocess.PIPE, check=True)
    return {key: setting[key] for key in ("gpu", "mode", "setting", "policy", "do")} | {"clients": json.loads(ran.stdout)["clients"]}


def main(sim, later=None):
    before = {}
    if later:
        with open(os.path.join(HERE, "predictions.json")) as file:
            before = json.load(file)
    with gzip.open(os.path.join(HERE, "../networks/alone.json.gz")) as file:
        alone = {n: statistics.median(row["graph_ms"]) for n, row in json.load(file)["networks"].items()}
    cases = {}
    for case, (clients, promised, factor, goal) in CASES.items():
        path, called = os.path.join(HERE, "traces", case + ".json"), names(clients)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not later:
            with open(path, "w") as file:
                json.dump(trace_of(clients), file, indent=1)
                file.write("\n")
        slos = [f"{called[i]}:p99={promise_ms(alone[clients[i]['network']], factor)}ms" for i in promised]
        command = [sim, "advise", path, "--json", "--maximize", goal, "--modes", ",".join(MODES)]
        for slo in slos:
            command += ["--slo", slo]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if ran.returncode not in (0, 3):
            sys.exit(ran.returncode)
        answer, (wanted, metric) = json.loads(ran.stdout), goal.rsplit(":", 1)
        def value(t):
            client = next(c for c in t["clients"] if c["name"] == wanted)
            return client["throughput_per_s"] if metric == "throughput" else -client["p99_ms"]
        best = answer["tried"][answer["best"]]["policy"] if answer["best"] is not None else None
        tried = {t["policy"]: t for t in answer["tried"]}
        if later:
            settings = [tried.get(s["policy"]) or simulated(sim, path, s) for s in before[case]["settings"]]
            if best is not None and best not in [s["policy"] for s in settings]:
                settings.append(tried[best])
        else:
            settings = [in_order(answer, [mode], value)[0] for mode in MODES]
            settings.append(next(t for t in in_order(answer, MODES[-2:], value) if t not in settings))
        for s in settings:
            s["mode"], s["advised"] = WORDS.get(s["mode"], s["mode"]), s["policy"] == best
        cases[case] = {"clients": clients, "promised": slos, "goal": goal, "settings": settings}
        print(case, *slos, "->", next((s["setting"] for s in settings if s["advised"]), "none holds"))
    with open(later or os.path.join(HERE, "predictions.json"), "w") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")


main(*sys.argv[1:])
