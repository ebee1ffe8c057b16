#!/usr/bin/env python3
"""Makes what `sim validate` reads of the measured files beside it: a trace a network, a trace a mix and networks.json.gz.

  collect.py SIM [FOLDER GPU]   SIM: the `sim` command, which imports the recordings; FOLDER: of the measured
                                files, GPU: its description; without them the folder of this program, and h200
"""
import ast
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

FOLDER = sys.argv[2:4] if __name__ == "__main__" and len(sys.argv) > 3 else [os.path.dirname(os.path.abspath(__file__)), "h200"]
HERE, GPU = os.path.abspath(FOLDER[0]), FOLDER[1]
POLICIES = {"streams": "fcfs", "priority": "priority", "halves": "tpc-mask", "timeslice": "timeslice", "mps": "mps",
            "mps_percent": "mps:percentages="}
# Where libraries choose kernels for the SMs that they have: the recording on those of the first client, and of the others.
PARTS = {"mps_percent": ("mps40", "mps60"), "halves": ("half", "half")}
SMS = {"half": ["--sms", "66"]}  # of what a recording does not say
SCHEMA = "../../../../traces/schema/trace.schema.json"  # from traces/ and mixes/
FIRST_HALF, SECOND_HALF = "0-32", "33-65"  # TPCs, under `halves`: the first client's, the others'


def load(name):
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        return None
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        return json.load(file)


def save(name, data):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if path.endswith(".gz"):
        with open(path, "wb") as file:
            file.write(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))  # the same bytes again
    else:
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
            file.write("\n")


def set_aside():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "networks.py")) as file:  # to import it needs PyTorch
        for statement in ast.parse(file.read()).body:
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "SET_ASIDE":
                return ast.literal_eval(statement.value)


def trace_of(sim, name, issue, *options):
    # Of the whole GPU, and of what libraries choose on that part of it.
    files = [path for part in ("", "." + issue) if os.path.exists(path := os.path.join(HERE, "counters", name + part + ".csv.gz"))]
    with tempfile.TemporaryDirectory() as folder:
        out, counters = os.path.join(folder, "trace.json"), os.path.join(folder, name + ".csv.gz")
        with gzip.open(counters, "wb") as file:
            file.writelines(gzip.open(path).read() for path in files)
        command = [sim, "import", "kineto", os.path.join(HERE, "recordings", f"{name}.{issue}.json.gz"), "--gpu", GPU,
                   "-o", out, *(["--counters", counters] if files else []), *SMS.get(issue, []), *options]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        with open(out) as file:
            return json.load(file) | {"$schema": SCHEMA}


def in_a_row(trace):
    """A request with other calls than its graph, as a training step's: its host works ahead, as it did when it was measured."""
    if trace["programs"][0].get("issue") != "graph":
        trace["clients"][0]["arrivals"] = {"type": "closed_loop", "in_flight": 2}
    return trace


def eager_trace_of(sim, name, told_ms):
    """In a row, as it was measured: the host waited for nothing until all of a batch were issued.  It is the recording
    that waits at the end of its one."""
    trace = trace_of(sim, name, "eager", "--request-time", f"{statistics.mean(told_ms)}ms")
    program, client = trace["programs"][0], trace["clients"][0]
    if program["ops"][-1].get("sync"):
        program["ops"].pop()
    # Within a request, or streams for each other: then none is issued ahead of it.
    waits = any(op.get("sync") or op.get("stream") for op in program["ops"])
    client["arrivals"] = {"type": "closed_loop", "in_flight": 1 if waits else 8}
    return trace


def client_names(mix):
    names = [c["network"] for c in mix]
    return [n if names.count(n) == 1 else f"{n}-{names[:i].count(n) + 1}" for i, n in enumerate(names)]


