#!/usr/bin/env python3
"""What the GPU does between two processes without MPS where one leaves it idle now and then.

  turns.py measure TURNS OUT.json         TURNS: turns.cu, compiled; 40 s: each case, two processes started together
  turns.py programs TURNS OUT.json FOLDER  40 s: programs of ../../h200/live alone, with the GPU's clock and power, and beside a kernel that never ends
  turns.py kernels OUT.json               30 s: what those programs' kernels take, and how long the GPU is idle between them
  turns.py read FILE.json.gz...           prints what they say; needs no GPU
"""
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "../../h200/live/programs.py")
SECONDS = "0.3"
WATCH = ("watch", "0.5", "1")
CASES = [(WATCH, ("sync", b, g, SECONDS)) for b in ("20", "200", "1000") for g in ("0", "10", "30", "100", "300", "1000", "3000")]
CASES += [(WATCH, ("pace", "20", p, "200", SECONDS)) for p in ("22", "30", "50", "100", "200")]
CASES += [(WATCH, ("pace", "20", "50", "200", SECONDS, "memset")), (WATCH, ("pace", "200", "250", "20", SECONDS)),
          (WATCH, ("pace", "20", "10", "20", SECONDS, "graph")), (WATCH, ("pace", "20", "200", "20", SECONDS, "graph"))]
CASES += [(("watch", "0.5", "1056"), ("sync", "200", g, SECONDS)) for g in ("30", "300")]
CASES += [(("watch", "0.5", "1056"), ("pace", "20", "50", "200", SECONDS))]
CASES += [(("pace", "20", "50", "200", SECONDS), ("pace", "20", "50", "200", SECONDS)), (("sync", "200", "100", SECONDS), ("sync", "200", "100", SECONDS)),
          (("pace", "20", "18", "200", SECONDS), ("pace", "20", "50", "200", SECONDS)), (("pace", "20", "18", "200", SECONDS), ("sync", "200", "300", SECONDS))]


def gpu():
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()


