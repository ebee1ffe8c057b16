#!/usr/bin/env python3
"""Live runs beside the simulation of the same programs, captured alone, under the same policies.  What programs get done is a share of
what they do alone.  A host's speed differs from process to process: of stp.py's runs, the simulated host of a program that waits for its
host is as fast as that process was alone.

  compare.py SIM [ARRIVALS.txt.gz] MEASURED.json.gz...   SIM: the `sim` command; MEASURED: of measure.py or stp.py
ARRIVALS: the real-time program's requests come as these did, seconds, a line each, at the measured rate; else each a period after the last.
"""
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = {p: f"traces/{p}.json.gz" for p in ("decode-graph", "train", "prefill", "vision-graph", "decode", "vision", "encoder-graph", "own")}
SIMULATED = {"mps": "fcfs", "turns": "timeslice"}
AHEAD_US = "20"  # where a mode does not say
LOOK_US = "1150"  # from asking to hearing what `lookahead` foretells (../../h100/live/objectives-1.json.gz: 1,115, 1,155 and 1,194 us in the mean)
GROUPS = [4] * 15 + [6]  # TPCs, of an H100 or H200, as its driver parts it
HOST_BOUND = ("train", "decode", "vision")  # alone their GPU waits for the host
HALVINGS = 8  # of the factor by which a host is slower: to 1 %
RATES = (0.98, 0.99, 1, 1.01, 1.02)  # of the measured one: where two programs' periods agree a p99 is of a few phases


def trace_of(program, card):
    """As captured on that card, else on an H200: then its kernels are carried over."""
    own = os.path.join(HERE, "../../h100/live/traces", program + ".json.gz")
    return own if card == "h100-sxm" and os.path.exists(own) else os.path.join(HERE, TRACES[program])


def card_of(measured):
    return "--gpu=h100-sxm" if "H100" in measured["gpu"] else "--gpu=h200"


