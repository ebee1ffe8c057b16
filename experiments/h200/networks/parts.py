#!/usr/bin/env python3
"""What the recordings and times on parts of the GPU, and in turns, come to: the figures of README.md and of traces/gpus/h200.json.

  parts.py mps       alone under MPS on all SMs: us a kernel more than without, and how much of it lies between the kernels
  parts.py kernels   how many launches of each part are of a function and grid that the whole GPU's recording has
  parts.py halves    wgmma gemms of one block an SM: time on half of the SMs over that on all
  parts.py slices    beside a kernel that never ends: how long that was away, and what the network did meanwhile
  parts.py steps     eagerly: how far batches without the profiler are apart, and what the profiler adds
  parts.py eager     eagerly: how far two batches side by side are apart
  parts.py copies    copies and memsets within the device in graphs: how long, and how far from the kernels before and after
  parts.py gaps      what a graph takes longer than its durations add up to, an operation, and how that goes with what
"""
import collections
import statistics
import sys

from collect import load, networks_in

PARTS = ("mps40", "mps60", "half")


def recorded(name, kind):
    trace = load(f"recordings/{name}.{kind}.json.gz")
    events = [e for e in (trace or {"traceEvents": []})["traceEvents"] if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    return sorted(events, key=lambda e: e["ts"])


def shapes(events):
    return collections.Counter((e["name"], tuple(e["args"].get("grid", ()))) for e in events)


def mean_us(row):
    return 1e3 * statistics.mean(row)


def of_rows(rows, what):
    print(f"{what}: median {statistics.median(rows):.2f}, {min(rows):.2f} to {max(rows):.2f}")


def mps(alone):
    under, parts = networks_in("parts-mps")[1], networks_in("parts-mps_percent")[1]
    more, gaps, once, often = [], collections.defaultdict(list), [], []
    for name, row in alone.items():
        if name not in under:
            continue
        time, events, plain = mean_us(under[name]["mps"]["graph_ms"]), recorded(name, "mps"), recorded(name, "graph")
        more.append((time - mean_us(row["graph_ms"])) / len(plain))
        for kind, ms in (("graph", row["graph_ms"]), ("mps", under[name]["mps"]["graph_ms"]),
                         *((k, parts[name][k]["graph_ms"]) for k in ("mps40", "mps60"))):
            seen = recorded(name, kind)
            gaps[kind].append((mean_us(ms) - sum(e["dur"] for e in seen)) / len(seen))
        if shapes(events) == shapes(plain):
            by = collections.defaultdict(lambda: ([], []))
            for side, seen in enumerate((plain, events)):
                for e in seen:
                    by[e["name"], tuple(e["args"].get("grid", ()))][side].append(e["dur"])
            for before, after in by.values():
                if statistics.median(before) > 4:
                    (once if len(before) == 1 else often if len(before) >= 8 else []).append(
                        statistics.median(after) / statistics.median(before))
        print(f"{name:20}{len(plain):4} kernels, {more[-1]:.2f} us a kernel more")
    of_rows(more, "us a kernel more")
    for kind, rows in gaps.items():
        of_rows(rows, f"{kind}: us a kernel that the request takes longer than its kernels' durations")
    for rows, what in ((once, "once a request"), (often, "eight times and more")):
        quarters = statistics.quantiles(rows, n=10)
        print(f"kernels above 4 us that occur {what}: {len(rows)}, {quarters[4]:.2f} times as long in the median, a tenth above {quarters[8]:.2f}")


def kernels(alone):
    for name in alone:
        whole = shapes(recorded(name, "graph"))
        cells = [f"{kind} {sum((seen & whole).values())} of {sum(seen.values())}"
                 for kind in PARTS if (seen := shapes(recorded(name, kind)))]
        print(f"{name:20}", ", ".join(cells))


def halves(alone):
    ratios = []
    for name in alone:
        by = [collections.defaultdict(list), collections.defaultdict(list)]
        for side, kind in zip(by, ("graph", "half")):
            for e in recorded(name, kind):
                if any(w in e["name"] for w in ("nvjet", "warpgroupsize", "sm90_xmma")) and e["args"]["shared memory"] > 117000:
                    grid = e["args"]["grid"]
                    if 66 < grid[0] * grid[1] * grid[2] <= 132:
                        side[e["name"], tuple(grid)].append(e["dur"])
        ratios += [statistics.median(by[1][k]) / statistics.median(by[0][k]) for k in by[0].keys() & by[1].keys()
                   if statistics.median(by[0][k]) > 8 and max(by[0][k]) < 1.2 * min(by[0][k])]
    print(len(ratios), "gemms above 8 us")
    of_rows(ratios, "half over whole")


def slices(alone):
    beside, away = load("slices.json.gz")["beside"], []
    for name in filter(beside.get, alone):
        row = beside[name]
        cycle = statistics.median(b[0] - a[0] for a, b in zip(row["away"], row["away"][1:]))
        off = statistics.median(b - a for a, b in row["away"])
        turn = row["beside"]["per_s"] * cycle / 1e6  # requests
        count = turn * len(recorded(name, "graph"))
        print(f"{name:20}away {off:5.0f} us, work {1e6 * turn / row['alone']['per_s']:5.0f} us, {count:4.0f} kernels")
        if off > 2400:
            away.append(off)
    print(len(away), "that keep their slice")
    of_rows(away, "away, us")


def steps(alone):
    """Of batches that follow each other: how far apart they are, which no simulation can undercut; what the profiler adds."""
    slower = {}
    for name, row in load("steps.json.gz")["networks"].items():
        recorded = [e["dur"] for e in load(f"recordings/{name}.eager.json.gz")["traceEvents"] if e["name"].startswith("ProfilerStep#")]
        slower[name] = statistics.mean(recorded) / 1e3 / statistics.mean(row["told_ms"])
    of_rows(list(slower.values()), "under the profiler, times as long as before and after it")
    for file in ("steps.json.gz", "eager.json.gz"):
        apart = {}
        for name, row in load(file)["networks"].items():
            told, other = (statistics.mean(row[kind]) for kind in ("told_ms", "eager_ms"))
            spread = statistics.stdev(a / b for a, b in zip(row["told_ms"], row["eager_ms"]))
            apart[name] = abs(told / other - 1)
            print(f"{name:20}told {told:7.3f} ms, the other batches {apart[name]:6.1%} away; a pair's two differ by {spread:5.1%} (standard deviation of {len(row['told_ms'])})")
        above = sorted(name for name, a in apart.items() if a > 0.03)
        print(f"{file}: {len(apart)} networks, {statistics.mean(apart.values()):.1%} apart in the mean, {statistics.median(apart.values()):.1%} in the median, "
              f"{max(apart.values()):.1%} at most; {len(above)} above 3 %: {', '.join(above)}")


def eager(alone):
    """Of batches side by side: the median ratio of a batch to its neighbour, which the host's drift does not reach."""
    apart = []
    for name, row in load("eager.json.gz")["networks"].items():
        apart.append(abs(statistics.median(a / b for a, b in zip(row["told_ms"], row["eager_ms"])) - 1))
        print(f"{name:20}{len(row['told_ms']):4} pairs, {statistics.median(row['told_ms']):7.3f} ms, neighbours {apart[-1]:.1%} apart, "
              f"means {abs(statistics.mean(row['told_ms']) / statistics.mean(row['eager_ms']) - 1):.1%}")
    print(f"{len(apart)} networks: neighbours {statistics.mean(apart):.1%} apart in the mean, {statistics.median(apart):.1%} in the median, "
          f"{max(apart):.1%} at most; {sum(a > 0.03 for a in apart)} above 3 %")


TINY_BYTES, TINY_US, GAP_US = 1024, 3.04, 0.27  # of memsets; between a memset's neighbours, and between two kernels


def is_tiny(event):
    return event["cat"] == "gpu_memset" and event["args"]["bytes"] <= TINY_BYTES


def copies(alone):
    rows = collections.defaultdict(list)
    for name in alone:
        events = recorded(name, "graph")
        for before, e, after in zip(events, events[1:], events[2:]):
            if e["cat"] == "kernel":
                kind = "kernels below 2 us" if e["dur"] < 2 else "kernels"
            else:
                size = e["args"]["bytes"]
                kind = f"{e['cat'][4:]} of {'at most 1,024 B' if size <= TINY_BYTES else '23 to 154 KB' if size < 2e5 else 'more'}"
            rows[kind].append((e["dur"], e["ts"] - before["ts"] - before["dur"], after["ts"] - e["ts"] - e["dur"], e["args"].get("bytes", 0)))
    for kind, seen in sorted(rows.items()):
        lasts, before, after, sizes = zip(*seen)
        print(f"{kind:32}{len(seen):5}, {min(sizes):6} to {max(sizes):8} B: {statistics.median(lasts):5.2f} us, "
              f"{statistics.median(before):4.2f} after what is before, {statistics.median(after):4.2f} before what is after")


def gaps(alone):
    rows = {}
    for name, row in alone.items():
        events = recorded(name, "graph")
        if len({e["args"]["stream"] for e in events}) > 1:
            continue  # branches overlap
        tiny = [e for e in events if is_tiny(e)]
        count = len(events) - 1 - 2 * len(tiny)
        left = mean_us(row["graph_ms"]) - sum(e["dur"] for e in events if not is_tiny(e)) - TINY_US * len(tiny)
        rows[name] = {"us a gap": left / count, "gaps": count, "below 2 us": sum(e["dur"] < 2 for e in events) / len(events),
                      "tiny memsets": len(tiny) / len(events), "mean us": statistics.mean(e["dur"] for e in events),
                      "above 1,056 blocks": sum(e["cat"] == "kernel" and e["args"]["grid"][0] * e["args"]["grid"][1] * e["args"]["grid"][2] > 1056
                                                for e in events) / len(events),
                      "off, %": 100 * (GAP_US * count - left) / mean_us(row["graph_ms"])}
        print(f"{name:20}" + ", ".join(f"{what} {value:.2f}" if isinstance(value, float) else f"{value} {what}"
                                       for what, value in rows[name].items()))
    steady = [r for name, r in rows.items() if name != "prefill_4k"]  # whose clock falls
    of_rows([r["us a gap"] for r in steady], "us a gap")
    of_rows([abs(r["off, %"]) for r in steady], f"% that {GAP_US} us a gap and {TINY_US} a tiny memset are off")
    for what in ("gaps", "below 2 us", "tiny memsets", "mean us", "above 1,056 blocks"):
        print(f"correlation of us a gap with {what}: {statistics.correlation([r['us a gap'] for r in steady], [r[what] for r in steady]):+.2f}")


if __name__ == "__main__":
    commands = {f.__name__: f for f in (mps, kernels, halves, slices, steps, eager, copies, gaps)}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](networks_in("alone")[1])
