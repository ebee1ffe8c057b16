#!/usr/bin/env python3
"""What the judged constants of the contention model owe to each kernel: leave_one_out.py RESULT.json

Some constants of an H200's description are judged within what the microbenchmarks leave open, and the errors of
co-run pairs were in view.  For each kernel they are chosen anew without its rows, and its rows are predicted with
that choice; `loss` is what their mean error grows by against the choice with all rows.

The choice is the value set with the least mean error of a client's slowdown among the described one and those
that differ from it in one constant.  A row's prediction does not depend on other rows (accuracy_test), so one
simulation of all rows by value set serves every kernel.
"""
import argparse
import collections
import csv
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
DESCRIPTION = ROOT / "traces/gpus/h200.json"
# Within the ranges that trace_format_test allows for the measurements.
ALTERNATIVES = {
    "dram_write_bytes_per_second": [3.7e12, 4.1e12],
    "dram_queue_full_use": [0.93, 0.97],
    "dram_backlog_factor": [0.005, 0.02],
    "issue_by_age_share": [0.25, 0.75],
    "launch_memory_accesses": [6, 15],
}


def errors_by_pair(arguments, description, folder):
    """Of both clients' slowdowns in all modes, added up."""
    file = pathlib.Path(folder) / "gpu.json"
    file.write_text(json.dumps(description))
    subprocess.run([arguments.sim, "validate", "--reference", arguments.reference, "--gpu", file, "--out",
                    f"{folder}/out", "--json", *(["--modes", arguments.modes] if arguments.modes else [])],
                   check=True, stdout=subprocess.DEVNULL)
    sums, counts = collections.Counter(), collections.Counter()
    with open(f"{folder}/out/rows.csv") as rows:
        for row in csv.DictReader(rows):
            pair, _, what = row["name"].split("/")
            if what != "stp":
                sums[pair] += abs(float(row["simulated"]) / float(row["measured"]) - 1)
                counts[pair] += 1
    return sums, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result")
    parser.add_argument("--sim", default=ROOT / "build/bin/sim")
    parser.add_argument("--reference", default=ROOT / "experiments/reference/h200-corun.json.gz")
    parser.add_argument("--modes", help="only these modes, as streams,half")
    arguments = parser.parse_args()

    described = json.loads(DESCRIPTION.read_text())
    values = {key: described["contention"][key]["value"] for key in ALTERNATIVES}
    sets = [{}] + [{key: value} for key, list_ in ALTERNATIVES.items() for value in list_]
    path = pathlib.Path(arguments.result)
    result = {"constants": values, "modes": arguments.modes or "all", "sets": []}
    if path.exists():  # what an earlier run has done already
        earlier = json.loads(path.read_text())
        if earlier["constants"] == values and earlier["modes"] == result["modes"]:
            result["sets"] = earlier["sets"]
    counts = None
    with tempfile.TemporaryDirectory() as folder:
        for changed in sets[len(result["sets"]):]:
            description = json.loads(json.dumps(described))
            for key, value in changed.items():
                description["contention"][key]["value"] = value
            sums, counts = errors_by_pair(arguments, description, folder)
            result["sets"].append({"changed": changed, "errors": {p: round(s, 6) for p, s in sums.items()}})
            result["clients_by_pair"] = max(counts.values())
            path.write_text(json.dumps(result))
            print(changed or "as described", sum(sums.values()) / sum(counts.values()), flush=True)

    n = result["clients_by_pair"]

    def mean(one, pairs):
        return sum(one["errors"][p] for p in pairs) / (n * len(pairs))

    pairs = list(result["sets"][0]["errors"])
    chosen = min(result["sets"], key=lambda one: mean(one, pairs))
    result["chosen"] = chosen["changed"]
    result["kernels"] = {}
    for kernel in sorted({name for pair in pairs for name in pair.split("+")}):
        out = [p for p in pairs if kernel in p.split("+")]
        anew = min(result["sets"], key=lambda one: mean(one, [p for p in pairs if p not in out]))
        result["kernels"][kernel] = {"chosen_without": anew["changed"], "error": round(mean(chosen, out), 6),
                                     "error_without": round(mean(anew, out), 6),
                                     "loss": round(mean(anew, out) - mean(chosen, out), 6)}
    lines = [f'  {json.dumps(k)}: {json.dumps(v)}' for k, v in result.items() if k not in ("sets", "kernels")]
    lines += ['  "kernels": {\n' + ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in
                                            result["kernels"].items()) + "\n  }"]
    lines += ['  "sets": [\n' + ",\n".join(f"    {json.dumps(s)}" for s in result["sets"]) + "\n  ]"]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for kernel, entry in result["kernels"].items():
        print(f"{kernel:14} {entry['error']:.4f} -> {entry['error_without']:.4f}  {entry['chosen_without'] or 'as described'}")


if __name__ == "__main__":
    main()
