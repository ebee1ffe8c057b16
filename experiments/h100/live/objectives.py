#!/usr/bin/env python3
"""A real-time program whose requests come at a period, beside each set of one and two best-effort programs that make one request after the
other, under each policy; what each gives by three objectives: the real-time program's p99, the share of its requests that take longer than its
SLO, and system throughput (the sum of what programs get done as a share of alone; of the real-time one, of what comes).

  objectives.py measure SIM OUT.json FOLDER SECONDS PERIOD_MS SLO_MS "MODE[;MODE...]" REAL_TIME BEST_EFFORT...
      MODE: mps, turns, or a policy of `sim serve`; the first also runs each program alone
  objectives.py show FILE.json.gz           who wins by which objective; anywhere
  objectives.py compare SIM FILE.json.gz    the same, simulated beside measured; anywhere
"""
import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../h200/live"))
import sets  # noqa: E402

OBJECTIVES = {"p99": min, "late": min, "stp": max}


def measure(sim, path, folder, seconds, period_ms, slo_ms, modes, *programs):
    data = {"gpu": sets.gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "seconds": float(seconds), "period_ms": float(period_ms), "slo_ms": float(slo_ms),
            "programs": programs, "runs": []}
    beside = [(programs[0], *s) for n in (1, 2) for s in itertools.combinations(programs[1:], n)]
    for i, mode in enumerate(modes.split(";")):
        began = time.time()
        ran = ([(p,) for p in programs] if i == 0 else []) + beside
        data["runs"].append(sets.run(sim, folder, mode, float(seconds), programs, ran, float(period_ms), float(slo_ms)))
        with open(path, "w") as file:
            json.dump(data, file)
        print(f"{mode} ({time.time() - began:.0f} s)", data["runs"][-1]["failed"] or "", json.dumps((data["runs"][-1]["service"] or {}).get("looks")), flush=True)


def outcomes(data):
    """By set and mode: each objective."""
    real_time, alone, all_ = data["programs"][0], {}, {}
    for run in data["runs"]:  # a host's speed differs from round to round: the fastest counts, beside others too
        for row in run["sets"]:
            for p, r in row.items():
                alone[p] = max(r["per_s"], alone.get(p, 0))
    for run in data["runs"]:
        for row in run["sets"]:
            if len(row) == 1:
                continue
            rt, comes = row[real_time], data["seconds"] * 1e3 / data["period_ms"]
            ms = rt["ms"] + [data["slo_ms"] * 2] * max(0, int(comes) - len(rt["ms"]) - 1)  # those that had not begun when the round was over
            shares = {p: min(1, len(rt["ms"]) / comes) if p == real_time else r["per_s"] / alone[p] for p, r in row.items()}
            kept_up = len(rt["ms"]) > 0.95 * comes
            all_.setdefault("+".join(row), {})[run["mode"]] = {
                "p99": sorted(ms)[int(0.99 * (len(ms) - 1))] if kept_up else float("inf"), "late": sum(x > data["slo_ms"] for x in ms) / len(ms),
                "stp": sum(shares.values()), "shares": shares}
    return all_