def part(programs, run, program):
    """TPCs that the service gave it, running or not: as many as it says that it has SMs; of even splits from before it said so, the groups of
    which more than half of the TPCs are in its share, or half with the first (hw/live/groups.h)."""
    said = {p["name"]: p["sms"] // 2 for p in (run["service"] or {}).get("programs", []) if "sms" in p}
    if set(said) != set(programs):  # some had ended, or the service is from before it said so
        if "tpcs=" in run["mode"]:
            sys.exit(f"{run['mode']}: the service does not say how many SMs each of {', '.join(programs)} has")
        starts = [sum(GROUPS[:g]) for g in range(len(GROUPS))]
        for i, p in enumerate(programs):
            share = range(sum(GROUPS) * i // len(programs), sum(GROUPS) * (i + 1) // len(programs))
            inside = [sum(t in share for t in range(start, start + size)) for start, size in zip(starts, GROUPS)]
            said.setdefault(p, sum(size for n, start, size in zip(inside, starts, GROUPS) if 2 * n > size or 2 * n == size and start in share))
    first = sum(said[p] for p in programs[:programs.index(program)])
    return f",tpcs={first}-{first + said[program] - 1}"


def simulate(sim, gpu, policy, served, clients, rates, arrivals_per_s=1):
    """Of each client what its result says, in the median of the rates.  None of a policy that --as-served refuses."""
    of_rates = []
    if served and policy.startswith("lookahead"):
        served = [*served, "--look-us=" + LOOK_US]
    for rate in rates:
        clients_now = [c.replace("RATE", f"{rate:.3f}").replace("SPEED", f"{rate / arrivals_per_s:.6f}") for c in clients]
        said = subprocess.run([sim, gpu, "--policy=" + policy, "--duration=2s", "--json", *served, *clients_now], capture_output=True, text=True)
        if said.returncode == 2 and "--persistent" in said.stderr:
            return None
        said.check_returncode()
        of_rates.append({c["name"]: c | {"kept_up": c["throughput_per_s"] / rate} for c in json.loads(said.stdout)["clients"]})
    return {name: {k: statistics.median(r[name][k] for r in of_rates) for k in ("p50_ms", "p99_ms", "progress", "kept_up", "throughput_per_s")} for name in of_rates[0]}


def at_speed(sim, gpu, policy, served, program, per_s, folder):
    """The program's trace with its host's gaps longer or shorter by a factor, so that alone it does `per_s` requests a second."""
    with gzip.open(trace_of(program, gpu[6:])) as file:
        trace = json.load(file)
    gaps = [(op, op["host_gap_ns"]) for op in trace["programs"][0]["ops"] if "host_gap_ns" in op]
    path, low, high = os.path.join(folder, program + ".json"), 0.25, 4
    for _ in range(HALVINGS):
        factor = (low * high) ** 0.5
        for op, gap in gaps:
            op["host_gap_ns"] = round(gap * factor, 2)
        with open(path, "w") as file:
            json.dump(trace, file)
        alone = simulate(sim, gpu, policy, served, ["--client", f"{program}={path},closed,be"], [1])
        low, high = (factor, high) if alone[program]["throughput_per_s"] > per_s else (low, factor)
    return path


def simulated_sets(sim, measured, run, alone, folder):
    """What each program of each set gets done, as a share of alone; None of a policy that --as-served refuses."""
    gpu, mode = card_of(measured), run["mode"].split()[0]  # without the service's further options
    policy = "tpc-mask" if mode.startswith("tpc-mask:split=even") else SIMULATED.get(mode, mode)
    served = ["--as-served=8"] if mode not in SIMULATED else []
    traces = {p: trace_of(p, gpu[6:]) for p in measured["programs"]}
    fitted = {}
    if policy != "tpc-mask":  # alone on a part of the GPU it waits for its kernels
        fitted = {p: at_speed(sim, gpu, policy, served, p, r["per_s"], folder) for row in run["sets"] if len(row) == 1 for p, r in row.items() if p in HOST_BOUND}
    for row in run["sets"]:
        if len(row) == 1:
            continue
        clients = []
        for i, p in enumerate(row):
            real_time = served and p == measured["programs"][0]
            clients += ["--client", f"{p}={(traces | fitted)[p]},closed,process={i}," + ("rt,priority=-5" if real_time else "be") +
                        (part(measured["programs"], run, p) if policy == "tpc-mask" else "")]
        said = simulate(sim, gpu, policy, served, clients, [1])
        yield row, said and {p: r["throughput_per_s"] / alone[p] if p in fitted or policy == "tpc-mask" and p in HOST_BOUND else r["progress"] for p, r in said.items()}


def alone_in(measured):
    """Requests a second of each program alone; the fastest of its runs counts."""
    alone = {}
    for run in measured["runs"]:
        for row in run["sets"]:
            if len(row) == 1:
                alone |= {p: max(r["per_s"], alone.get(p, 0)) for p, r in row.items()}
    return alone


def shares_of(sim, measured, modes=None, programs=None):
    """(mode, measured, simulated) of each set of programs, or of those named: what each program gets done, as a share of alone.  None: not simulated."""
    alone = alone_in(measured)
    with tempfile.TemporaryDirectory() as folder:
        for run in measured["runs"]:
            if modes and run["mode"] not in modes:
                continue
            chosen = dict(run, sets=[row for row in run["sets"] if programs is None or set(row) <= set(programs)])
            for row, there in simulated_sets(sim, measured, chosen, alone, folder):
                yield run["mode"], {p: r["per_s"] / alone[p] for p, r in row.items()}, there


def throughput(sim, measured, path):
    """STP of each set of programs, measured and simulated."""
    print(f"{os.path.basename(path)}: what programs get done, as a share of alone; simulated in brackets")
    print("alone: " + ", ".join(f"{p} {per_s:.1f} /s" for p, per_s in alone_in(measured).items()))
    errors = []
    for mode, shares, there in shares_of(sim, measured):
        stp = sum(shares.values())
        line = f"{mode + ' ':22}{'+'.join(shares) + ' ':28}STP {stp:.3f} "
        if there is None:
            print(line + "(not simulated)  " + ", ".join(f"{p} {share:.2f}" for p, share in shares.items()))
            continue
        errors.append(sum(there.values()) / stp - 1)
        print(line + f"({sum(there.values()):.3f}, {100 * errors[-1]:+5.1f}%)  " +
              ", ".join(f"{p} {share:.2f} ({there[p]:.2f})" for p, share in shares.items()), flush=True)
    worst = max(errors, key=abs)
    print(f"error of STP: {100 * statistics.mean(map(abs, errors)):.1f}% in the mean, {100 * worst:+.1f}% at most; "
          f"{sum(abs(e) <= 0.06 for e in errors)} of {len(errors)} within 6%", end="\n\n")


def latencies(sim, measured, modes=None, arrivals=None):
    """(mode, its measured rounds, what is simulated of each program) of a real-time program beside others; None: without a trace."""
    programs, runs = list(measured["alone"]), {}
    for run in measured["runs"]:
        if "failed" not in run and (modes is None or run["mode"] in modes):
            runs.setdefault(run["mode"], []).append(run)
    real_time, *others = programs
    comes, arrivals_per_s, gpu = "rate=RATE", 1, card_of(measured)
    if arrivals:
        with gzip.open(arrivals, "rt") as file:
            at = [float(line) for line in file]
        comes, arrivals_per_s = f"times={arrivals},speed=SPEED", (len(at) - 1) / (at[-1] - at[0])
    if all(p in TRACES for p in programs):
        clients = ["--client", f"{real_time}={trace_of(real_time, gpu[6:])},rt,{comes},queue,steady,priority=-5,process=0"]
        for i, p in enumerate(others):
            clients += ["--client", f"{p}={trace_of(p, gpu[6:])},be,closed,steady,process={i + 1}"]
    for mode, of_mode in runs.items():
        simulated, (policy, _, options) = None, mode.partition("@")
        if all(p in TRACES for p in programs):
            served = [] if mode in SIMULATED else ["--as-served=" + (options.partition("/")[0] or AHEAD_US)]
            simulated = simulate(sim, gpu, SIMULATED.get(mode, policy), served, clients, [x * rate_of(measured) for x in RATES], arrivals_per_s)
        yield mode, of_mode, simulated


def rate_of(measured):
    """Requests a second of the real-time program."""
    return 1e3 * measured["load"] / next(iter(measured["alone"].values()))["mean_ms"]


def print_latencies(sim, measured, path, arrivals):
    alone, rate, all_modes = measured["alone"], rate_of(measured), list(latencies(sim, measured, arrivals=arrivals))
    real_time, *others = alone
    print(f"{os.path.basename(path)}: {real_time} at {rate:.0f} requests a second, beside {', '.join(others)}; medians of {len(all_modes[0][1])}")
    print(f"{'mode':32}{'p50 ms':>8}{'simulated':>10}{'p99 ms':>8}{'simulated':>10}{'':8}" + "".join(f"{p + ' /s':>12}{'of alone':>10}{'simulated':>10}" for p in others))
    for mode, of_mode, simulated in all_modes:
        p50, p99, per_s = (statistics.median(r[real_time][k] for r in of_mode) for k in ("p50_ms", "p99_ms", "per_s"))
        saturated = per_s < 0.97 * rate
        line = f"{mode:32}" + (" " * 8 if saturated else f"{p50:8.3f}") + (f"{simulated[real_time]['p50_ms']:10.3f}" if simulated and not saturated else " " * 10)
        line += f"{'behind':>8}" if saturated else f"{p99:8.3f}"
        if not simulated:
            line += " " * 18
        elif simulated[real_time]["kept_up"] < 0.97:
            line += f"{'behind':>10}{'':8}"
        else:
            there = simulated[real_time]["p99_ms"]
            line += f"{there:10.3f}" + (f"{'':8}" if saturated else f" {100 * (there / p99 - 1):+6.1f}%")
        for p in others:
            does = statistics.median(r[p]["per_s"] for r in of_mode)
            line += f"{does:12.1f}{does / alone[p]['per_s']:10.2f}" + (f"{simulated[p]['progress']:10.2f}" if simulated else " " * 10)
        print(line, flush=True)
    same = {p: [r[p]["sha256"] == alone[p]["sha256"] for _, rs, _ in all_modes for r in rs if p in r] for p in alone}
    print("alone: " + ", ".join(f"{p} p99 {a['p99_ms']:.3f} ms, {a['per_s']:.1f} /s" for p, a in alone.items()))
    print("outputs as alone, bit by bit: " + ", ".join(f"{p} in {sum(is_same)} of {len(is_same)} runs" for p, is_same in same.items()), end="\n\n")


def main(sim, *paths):
    arrivals = next((p for p in paths if p.endswith(".txt.gz")), None)
    for path in paths:
        if path == arrivals:
            continue
        with gzip.open(path) as file:
            measured = json.load(file)
        if "sets" in measured["runs"][0]:
            throughput(sim, measured, path)
        else:
            print_latencies(sim, measured, path, arrivals)


if __name__ == "__main__":
    main(*sys.argv[1:])