def start(turns, arguments):
    p = subprocess.Popen([turns, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return p, p.stdout.readline()


def ends(p):
    try:
        out, err = p.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        p.kill()
        return {"failed": "hangs"}
    return json.loads(out) if out.startswith("{") else {"failed": err[-300:], "exit": p.returncode}


def measure(turns, path):
    data = {"gpu": gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "cases": []}
    for pair in CASES:
        both = [start(turns, arguments)[0] for arguments in pair]
        for p in both:
            p.stdin.write("go\n")
            p.stdin.flush()
            time.sleep(0.05)
        data["cases"].append({"of": [" ".join(a) for a in pair], "said": [ends(p) for p in both]})
        with open(path, "w") as file:
            json.dump(data, file)
        print(summary(data["cases"][-1]), flush=True)


def median(values):
    return round(statistics.median(values), 1) if values else None


def summary(case):
    """Of a watching kernel beside another: how long it was away, how long after the other's last kernel it came back, how long the other's waited."""
    line = " | ".join(case["of"]) + ": "
    said = case["said"]
    if any("failed" in s for s in said):
        return line + str([s.get("failed") for s in said])
    for s in said:
        if "kernels" in s:
            line += f"{s['requests_per_s']} /s; "
    if "away" in said[0] and "kernels" in said[1]:
        away, kernels = said[0]["away"], said[1]["kernels"]
        lasts, idle, waits, ons = [], [], [], []
        for n, (begin, end) in enumerate(away):
            inside = [k for k in kernels if begin - 5 <= k[1] and k[2] <= end + 5]
            lasts.append(end - begin)
            if n:
                ons.append(begin - away[n - 1][1])
            if inside:
                idle.append(end - max(k[2] for k in inside))
                waits.append(min(k[1] for k in inside) - begin)
        line += f"away {len(away)} times, {median(lasts)} us, on {median(ons)}, until its first kernel {median(waits)}, after its last {median(idle)}; "
        line += f"from the call to the first instruction {median([k[1] - k[0] for k in kernels])} us"
    return line


def programs(turns, path, folder):
    data = {"gpu": gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "programs": {}}
    names = ["prefill", "train", "vision-graph", "vision", "decode-graph", "decode"]
    os.makedirs(folder, exist_ok=True)
    running = {}
    for name in names:
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        open(f"{folder}/{name}/go", "w").close()
        running[name] = subprocess.Popen([sys.executable, PROGRAMS, name, f"{folder}/{name}", "turns:2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while not all(os.path.exists(f"{folder}/{n}/{n}.ready") for n in names) and time.time() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    away = {}
    for name in names:
        smi = subprocess.Popen(["nvidia-smi", "--query-gpu=timestamp,clocks.sm,clocks.mem,power.draw.instant,clocks_event_reasons.active", "--format=csv,noheader,nounits", "-lms", "20"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(0.1)
        open(f"{folder}/{name}/go.0", "w").close()
        time.sleep(1.2)
        open(f"{folder}/{name}/stop.0", "w").close()
        smi.terminate()
        clocks = smi.communicate()[0].splitlines()
        watch, _ = start(turns, ("watch", "1.0", "1"))
        open(f"{folder}/{name}/go.1", "w").close()
        time.sleep(0.1)
        watch.stdin.write("go\n")
        watch.stdin.flush()
        away[name] = {"clocks": clocks, "watch": ends(watch)}
        open(f"{folder}/{name}/stop.1", "w").close()
        time.sleep(0.1)
    for name, r in running.items():
        out, err = r.communicate(timeout=20)
        data["programs"][name] = away[name] | {"said": json.loads(out) if out.startswith("{") else err[-500:]}
        with open(path, "w") as file:
            json.dump(data, file)
        print(name, of_program(data["programs"][name]), flush=True)


def kernels(path):
    """Of each program, under PyTorch's profiler: the time of its kernels a request, the span of it on the GPU, and the GPU's idle times in between."""
    import importlib.util
    spec = importlib.util.spec_from_file_location("programs", PROGRAMS)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    import torch
    data = {"gpu": gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "kernels": {}}
    for name, make in {"prefill": made.prefill, "train": made.train, "vision": made.vision, "vision-graph": made.vision}.items():
        with torch.set_grad_enabled(name == "train"):
            request = make() if not name.endswith("-graph") else made.as_graph(make())
            for _ in range(20):
                request()
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
                for _ in range(20):
                    request()
                    torch.cuda.synchronize()
        profiler.export_chrome_trace("/tmp/corun-turns.json")
        with open("/tmp/corun-turns.json") as file:
            events = json.load(file)["traceEvents"]
        on = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
        idle = [b[0] - max(x[1] for x in on[max(0, i - 4):i + 1]) for i, b in enumerate(on[1:])]
        data["kernels"][name] = {"requests": 20, "launches": len(on), "busy_ms": sum(e - b for b, e in on) / 2e4, "span_ms": (on[-1][1] - on[0][0]) / 2e4,
                                 "idle_us": [round(i, 1) for i in idle]}
        print(name, data["kernels"][name] | {"idle_us": "", "idle_ms_of_more_than": {us: round(sum(i for i in idle if i > us) / 2e4, 3) for us in (0, 5, 10, 20, 50, 100, 300)}}, flush=True)
        with open(path, "w") as file:
            json.dump(data, file)


def of_program(row):
    away = row["watch"].get("away", [])
    alone, beside = row["said"]["rounds"] if isinstance(row["said"], dict) else ({}, {})
    mid = [c.split(", ") for c in row["clocks"][15:-5]]
    lasts = sorted(round(e - b) for b, e in away)
    return (f"alone {alone.get('per_s')} /s, p50 {alone.get('p50_ms')} ms; beside a kernel that never ends {beside.get('per_s')} /s; that is away {len(away)} times, "
            f"deciles {lasts[len(lasts) // 10:: max(1, len(lasts) // 5)]} us; SM clock {sorted({c[1] for c in mid if len(c) > 3})} MHz, "
            f"power {median([float(c[3]) for c in mid if len(c) > 3 and c[3].replace('.', '').isdigit()])} W, reasons {sorted({c[4] for c in mid if len(c) > 4})}")


def read(*paths):
    for path in paths:
        with gzip.open(path) as file:
            data = json.load(file)
        print(os.path.basename(path), data["gpu"], data["date"])
        for case in data.get("cases", []):
            print(summary(case))
        for name, row in data.get("programs", {}).items():
            print(name, of_program(row))


if __name__ == "__main__":
    {"measure": measure, "programs": programs, "kernels": kernels, "read": read}[sys.argv[1]](*sys.argv[2:])