def simulated(sim, data):
    """The same, of the simulation."""
    import compare
    real_time, all_ = data["programs"][0], {}
    looks = {run["mode"]: (run["service"] or {}).get("looks") for run in data["runs"]}
    card = "h100-sxm" if "H100" in data["gpu"] else "h200"
    for run in data["runs"]:
        for row in run["sets"]:
            if len(row) == 1:
                continue
            mode = run["mode"]
            clients = []
            for i, p in enumerate(row):
                of_mode = compare.part(data["programs"], run, p) if mode == "tpc-mask:split=even" else ""
                how = f"rt,rate={1e3 / data['period_ms']},queue,slo={data['slo_ms']}ms" if p == real_time else "be,closed"
                priority = ",priority=-5" if p == real_time and mode not in sets.PLAIN else ""
                clients += ["--client", f"{p}={compare.trace_of(p, card)},{how},process={i}{priority}{of_mode}"]
            policy = "tpc-mask" if of_mode else {"mps": "fcfs", "turns": "timeslice"}.get(mode, mode)
            served = ["--as-served=8"] if mode not in sets.PLAIN else []
            if looks[mode]:
                served.append(f"--look-us={round(looks[mode]['mean_us'])}")
            said = subprocess.run([sim, "--gpu=" + card, "--policy=" + policy, "--duration=2s", "--json", *served, *clients], capture_output=True, text=True)
            if said.returncode:
                sys.exit(said.stderr)
            of = {c["name"]: c for c in json.loads(said.stdout)["clients"]}
            rt = of[real_time]
            all_.setdefault("+".join(row), {})[mode] = {
                "p99": rt["p99_ms"] if rt["throughput_per_s"] * data["period_ms"] > 950 else float("inf"), "late": min(1, rt["deadline_misses"] / max(1, rt["finished"])),
                "stp": sum(c["progress"] for c in of.values()), "shares": {p: c["progress"] for p, c in of.items()}}
    return all_


def objective_of(mode):
    return "late" if "objective=deadlines" in mode else "stp" if "objective=stp" in mode else "p99"


def wins(all_):
    """`lookahead` under each objective against every other policy by that objective: a hundredth counts as equal, of late requests half of one,
    and two p99 of programs that fall behind."""
    for mode in next(iter(all_.values())):
        if not mode.startswith("lookahead"):
            continue
        by = objective_of(mode)
        for other in next(iter(all_.values())):
            if other.startswith("lookahead"):
                continue
            won = lost = even = 0
            for of_set in all_.values():
                if mode not in of_set or other not in of_set:
                    continue
                a, b = of_set[mode][by], of_set[other][by]
                near = abs(a - b) <= 0.005 if by == "late" else a == b or (max(a, b) < float("inf") and abs(a - b) <= 0.01 * max(a, b))
                better = a > b if by == "stp" else a < b
                won, lost, even = won + (not near and better), lost + (not near and not better), even + near
            print(f"  {mode:44} by {by:5} against {other:32} {won} won, {lost} lost, {even} even")


def table(all_, beside=None):
    for of_set, modes in all_.items():
        print(of_set)
        for mode, o in modes.items():
            line = f"  {mode:44}"
            for name, form in (("p99", "{:7.2f} ms"), ("late", "{:6.1%}"), ("stp", "{:5.2f}")):
                line += f"  {name} " + form.format(o[name]) + (" (" + form.format(beside[of_set][mode][name]).strip() + ")" if beside else "")
            print(line + "  " + ", ".join(f"{p} {x:.2f}" for p, x in o["shares"].items()))


def load(path):
    with gzip.open(path) as file:
        return json.load(file)


def main(what, *arguments):
    if what == "measure":
        return measure(*arguments)
    data = load(arguments[-1])
    print(f"{os.path.basename(arguments[-1])}: {data['gpu']}, {data['date']}; {data['programs'][0]} each {data['period_ms']} ms, SLO {data['slo_ms']} ms")
    for run in data["runs"]:
        if looks := (run["service"] or {}).get("looks"):
            print(f"{run['mode']}: a decision takes {run['service']['decision_us']['p50']:.2f} us, {run['service']['decision_us']['p99']:.2f} at p99; what was "
                  f"foretold came {looks['mean_us'] / 1e3:.2f} ms after it was asked for in the mean, {looks['heard']} times")
    measured = outcomes(data)
    there = simulated(arguments[0], data) if what == "compare" else None
    table(measured, there)
    print("measured:")
    wins(measured)
    if there:
        errors = {m: [there[s][m]["stp"] / o["stp"] - 1 for s, ms in measured.items() for k, o in ms.items() if k == m] for m in next(iter(measured.values()))}
        print("simulated:")
        wins(there)
        for mode, e in errors.items():
            print(f"error of STP under {mode:44} {100 * statistics.mean(map(abs, e)):4.1f}% in the mean, {100 * max(e, key=abs):+.1f}% at most")


if __name__ == "__main__":
    main(*sys.argv[1:])
