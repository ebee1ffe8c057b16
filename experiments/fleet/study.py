#!/usr/bin/env python3
"""A day of Alibaba's pods on a fleet of GPUs: four placement rules, three ways to share a GPU.

    PYTHONPATH=build/python python3 experiments/fleet/study.py openb_pod_list_default.csv --store build/fleet \\
        --out experiments/fleet/default.json                 # pip install numpy pyarrow 'dask[distributed]'

Prints a table and writes OUT, the same bytes for the same input.  With an empty store it also writes OUT with `.timing.json` for
`.json`: date, command, versions, seconds, what 100,000 GPUs would take.  `--picture FILE.svg` needs matplotlib.
"""

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import platform
import sys
import time
from pathlib import Path

import colocations
import corun
import placement
import pods as pods_of
from placement import EXCLUSIVE
from pods import DAY

RULES = ["first fit", "best fit", "fgd", "interference"]
FAR = 100_000  # GPUs
ANY = next(iter(colocations.MODES))  # all rules but the last place alike in all modes


def rule_of(name, fragmentation, costs):
    if name == "interference":
        known = {company: (cost.held.count(False), sum(cost.progress)) for company, cost in costs.items()}
        return placement.LeastInterference(known.get)
    if name == "fgd":
        return placement.LeastFragmentation(fragmentation)
    return {"first fit": placement.FirstFit, "best fit": placement.BestFit}[name]()


def day(listed, gpus, load, seed, most, name, costs):
    """In a worker: a day to fill the fleet, and a day that counts."""
    drawn = pods_of.draw(listed, gpus, load, 2, seed)
    fragmentation = placement.Fragmentation(listed)
    began = time.process_time()
    outcome = placement.replay(drawn, gpus, rule_of(name, fragmentation, costs), fragmentation, (DAY, 2 * DAY), most)
    return outcome, len(drawn), time.process_time() - began


def figures(outcome, costs, kinds):
    """A row of the table: a rule and a mode. GPUs are means over the day."""
    shared = {c: s for c, s in outcome.gpu_seconds.items() if c and c != EXCLUSIVE}
    alone = outcome.gpu_seconds.get(EXCLUSIVE, 0)
    used = sum(shared.values()) + alone
    good = whole = requests = in_time = best = progress = 0.0
    for company, seconds in shared.items():
        cost = costs[company]
        for name, p, g in zip(company, cost.progress, cost.good):
            whole += seconds * kinds[name].share
            good += seconds * kinds[name].share * g
            if kinds[name].real_time:
                requests, in_time = requests + seconds, in_time + seconds * g
            else:
                best, progress = best + seconds, progress + seconds * p
    held = [all(costs[c].holds(kind) for c in met) for kind, met in outcome.met]
    waits = sorted(outcome.waits)
    numbers = {
        "gpus_in_use": used / DAY,
        "gpus_shared": sum(shared.values()) / DAY,
        "stp_of_shared_gpu": sum(s * sum(costs[c].progress) for c, s in shared.items()) / sum(shared.values()),
        "goodput_of_shared_pods": good / whole,
        "goodput_gpus": (good + alone) / DAY,
        "real_time_pods": len(held),
        "real_time_pods_held": sum(held) / len(held),
        "real_time_requests_in_time": in_time / requests,
        "best_effort_progress": progress / best,
        "pods": len(waits),
        "pods_that_waited": sum(wait > 0 for wait in waits) / len(waits),
        "wait_mean_s": sum(waits) / len(waits),
        "wait_p99_s": waits[int(0.99 * len(waits))],
        "fragmented_gpus": outcome.fragmented,
        "sets_met": len(shared),
    }
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in numbers.items()}


def over_seeds(rows):
    return {key: {"mean": float(f"{sum(row[key] for row in rows) / len(rows):.6g}"), "by_seed": [row[key] for row in rows]}
            for key in rows[0]}


def scale(timing):
    """What a fleet of FAR GPUs would take, from what this run took: the sets stay, the pods and each choice grow."""
    out = {"gpus": FAR, "sets": timing["sets"], "sets_core_s": timing["sets_core_s"], "loop_core_s": {}}
    near, far = timing["loops"]
    for name in RULES:
        a, b = (at["core_s"][name] / at["pods"] for at in (near, far))
        slope = (b - a) / (far["gpus"] - near["gpus"])
        out["pods"] = round(far["pods"] * FAR / far["gpus"])
        out["loop_core_s"][name] = round(out["pods"] * (b + slope * (FAR - far["gpus"])))
    loops = sum(out["loop_core_s"].values()) + (len(colocations.MODES) - 1) * out["loop_core_s"]["interference"]
    out["all_core_h"] = round((out["sets_core_s"] + loops) / 3600, 2)
    return out


