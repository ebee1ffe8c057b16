#!/usr/bin/env python3
"""Asks the simulator about each case, from the recording of one replica alone, before anything of it is measured.

  predict.py SIM   writes predictions.json beside this file, from alone/: requests a second, p50 and p99 in ms of all replicas
"""
import json
import os
import subprocess
import sys

from cases import CORES, MODES, SERVERS, cases

HERE = os.path.dirname(os.path.abspath(__file__))
DURATION = "2s"


def predict(sim, server, cores, count):
    """By mode."""
    cpus = CORES[cores][0]
    client = f"s={HERE}/alone/{server}.json.gz,eager,closed,replicas={count}" + (f",cpus=0-{cpus - 1}" if cpus else "")
    command = [sim, "compare", "--policies", ",".join(MODES), "--json", "--duration", DURATION, "--client", client]
    results = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["results"]
    found = {}
    for mode, result in zip(MODES, results):
        of = result["servers"][0]
        found[mode] = {"per_s": round(of["throughput_per_s"], 2), "p50_ms": round(of["p50_ms"], 4), "p99_ms": round(of["p99_ms"], 4)}
    return found


def main(sim):
    predictions = []
    for server in SERVERS:
        for cores, (_, counts) in CORES.items():
            for count in counts:
                for mode, row in predict(sim, server, cores, count).items():
                    predictions.append({"server": server, "mode": mode, "cores": cores, "replicas": count} | row)
                    print(predictions[-1], flush=True)
    order = {case: i for i, case in enumerate(cases())}
    predictions.sort(key=lambda p: order[p["server"], p["mode"], p["cores"], p["replicas"]])
    with open(os.path.join(HERE, "predictions.json"), "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(p) for p in predictions) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