def mix_trace(mix, programs, seconds, parts):
    """`parts`: of the first client and of the others, which recording."""
    clients, used = [], [c["network"] + parts[min(i, 1)] for i, c in enumerate(mix)]
    used = [u if u in programs else c["network"] for u, c in zip(used, mix)]
    for i, (c, name) in enumerate(zip(mix, client_names(mix))):
        client = {"name": name, "program": programs[used[i]], "tpc_mask": SECOND_HALF if i else FIRST_HALF}
        if "period_ms" in c:
            client.update({"class": "real_time", "priority": -5, "arrivals": {
                "type": "periodic", "period_ns": c["period_ms"] * 1_000_000, "offset_ns": 700_000 * i,
                "stale": "keep_newest"}})
        else:
            client.update({"class": "best_effort", "arrivals": {"type": "closed_loop", "in_flight": 2}})
        clients.append(client)
    return {"corun_trace": 1, "gpu": GPU, "include": [f"../traces/{n}.json.gz" for n in sorted(set(used))], "clients": clients,
            "run": {"duration_ns": round(seconds * 1e9)}}


def policy_of(mode, mix, percentages):
    shares = [str(percentages[min(i, 1)]) for i in range(len(mix))]
    return POLICIES[mode] + ("/".join(shares) if mode == "mps_percent" else "")


def measured_in(what):
    """The files of several calls: WHAT.json.gz, WHAT-2.json.gz, ..."""
    names = [what + ".json.gz"]
    while (part := load(names[-1])) is not None:
        yield names[-1], part
        names.append(f"{what}-{len(names) + 1}.json.gz")


def networks_in(what):
    """What these files have by network; the first of them also says on what it was measured."""
    first, by_network = None, {}
    for _, part in measured_in(what):
        first = first or part
        by_network.update(part["networks"])
    return first, by_network


def states(run):
    """Mean clock and power of the GPU in each repeat, where they were measured."""
    seen = [{"mhz": s["mhz"][1], "watts": s["watts"]} for s in run.get("gpu", []) if s]
    return {"gpu": seen} if seen else {}


def collect(sim):
    (first, alone), aside, programs = networks_in("alone"), set_aside(), {}
    _, eager = networks_in("eager")
    data = {"corun_networks": 1, **{k: first[k] for k in ("device", "driver", "cuda", "pytorch", "date")},
            "networks": [], "mixes": [], "runs": []}
    for name, measured in alone.items():
        for part in ("", *(f".{p}" for p in sorted({p for parts in PARTS.values() for p in parts}))):
            if not os.path.exists(os.path.join(HERE, "recordings", f"{name}.{part[1:] or 'graph'}.json.gz")):
                continue  # the profiler lost its kernels
            trace = in_a_row(trace_of(sim, name, part[1:] or "graph"))
            programs[name + part] = trace["programs"][0]["name"]
            save(f"traces/{name}{part}.json.gz", trace)
        row = {"name": name, "about": measured["about"], "trace": f"traces/{name}.json.gz", "set_aside": name in aside,
               "graph_ms": measured["graph_ms"]}
        if name in eager and os.path.exists(os.path.join(HERE, "recordings", f"{name}.eager.json.gz")):
            row |= {"eager_trace": f"traces/{name}.eager.json.gz", "eager_ms": eager[name]["eager_ms"]}
            save(row["eager_trace"], eager_trace_of(sim, name, eager[name]["told_ms"]))
        data["networks"].append(row)
    mixes, seconds = {}, {}
    for mode in POLICIES:
        for file, measured in measured_in(mode):
            for name, run in measured["mixes"].items():
                assert run["clients"] == mixes.setdefault(name, run["clients"]), (file, name)
                assert not any((r["mix"], r["mode"]) == (name, mode) for r in data["runs"]), f"{file}: {name} again"
                seconds[name] = run["seconds"]
                data["runs"].append({
                    "mix": name, "mode": mode, "policy": policy_of(mode, run["clients"], measured["percentages"]),
                    "measured_in": file, **states(run),
                    "clients": [[repeat[i] for repeat in run["repeats"]] for i in range(len(run["clients"]))]})
    for name, mix in mixes.items():
        save(f"mixes/{name}.json", mix_trace(mix, programs, seconds[name], ("", "")))
        by_mode = {mode: f"mixes/{name}.{mode}.json" for mode in PARTS if any(r["mode"] == mode for r in data["runs"])}
        for mode, file in by_mode.items():
            save(file, mix_trace(mix, programs, seconds[name], [f".{part}" for part in PARTS[mode]]))
        data["mixes"].append({"name": name, "trace": f"mixes/{name}.json", "trace_by_mode": by_mode,
                              "networks": [c["network"] for c in mix]})
    save("networks.json.gz", data)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    collect(os.path.abspath(sys.argv[1]))
