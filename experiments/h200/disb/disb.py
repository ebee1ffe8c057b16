#!/usr/bin/env python3
"""DISB A to E (2024) on a GPU: the networks of traces/h200 with every kernel replaced by `layer` (hw/kernels/layers.cu).

    disb.py make --measure build/bin/measure_gpu          networks.json and disb-*.json, beside this file
    disb.py profile --sim build/bin/sim                   what the kernels and the host cost alone: networks.json, profiles.json
    disb.py run --sim build/bin/sim --policies fcfs,wait  one line per mix and policy in results.json
    disb.py record --sim build/bin/sim --mixes ac         notices and decisions of RECORDED_MS of each, in recordings/

A kernel keeps its number of blocks and threads and, times SCALE, its time; convolutions and products become loops
of multiplications, everything else loads.  How much of either gives a kernel its time is found by measuring.  A request is issued launch by launch, a few microseconds each, where the
recorded ones are graphs of kernels of 2 us; hence SCALE, which makes kernels longer and arrivals rarer alike.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE.parents[2] / "traces" / "h200"
NETWORKS = {"vgg19": "vgg19_b1", "resnet152": "resnet152_b8", "densenet201": "densenet201_b1",
            "inception3": "inception3_b1", "distilbert": "distilbert_b1s128"}
SCALE = 8
ROUNDS = 6
RECORDED_MS = 160
SMS = 132
COMPUTES = re.compile(r"gemm|conv|fprop|winograd|xmma|cutlass|sgemm|attention|fmha", re.I)
MOST_LOADED = 1 << 17  # of 16 bytes each: 2 MiB, which fit the L2 cache as the activations of one picture do


def count(shape):
    return shape[0] * shape[1] * shape[2]


def kernel(name, blocks, threads, loads, rounds, solo_us=1000.0, registers=32):
    loaded = min(MOST_LOADED, 1 << max(0, blocks * threads * loads - 1).bit_length()) if loads else 1
    return {"name": name, "grid": [blocks, 1, 1], "block": [threads, 1, 1], "registers_per_thread": registers,
            "solo_time_ns": max(1, round(solo_us * 1000)),
            "code": {"library": "layers", "function": "layer", "arguments": [
                {"buffer": "f32", "elements": blocks * threads},
                {"buffer": "f32", "elements": 4 * loaded, "fill": {"low": -1, "high": 1}},
                {"u32": loaded - 1}, {"u32": loads}, {"u32": rounds}]}}


def document(name, kernels, **more):
    return {"corun_trace": 1, "name": name, "gpu": "h200", "kernels": kernels, **more}


def recorded(network):
    trace = json.loads((RECORDED / f"{NETWORKS[network]}.json").read_text())
    kernels = {k["name"]: k for k in trace["kernels"]}
    launches = []
    for op in trace["programs"][0]["ops"]:
        if "launch" in op:
            k = kernels[op["launch"]]
            us = op.get("solo_time_ns", k.get("solo_time_ns")) / 1000
            launches.append((bool(COMPUTES.search(k["name"])), count(k["grid"]), count(k["block"]), us))
    return launches


def measured(measure, kernels, folder):
    path = folder / "shapes.json"
    path.write_text(json.dumps(document("shapes", kernels)))
    subprocess.run([*measure, "solo", "--trace", str(path), "--out", str(folder)], check=True)
    return json.loads((folder / "solo.json").read_text())["results"]


def make(arguments):
    folder = pathlib.Path(arguments.scratch)
    folder.mkdir(parents=True, exist_ok=True)
    measure = [arguments.measure] + (["--store", arguments.store] if arguments.store else [])
    all_launches = {n: recorded(n) for n in NETWORKS}
    # By shape and time, in steps of a fifth, so that few kernels serve many launches.
    def step(launch):
        return launch[:3], round(math.log2(launch[3] * SCALE) * 4)

    wanted = sorted({step(l) for launches in all_launches.values() for l in launches})
    length = {w: 16 if w[0][0] else 2 for w in wanted}

    def of(w, **more):
        (computes, blocks, threads), n = w[0], length[w]
        return kernel(f"{'compute' if computes else 'load'} {blocks} x {threads}, {n}", blocks, threads,
                      0 if computes else n, n if computes else 0, **more)

    for _ in range(ROUNDS):  # times are nearly proportional to lengths, but for what a launch costs anyway
        times = measured(measure, list({k["name"]: k for k in (of(w) for w in wanted)}.values()), folder)
        for w in wanted:
            ratio = 2 ** (w[1] / 4) / max(times[of(w)["name"]]["us"], 0.5)
            if not 0.9 < ratio < 1.1:
                length[w] = max(1, round(length[w] * min(max(ratio, 0.05), 20)))
    times = measured(measure, list({k["name"]: k for k in (of(w) for w in wanted)}.values()), folder)
    kernels = {}
    for w in wanted:
        t = times[of(w)["name"]]
        kernels[of(w)["name"]] = of(w, solo_us=t["us"], registers=t["registers"])
    kernels = list(kernels.values())
    programs = [{"name": NETWORKS[n], "streams": ["main"],
                 "ops": [{"launch": of(step(l))["name"]} for l in launches]}
                for n, launches in all_launches.items()]
    write(HERE / "networks.json", document(
        "networks of one kernel", kernels, programs=programs,
        about=f"traces/h200, every kernel replaced by hw/kernels/layers.cu, {SCALE} times as long; by disb.py"))
    for n, launches in all_launches.items():
        ours = sum(times[of(step(l))["name"]]["us"] for l in launches)
        print(f"{n}: {len(launches)} launches, {sum(l[3] for l in launches) * SCALE:.0f} us wanted, {ours:.0f} us got")
    mixes()


def write(path, document):
    """A line for each kernel, program and client."""
    text = "{\n"
    for i, (key, value) in enumerate(document.items()):
        text += f' "{key}": '
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text += "[\n  " + ",\n  ".join(json.dumps(v) for v in value) + "\n ]"
        else:
            text += json.dumps(value)
        text += ",\n" if i + 1 < len(document) else "\n"
    path.write_text(text + "}\n")


def mixes():
    for letter in "abcde":
        example = json.loads((RECORDED / "examples" / f"disb-2024-{letter}.json").read_text())
        for client in example["clients"]:
            client.pop("issue", None)
            arrivals = client.get("arrivals", {})
            if "period_ns" in arrivals:
                arrivals["period_ns"] *= SCALE
            if "rate_per_s" in arrivals:
                arrivals["rate_per_s"] /= SCALE
        write(HERE / f"disb-{letter}.json", {
            "corun_trace": 1, "name": example["name"] + f", times {SCALE}", "gpu": "h200", "include": ["networks.json"],
            "clients": example["clients"], "run": {"duration_ns": 3_600_000_000}})


def profile(arguments):
    """Adds to each kernel of networks.json what is measured of it alone, and writes profiles.json, what the host costs.

    Solo times stay as `make` measured them, between two events as the backend launches kernels; `sim profile` times
    rows of launches.  So its times get what solo times have more in the median (a few kernels that load are twice as
    fast in one measurement as in the next)."""
    networks = json.loads((HERE / "networks.json").read_text())
    kernels = pathlib.Path(arguments.kernels or pathlib.Path(arguments.scratch) / "kernels.json")
    if not arguments.kernels:
        kernels.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([arguments.sim, "profile", "--backend=cuda", "--no-points", "--kernels", str(kernels), "-o",
                        str(HERE / "profiles.json"), str(HERE / "networks.json")]
                       + (["--store", arguments.store] if arguments.store else []), check=True)
    alone = {k["name"]: k for k in json.loads(kernels.read_text())["kernels"]}
    more = statistics.median(k["solo_time_ns"] - alone[k["name"]]["solo_time_ns"] for k in networks["kernels"])
    for k in networks["kernels"]:
        found = alone[k["name"]]
        for key in ("solo_time_by_sms_ns", "persistent_time_by_ctas_ns"):
            k[key] = {n: round(t + more) for n, t in found[key].items()}
        k["stoppable"] = {**found["stoppable"], "time_ns": round(found["stoppable"]["time_ns"] + more)}
        k["counters"] = {n: c for n, c in found.get("counters", {}).items() if n != "pipes_pct"}
        k["code"] = k.pop("code")
    write(HERE / "networks.json", networks)


def write_results(results):
    (HERE / "results.json").write_text(
        "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in results.items()) + "\n}\n")


def add_result(results, key, summary):
    clients = {c["name"]: {k: c.get(k) for k in ("class", "finished", "dropped", "mean_ms", "p50_ms", "p99_ms",
                                                 "throughput_per_s")}
               for c in summary["clients"]}
    results[key] = {"clients": clients, "notes": summary.get("notes", []), "duration_ms": summary.get("duration_ms")}
    print(key, {n: (c["p50_ms"], c["p99_ms"], c["throughput_per_s"]) for n, c in clients.items()}, flush=True)
    write_results(results)


def run(arguments):
    path = HERE / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    more = ["--duration", arguments.duration] if arguments.duration else []
    for letter in arguments.mixes:
        trace = str(HERE / f"disb-{letter}.json")
        if arguments.backend == "sim":  # with what the backend's host side costs; kernels are fitted once a mix
            text = subprocess.run([arguments.sim, "compare", "--json", f"--policies={arguments.policies}", "--profiles",
                                   str(HERE / "profiles.json"), trace] + more, check=True, stdout=subprocess.PIPE).stdout
            for policy, summary in zip(arguments.policies.split(","), json.loads(text)["results"]):
                add_result(results, f"sim {letter} {policy}", summary)
            continue
        for policy in arguments.policies.split(","):
            done = subprocess.run([arguments.sim, "--backend=cuda", f"--policy={policy}", "--json", trace, "--no-alone",
                                   "--verify"] + (["--store", arguments.store] if arguments.store else []) + more,
                                  capture_output=True, text=True)
            key = f"cuda {letter} {policy}"
            if done.returncode != 0:
                print(key, "failed:", done.stderr.strip()[-400:], flush=True)
                results[key] = {"failed": done.stderr.strip()[-400:]}
                continue
            add_result(results, key, json.loads(done.stdout))


def record(arguments):
    folder = HERE / "recordings"
    folder.mkdir(exist_ok=True)
    for letter in arguments.mixes:
        for policy in arguments.policies.split(","):
            file = folder / f"{letter}.{re.sub('[^a-z-]', '_', policy)}.jsonl.gz"
            subprocess.run([arguments.sim, "--backend=cuda", f"--policy={policy}", "--no-alone", "--verify", "--json",
                            "--duration", f"{RECORDED_MS}ms", "--record", str(file), str(HERE / f"disb-{letter}.json")]
                           + (["--store", arguments.store] if arguments.store else []),
                           check=True, stdout=subprocess.DEVNULL)
            print(file.name, file.stat().st_size, flush=True)


def table():
    """Real-time latency (all real-time clients' mean, and the worst p99) and best-effort requests a second."""
    results = json.loads((HERE / "results.json").read_text())
    for key, result in results.items():
        if "clients" not in result:
            print(f"| {key} | failed |")
            continue
        rt = [c for n, c in result["clients"].items() if n.endswith("_rt")]
        be = [c for n, c in result["clients"].items() if n.endswith("_be")]
        backend, letter, policy = key.split(" ")
        print(f"| {backend} | {letter.upper()} | {policy} | {sum(c['mean_ms'] or 0 for c in rt) / len(rt):.2f} | "
              f"{max(c['p99_ms'] or 0 for c in rt):.2f} | {sum(c['throughput_per_s'] for c in be):.1f} |")


def free():
    """The share of the SMs that REEF's rule would leave to a padding, over each network's time."""
    networks = json.loads((HERE / "networks.json").read_text())
    kernels = {k["name"]: k for k in networks["kernels"]}
    for program in networks["programs"]:
        used = all_time = 0.0
        for op in program["ops"]:
            kernel_ = kernels[op["launch"]]
            blocks, time = count(kernel_["grid"]), kernel_["solo_time_ns"]
            partition = math.ceil(blocks / math.ceil(blocks / SMS))
            used += time * partition / SMS
            all_time += time
        print(f"{program['name']}: {1 - used / all_time:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "profile", "mixes", "run", "record", "table", "free"])
    parser.add_argument("--measure", default="measure_gpu")
    parser.add_argument("--sim", default="sim")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--store", default="")
    parser.add_argument("--kernels", default="", help="profile: as `sim profile --kernels` has written it, not measured now")
    parser.add_argument("--scratch", default=pathlib.Path(tempfile.gettempdir()) / "disb")
    parser.add_argument("--mixes", default="abcde")
    parser.add_argument("--duration", default="")
    parser.add_argument("--policies", default="fcfs,priority,timeslice,mps,wait,reef-n,reef-n:padding=on")
    given = parser.parse_args()
    with_arguments = {"make": make, "profile": profile, "run": run, "record": record}
    sys.exit(with_arguments[given.action](given) if given.action in with_arguments
             else {"mixes": mixes, "table": table, "free": free}[given.action]())
