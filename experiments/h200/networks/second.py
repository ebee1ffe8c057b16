#!/usr/bin/env python3
"""What does a second recording, on a part of the GPU, tell of other parts?  Each network alone under an MPS percentage, simulated and measured.

  second.py SIM [counters]   SIM: the `sim` command; counters: of the whole GPU, as Nsight Compute has them

Columns: of the recording of the whole GPU alone; with a second one on the other part; with a second one on this part.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from collect import HERE, networks_in

PARTS = {"mps40": (40, "mps60"), "mps60": (60, "mps40")}  # percentage, and the other part


def trace_of(sim, folder, name, part, counted):
    out = os.path.join(folder, "trace.json")
    counters = os.path.join(HERE, "counters", name + ".csv.gz")
    command = [sim, "import", "kineto", os.path.join(HERE, "recordings", name + ".graph.json.gz"), "--gpu", "h200", "-o", out,
               *(["--by-sms", os.path.join(HERE, "recordings", f"{name}.{part}.json.gz")] if part else []),
               *(["--counters", counters] if counted and os.path.exists(counters) else [])]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return out


def simulated_ms(sim, trace, percentage):
    ran = subprocess.run([sim, f"--policy=mps:percentages={percentage}", "--duration=100ms", "--json", trace], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)["clients"][0]["p50_ms"]


def errors(sim, counted=False, names=None):
    """By part: the errors of all networks in per cent, of each column."""
    by_part = {part: {"whole": [], "other part": [], "this part": []} for part in PARTS}
    _, measured = networks_in("parts-mps_percent")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or measured:
            if not os.path.exists(os.path.join(HERE, "recordings", f"{name}.mps40.json.gz")):
                continue  # the profiler lost its kernels
            for part, (percentage, other) in PARTS.items():
                took = statistics.mean(measured[name][part]["graph_ms"])
                for column, second in (("whole", None), ("other part", other), ("this part", part)):
                    ms = simulated_ms(sim, trace_of(sim, folder, name, second, counted), percentage)
                    by_part[part][column].append(100 * (ms / took - 1))
    return by_part


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for part, columns in errors(os.path.abspath(sys.argv[1]), len(sys.argv) == 3).items():
        for column, off in columns.items():
            size = [abs(e) for e in off]
            print(f"{part}  {column:10}  {len(off)} networks, error: mean {statistics.mean(size):4.1f} %, median {statistics.median(size):4.1f}, "
                  f"worst {max(size):4.1f}")
