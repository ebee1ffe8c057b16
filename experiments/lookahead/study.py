#!/usr/bin/env python3
"""`lookahead` beside every other policy, on recorded mixes, each on its objective.

    study.py run build/bin/sim results.csv     # some minutes; times of decisions are of the machine
    study.py judge results.csv                 # the tables of README.md
"""
import csv, json, re, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, NETWORKS = "traces/h200/examples/", "experiments/h200/networks/mixes/"
# The trace, how long (ms).
P99 = [(EXAMPLES + "realtime-resnet50-beside-resnet152", 200), (EXAMPLES + "disb-2024-a", 100),
       (EXAMPLES + "six-clients", 100), (NETWORKS + "decode-bert", 100), (NETWORKS + "bert-vit", 100)]
STP = [(EXAMPLES + "three-best-effort", 100), (EXAMPLES + "disb-2024-a", 100), (NETWORKS + "bert-vit", 100)]
MOST_S = 10  # of a run; policies that need profiles of every kernel take longer on some traces, and are left out there
OTHERS = ["fcfs", "priority", "timeslice", "mps", "tpc-mask", "greedy", "slate", "smcompactor", "smguard",
          "sequential", "wait", "reef", "reef-n", "token-bucket"]
OWN = {"p99": ["lookahead", "lookahead:ways=now/part/hold/preempt"],
       "stp": ["lookahead:objective=stp", "lookahead:objective=stp,ways=now/in-turn"]}
FIELDS = ["objective", "trace", "ms", "policy", "rt_p99_ms", "be_progress", "stp", "decisions", "forecasts", "events",
          "mean_us", "p99_us", "max_us"]
SLACK, SAME = 0.10, 0.01  # of p99 that counts as equal, as in lookahead; of throughput and STP


def simulate(sim, trace, ms, policy):
    base = [sim, f"--duration={ms}ms", f"--policy={policy}", f"{trace}.json"]
    done = subprocess.run(base[:1] + ["--json"] + base[1:], cwd=ROOT, capture_output=True, text=True, timeout=MOST_S)
    if done.returncode != 0:
        print(f"  {policy}: {done.stderr.strip()[:100]}", file=sys.stderr)
        return None
    result = json.loads(done.stdout)
    rt = [c["p99_ms"] for c in result["clients"] if c["class"] == "real_time"]
    row = {"rt_p99_ms": max((p for p in rt if p is not None), default=""), "stp": result["stp"],
           "be_progress": sum(c["progress"] or 0 for c in result["clients"] if c["class"] != "real_time")}
    if any(p is None for p in rt):
        row["rt_p99_ms"] = "inf"
    if policy.startswith("lookahead"):
        text = subprocess.run(base, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        line = re.search(r"^ahead +(.*(?:\n +.*)?)", text, re.M).group(1).replace("\n", " ")
        found = re.search(r"([\d.]+ ?[kMG]?) decisions with ([\d.]+ ?[kMG]?) forecasts of ([\d.]+ ?[kMG]?) events", line)
        row |= dict(zip(["decisions", "forecasts", "events"], found.groups()))
        row |= dict(zip(["mean_us", "p99_us", "max_us"], re.findall(r"([\d.]+)\s+us", line)))
    return row


def run(sim, out):
    sim = str(Path(sim).resolve())
    with open(out, "w", newline="") as file:
        table = csv.DictWriter(file, FIELDS)
        table.writeheader()
        for objective, mixes in (("p99", P99), ("stp", STP)):
            for trace, ms in mixes:
                for policy in OWN[objective] + OTHERS:
                    try:
                        row = simulate(sim, trace, ms, policy)
                    except subprocess.TimeoutExpired:
                        print(f"  {policy}: over {MOST_S} s on {Path(trace).name}", file=sys.stderr)
                        continue
                    if row is None:
                        continue
                    table.writerow(row | {"objective": objective, "trace": Path(trace).name, "ms": ms, "policy": policy})
                    file.flush()


def better(objective, a, b):
    """1: a beats b; -1: b beats a; 0: neither."""
    if objective == "stp":
        x, y = float(a["stp"]), float(b["stp"])
        return (x > y * (1 + SAME)) - (y > x * (1 + SAME))
    x, y = float(a["rt_p99_ms"]), float(b["rt_p99_ms"])
    if max(x, y) > min(x, y) * (1 + SLACK):
        return 1 if x < y else -1
    x, y = float(a["be_progress"]), float(b["be_progress"])
    return (x > y * (1 + SAME)) - (y > x * (1 + SAME))


def judge(path):
    rows = list(csv.DictReader(open(path)))
    for objective, mixes in (("p99", P99), ("stp", STP)):
        for own in OWN[objective]:
            print(f"\n{own}\n\n| policy | wins | equal | losses | loses on |\n|---|---|---|---|---|")
            mine = {r["trace"]: r for r in rows if r["objective"] == objective and r["policy"] == own}
            for other in [o for o in OWN[objective] if o != own] + OTHERS:
                score = {r["trace"]: better(objective, mine[r["trace"]], r) for r in rows
                         if r["objective"] == objective and r["policy"] == other and r["trace"] in mine}
                if score:
                    n = list(score.values())
                    lost = ", ".join(t for t, s in score.items() if s < 0)
                    print(f"| `{other}` | {n.count(1)} | {n.count(0)} | {n.count(-1)} | {lost} |")
        head = "p99 ms / best-effort progress" if objective == "p99" else "STP"
        print(f"\n{head}\n")
        policies = OWN[objective] + OTHERS
        for trace in dict.fromkeys(r["trace"] for r in rows if r["objective"] == objective):
            of = {r["policy"]: r for r in rows if r["objective"] == objective and r["trace"] == trace}
            cell = lambda r: (f"{float(r['rt_p99_ms']):.2f} / {float(r['be_progress']):.2f}" if objective == "p99"
                              else f"{float(r['stp']):.3f}")
            print(f"- {trace}: " + ", ".join(f"{p} {cell(of[p])}" for p in policies if p in of))
    print("\n| trace | policy | decisions | forecasts | events | mean us | p99 us | max us |\n|---|---|---|---|---|---|---|---|")
    for r in rows:
        if r["mean_us"]:
            print(f"| {r['trace']} | `{r['policy']}` | {r['decisions']} | {r['forecasts']} | {r['events']} | {r['mean_us']} "
                  f"| {r['p99_us']} | {r['max_us']} |")


if __name__ == "__main__":
    {"run": run, "judge": judge}[sys.argv[1]](*sys.argv[2:])
