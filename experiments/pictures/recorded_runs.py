#!/usr/bin/env python3
"""Draws simulated over measured STP of recorded runs.  Needs matplotlib.

    sim validate experiments/h200/policies --json > runs.json
    python3 experiments/pictures/recorded_runs.py runs.json recorded-runs.svg
"""

import json
import sys

BAND = 0.06


def main(arguments):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "runs", "font.size": 9})
    from matplotlib import pyplot

    with open(arguments[0], encoding="utf-8") as file:
        document = json.load(file)
    runs = document["runs"]
    values = [run[which]["stp"] for run in runs for which in ("measured", "simulated")]
    ends = [min(values) * 0.97, max(values) * 1.03]
    figure, axis = pyplot.subplots(figsize=(8, 6), layout="constrained")
    axis.fill_between(ends, [end * (1 - BAND) for end in ends], [end * (1 + BAND) for end in ends], color="#9ca3af", alpha=0.2)
    axis.plot(ends, ends, color="#6b7280", linewidth=1)
    colours = pyplot.get_cmap("tab20").colors
    for i, (policy, errors) in enumerate(sorted(document["policies"].items())):
        mine = [run for run in runs if run["policy"] == policy]
        axis.scatter([run["measured"]["stp"] for run in mine], [run["simulated"]["stp"] for run in mine], s=16, alpha=0.75,
                     color=colours[i % len(colours)], label=f"{policy} ({100 * errors['stp_error_mean']:.1f} %)")
    axis.set(xlim=ends, ylim=ends, aspect="equal", ylabel="simulated STP",
             xlabel=f"measured STP; band: {100 * BAND:.0f} %; in brackets: mean error")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(arguments[1], metadata={"Date": None}, bbox_inches="tight")


if __name__ == "__main__":
    main(sys.argv[1:])