COLUMNS = [  # a figure, its heading, its format, by what it is multiplied
    ("gpus_in_use", "GPUs in use", "{:.0f}", 1),
    ("gpus_shared", "of them shared", "{:.0f}", 1),
    ("stp_of_shared_gpu", "STP of a shared GPU", "{:.2f}", 1),
    ("goodput_of_shared_pods", "goodput of sharing pods", "{:.1f} %", 100),
    ("real_time_pods_held", "real-time pods whose p99 held", "{:.1f} %", 100),
    ("real_time_requests_in_time", "their requests in time", "{:.1f} %", 100),
    ("best_effort_progress", "best-effort progress", "{:.1f} %", 100),
    ("pods_that_waited", "pods that waited", "{:.1f} %", 100),
    ("wait_mean_s", "mean wait", "{:.0f} s", 1),
    ("fragmented_gpus", "fragmented GPUs", "{:.1f}", 1),
]


def tables(results):
    yield "| rule | mode | " + " | ".join(title for _, title, _, _ in COLUMNS) + " |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    for row in results["rows"]:
        cells = [form.format(factor * row[key]["mean"]) for key, _, form, factor in COLUMNS]
        yield f"| {row['rule']} | {row['mode']} | " + " | ".join(cells) + " |"
    yield ""
    rows = {(row["rule"], row["mode"]): row for row in results["rows"]}
    for mode in results["modes"]:
        gains = {key: sorted(factor * (b - a) for a, b in zip(rows["first fit", mode][key]["by_seed"],
                                                              rows["interference", mode][key]["by_seed"]))
                 for key, factor in (("real_time_pods_held", 100), ("gpus_in_use", 1))}
        yield (f"{mode}, interference less first fit, in each of {results['seeds']} days: "
               f"{gains['real_time_pods_held'][0]:+.1f} to {gains['real_time_pods_held'][-1]:+.1f} points of real-time pods held, "
               f"{gains['gpus_in_use'][0]:+.0f} to {gains['gpus_in_use'][-1]:+.0f} GPUs in use")


def scale_lines(timing):
    far = timing["far"]
    near, grown = timing["loops"]
    yield f"this run: {timing['wall_s']:.0f} s with {timing['workers']} workers, {timing['core_s']:.0f} s of processors"
    yield f"sets: {far['sets']} in {len(colocations.MODES)} modes, {far['sets_core_s']:.0f} s of a core, whatever the fleet's size"
    for name in RULES:
        yield (f"{name}: {1e6 * near['core_s'][name] / near['pods']:.0f} us a pod on {near['gpus']:,} GPUs, "
               f"{1e6 * grown['core_s'][name] / grown['pods']:.0f} us on {grown['gpus']:,}, so two days of {far['pods']:,} pods "
               f"on {far['gpus']:,}: {far['loop_core_s'][name] / 3600:.2f} h of a core")
    yield f"all rules in all modes on {far['gpus']:,} GPUs: {far['all_core_h']:.2f} h of a core"


