#!/usr/bin/env python3
"""Asks `sim advise` about each case before anything of it is measured, and names eight settings of it.

  predict.py SIM [CASE...]   writes predictions.json beside this file

The settings: the best of each of MODES, the advised one among them, then the next best of percentages and green contexts.
"""
import json
import os
import subprocess
import sys
import tempfile

from cases import CASES, CONTEXT, MODES, arrivals, seconds_of

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = {"time-slicing": "time-slicing", "MPS": "mps", "priorities": "priority", "MPS percentages": "percentages", "green contexts": "green-contexts"}
SETTINGS = 8
ADVISED_S, ADVISED_SERVER_S = 1.5, 5  # of a run; of several seeds, a server's sequences are given


def client_of(case, c, seconds):
    one = {"name": c["network"], "class": "real_time" if "per_s" in c else "best_effort", "priority": c["priority"]}
    if "prefill" in c:
        sequences = [[round(1e9 * at), CONTEXT, c["tokens"]] for at in arrivals(case, c, seconds, seed=1)]  # others than those measured
        return one | {"program": c["decode"] + ".graph", "serving": {
            "steps": [{"program": c["prefill"] + ".graph", "tokens": CONTEXT}, {"program": c["decode"] + ".graph", "batch": c["most"], "context": CONTEXT}],
            "most_at_once": c["most"], "sequences": sequences}}
    one["program"] = c["network"] + ".graph"
    return one | {"arrivals": {"type": "poisson", "rate_per_s": c["per_s"], "stale": "queue"} if "per_s" in c else {"type": "closed_loop", "in_flight": 2}}


def trace_of(case, clients, promised):
    seconds = seconds_of(clients, promised)
    used = sorted({n for c in clients for n in (c.get("prefill", c["network"]), c.get("decode", c["network"]))})
    return {"corun_trace": 1, "gpu": "h200", "include": [os.path.join(HERE, f"../networks/traces/{n}.json.gz") for n in used],
            "clients": [client_of(case, c, seconds) for c in clients], "run": {"duration_ns": round(1e9 * (ADVISED_SERVER_S if any("prefill" in c for c in clients) else ADVISED_S))}}


def in_order(tried, mode, rate):
    """As advise has it: what holds surely, what holds, each by the goal; then what misses by least."""
    kind = [t for t in tried if WORDS.get(t["mode"]) == mode and "refused" not in t]
    return sorted(kind, key=lambda t: (not t["surely"], not t["holds"], (-t["goal"] if rate else t["goal"]) if t["holds"] else t["use"] or float("inf")))


def brief(tried, advised):
    """What judge.py and measure.py read."""
    return {key: tried[key] for key in ("setting", "policy", "holds", "surely", "goal")} | {
        "mode": WORDS[tried["mode"]], "advised": advised, "promises": {p["promise"]: p["value"] for p in tried["promises"]}}


def main(folder, sim, *names):
    cases, written = {}, os.path.join(HERE, "predictions.json")
    if names and os.path.exists(written):
        with open(written) as file:
            cases = json.load(file)
    for case, (clients, promised, goal) in CASES.items():
        if names and case not in names:
            continue
        path = os.path.join(folder, case + ".json")
        with open(path, "w") as file:
            json.dump(trace_of(case, clients, promised), file)
        command = [sim, "advise", path, "--json", "--maximize", goal, "--modes", ",".join(MODES)]
        for slo in promised:
            command += ["--slo", slo]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if ran.returncode not in (0, 3):
            sys.exit(ran.returncode)
        answer = json.loads(ran.stdout)
        ran = [i for i, t in enumerate(answer["tried"]) if t.get("use") is not None]
        named = answer["best"] if answer["best"] is not None else min(ran, key=lambda i: answer["tried"][i]["use"])
        of_modes = {mode: in_order(answer["tried"], mode, goal.endswith("throughput")) for mode in MODES}
        chosen = [answer["tried"][named]] + [of[0] for of in of_modes.values() if of and of[0] is not answer["tried"][named]]
        more = [t for pair in zip(of_modes["percentages"][1:], of_modes["green-contexts"][1:]) for t in pair if t not in chosen]
        chosen += more[:SETTINGS - len(chosen)]
        cases[case] = {"clients": clients, "promised": promised, "goal": goal, "holds": answer["best"] is not None,
                       "settings": [brief(t, t is chosen[0]) for t in chosen]}
        print(case, *promised, "->", chosen[0]["setting"] if answer["best"] is not None else "none holds", flush=True)
    with open(written, "w") as file:
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps({k: v for k, v in case.items() if k != 'settings'})[:-1]},\n  \"settings\": [\n   "
                           + ",\n   ".join(map(json.dumps, case["settings"])) + "]}" for name, case in cases.items())
        file.write("{\n" + lines + "\n}\n")


with tempfile.TemporaryDirectory() as made:
    main(made, *sys.argv[1:])
