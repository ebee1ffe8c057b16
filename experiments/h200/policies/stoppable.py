#!/usr/bin/env python3
"""Adds to kernels.json how each kernel runs where a policy may stop it: from another solo measurement on the
same kind of card, ../persistent_kernels/overhead.json, its time over the plain kernel's.  For files that `sim
profile --backend=cuda` made before it measured this itself.

    experiments/h200/policies/stoppable.py
"""
import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
KERNELS = HERE / "kernels.json"


def main():
    overhead = json.loads((HERE.parent / "persistent_kernels" / "overhead.json").read_text())
    ways = {}
    for result in overhead["results"]:
        for variant in result["variants"]:
            if variant["name"] == "stoppable":
                ways[result["kernel"]] = (1 + variant["over_plain"], not variant["once"])
    text = re.sub(r' *"stoppable": \{.*\},\n', "", KERNELS.read_text())
    for kernel in json.loads(text)["kernels"]:
        if kernel["name"] not in ways:
            continue
        longer, stay = ways[kernel["name"]]
        line = json.dumps({"time_ns": round(kernel["solo_time_ns"] * longer, 3), "workers_stay": stay})
        at = text.index('"counters"', text.index('"name": "%s"' % kernel["name"]))
        at = text.rindex("\n", 0, at) + 1
        text = text[:at] + '      "stoppable": ' + line + ",\n" + text[at:]
    json.loads(text)
    KERNELS.write_text(text)


main()