def draw_picture(results, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "fleet", "font.size": 9})
    from matplotlib import pyplot

    panels = [("real_time_pods_held", "real-time pods whose p99 held, %", 100),
              ("goodput_of_shared_pods", "goodput of pods that share a GPU, %", 100),
              ("gpus_shared", "GPUs with pods that share, mean of the day", 1)]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(11, 3.2), layout="constrained")
    for axis, (key, title, factor) in zip(axes, panels):
        for i, mode in enumerate(colocations.MODES):
            rows = [row for row in results["rows"] if row["mode"] == mode]
            axis.bar([n + 0.27 * (i - 1) for n in range(len(rows))], [factor * row[key]["mean"] for row in rows], 0.25, label=mode)
        axis.set_xticks(range(len(RULES)), RULES)
        axis.set_title(title, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def write(path, document):
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path, help="openb_pod_list_*.csv of alibaba/clusterdata, cluster-trace-gpu-v2023/csv")
    parser.add_argument("--gpus", type=int, default=1000, help="in nodes of eight")
    parser.add_argument("--load", type=float, default=0.9, help="share of the GPUs that pods would hold if nobody waited")
    parser.add_argument("--most", type=int, default=4, help="pods on a GPU")
    parser.add_argument("--seeds", type=int, default=5, help="days drawn, with the seeds 1, 2, ...")
    parser.add_argument("--grown", type=int, default=10, help="the loop is also timed on a fleet that is larger by this factor")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--store", type=Path, required=True, help="folder of simulated sets; an interrupted run goes on")
    parser.add_argument("--out", type=Path, required=True, help="NAME.json; NAME.timing.json is written beside it")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    if arguments.gpus % placement.NODE:
        parser.error(f"--gpus {arguments.gpus}: give a multiple of {placement.NODE}, the GPUs of a node")

    began = time.monotonic()
    grown = arguments.gpus * arguments.grown
    fresh = not list(arguments.store.glob("*.parquet"))
    try:
        listed, fate = pods_of.read(arguments.list)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sets = pods_of.companies(listed, arguments.most)
    kinds = {company[0].name: company[0] for company in sets if len(company) == 1}
    if len({kind.real_time for kind in kinds.values()}) < 2:
        parser.error(f"{arguments.list}: real-time (LS) and best-effort (BE) pods that ask for a share of a GPU are needed")
    from dask.distributed import Client

    with Client(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=":0") as cluster:
        pool = cluster.get_executor()
        alone = colocations.solo_ms(list(kinds.values()), executor=pool, store=arguments.store)
        before = sum(cluster.run(time.process_time).values())
        costs = colocations.simulate(sets, alone, executor=pool, store=arguments.store)
        sets_core_s = sum(cluster.run(time.process_time).values()) - before

        asked = {}
        for name in RULES:
            for mode in colocations.MODES if name == "interference" else [ANY]:
                for seed in range(1, arguments.seeds + 1):
                    asked[name, mode, seed, arguments.gpus] = pool.submit(
                        day, listed, arguments.gpus, arguments.load, seed, arguments.most, name, costs[mode])
            if fresh:
                asked[name, ANY, 1, grown] = pool.submit(
                    day, listed, grown, arguments.load, 1, arguments.most, name, costs[ANY])
        done = {key: future.result() for key, future in asked.items()}
        core_s = sum(cluster.run(time.process_time).values()) + time.process_time()

    rows = []
    for name in RULES:
        for mode in colocations.MODES:
            placed = mode if name == "interference" else ANY
            rows.append({"rule": name, "mode": mode, **over_seeds(
                [figures(done[name, placed, seed, arguments.gpus][0], costs[mode], kinds)
                 for seed in range(1, arguments.seeds + 1)])})
    met = {company for key, (outcome, _, _) in done.items() if key[3] == arguments.gpus
           for company in outcome.gpu_seconds} - {(), EXCLUSIVE}
    results = {
        "list": arguments.list.name,
        "sha256": hashlib.sha256(arguments.list.read_bytes()).hexdigest(),
        "rows_of_the_list": fate,
        "gpus": arguments.gpus, "load": arguments.load, "most": arguments.most, "seeds": arguments.seeds,
        "pods_of_two_days": done[RULES[0], ANY, 1, arguments.gpus][1],
        "sharing": round(sum(pod.kind is not None for pod in listed) / len(listed), 4),
        "gpu": colocations.GPU, "simulated": colocations.DURATION, "modes": colocations.MODES,
        "alone_ms": {network: round(ms, 6) for network, ms in alone.items()},
        "sets_possible": len(sets), "sets_met": len(met),
        "rows": rows,
    }
    write(arguments.out, results)
    print("\n".join(tables(results)))
    if arguments.picture:
        draw_picture(results, arguments.picture)
    if not fresh:
        return

    timing = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["study.py", *sys.argv[1:]]),
        "versions": {"python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in ("numpy", "pyarrow", "dask")}},
        "corun": corun.__version__,
        "workers": arguments.workers,
        "sets": len(sets),
        "sets_core_s": round(sets_core_s, 1),
        "loops": [{"gpus": gpus, "pods": done[RULES[0], ANY, 1, gpus][1],
                   "core_s": {name: round(done[name, ANY, 1, gpus][2], 2) for name in RULES}}
                  for gpus in (arguments.gpus, grown)],
        "core_s": round(core_s, 1),
        "wall_s": round(time.monotonic() - began, 1),
    }
    timing["far"] = scale(timing)
    write(arguments.out.with_suffix(".timing.json"), timing)
    print("\n".join(["", *scale_lines(timing)]))


if __name__ == "__main__":
    main()
