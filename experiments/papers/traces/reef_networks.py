#!/usr/bin/env python3
"""Writes reef-networks-mi50.json and -v100.json: the five networks of REEF's evaluation as launches on its two cards.

The kernels are those that REEF runs: order, launch shapes and profiled times of its TVM builds, as its authors have
published them (reef-schedules.json). Three things are not in there, and follow from one rule each:

- A profiled time holds what measuring one kernel costs, 8 to 13 us, and model_latency is what the whole network takes:
  each kernel of a network is shorter by the same time, so that with the gaps between them they take model_latency. The
  "VGG" of the repository has the kernels of a ResNet-50, all of which are in ResNet-152 too, and with those kernels' times
  takes 4.1 ms; its own profile, of another day and 4 us longer a kernel, would not keep up with the 220 a second of DISB B.
- Registers are what leaves room for as many blocks on a compute unit as the profile has entries.
- The V100 runs the same launches as fast (14 and 13.3 TFLOPS).
"""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
GAP_US = 0.9  # between kernels of a stream
SHORTEST_US = 1.0


def networks():
    """Of each network: name, kernels, launches in order, us that a kernel is shorter than profiled."""
    known = json.loads((HERE / "reef-schedules.json").read_text())["networks"]
    loss = {}
    for n in known:
        launches = [name for times, names in n["launches"] for name in names * times]
        profiled = [n["kernels"][name][4] for name in launches]
        loss[n["name"]] = None
        if n["model_latency_us"]:
            low, high = 0.0, 50.0
            for _ in range(100):
                middle = (low + high) / 2
                total = sum(max(SHORTEST_US, t - middle) for t in profiled) + GAP_US * (len(profiled) - 1)
                low, high = (middle, high) if total > n["model_latency_us"] else (low, middle)
            loss[n["name"]] = high
        yield n["name"], n["kernels"], launches, loss


def network(name, kernels, launches, lost):
    ops, shapes = [], []
    for kernel, (blocks, threads, shared, fit, _) in kernels.items():
        warps = -(-threads // 64)
        if warps > 4:  # one of the compute unit's four parts has the most
            warps = -(-warps // 4) * 4
        registers = max(16, min(128, 65536 // (fit * warps * 64) // 4 * 4))
        shapes.append({
            "name": f"{name}/{kernel}", "grid": [blocks, 1, 1], "block": [threads, 1, 1], "registers_per_thread": registers,
            "dynamic_shared_memory_bytes": shared, "idempotent": True,
        })
    times = [max(SHORTEST_US, kernels[kernel][4] - lost) for kernel in launches]
    for kernel, us in zip(launches, times):
        ops.append({"launch": f"{name}/{kernel}", "solo_time_ns": round(us * 1000)})
    print(f"{name}: {len(ops)} launches, {sum(times) / 1000:.2f} ms, {lost:.1f} us off each, longest {max(times):.0f} us")
    return shapes, {"name": name, "ops": ops}


def document(card):
    kernels, programs = [], []
    all_networks = list(networks())
    for name, of_network, launches, loss in all_networks:
        lost = loss[name] if loss[name] is not None else loss["resnet152"]
        shapes, program = network(name, of_network, launches, lost)
        kernels += shapes
        programs.append(program)
    return {
        "$schema": "../../../traces/schema/trace.schema.json", "corun_trace": 1, "name": f"REEF's networks on a {card}",
        "about": "Made by reef_networks.py from the published schedules; the rules are there.",
        "gpu": card, "kernels": kernels, "programs": programs,
    }


def text(doc):
    lines = ["{"]
    for key, value in doc.items():
        if key not in ("kernels", "programs"):
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)},")
    lines.append('  "kernels": [\n    ' + ",\n    ".join(json.dumps(k) for k in doc["kernels"]) + "\n  ],")
    programs = []
    for p in doc["programs"]:
        ops = ",\n      ".join(json.dumps(o) for o in p["ops"])
        programs.append('{"name": ' + json.dumps(p["name"]) + ', "ops": [\n      ' + ops + "\n    ]}")
    lines.append('  "programs": [\n    ' + ",\n    ".join(programs) + "\n  ]\n}\n")
    return "\n".join(lines)


def client(name, program, rate=None, real_time=False, poisson=None, index=0):
    c = {"name": name, "program": program, "process": "server"}
    if real_time:
        c["class"] = "real_time"
    if poisson is not None:
        # All are served: whose request is dropped hangs on microseconds, and a dropped one is in no mean.
        c["arrivals"] = {"type": "poisson", "rate_per_s": rate, "seed": poisson, "stale": "queue"}
    elif rate:
        # Programs of their own are not in step: fractions of a period as far apart as they get.
        phase = index * (5**0.5 - 1) / 2 % 1
        c["arrivals"] = {"type": "periodic", "period_ns": round(1e9 / rate), "offset_ns": round(phase * 1e9 / rate)}
    return c


def disb():
    """The artifact's DISB (github.com/SJTU-IPADS/reef-artifacts, evaluation/fig10): best effort at 100 a second."""
    five = ["vgg19", "resnet152", "densenet201", "inception3", "distilbert"]
    crowd = [client(f"{n}_be{i}", n, 100, index=i + 6)
             for i, n in enumerate(["densenet201", "densenet201", "vgg19", "distilbert", "resnet152"])]
    vgg = [client("vgg19_rt", "vgg19", 100, True)]
    return {
        "a": (vgg, [client("resnet152_be", "resnet152", 100, index=1)]),
        "b": ([client("vgg19_rt", "vgg19", 220, True)], [client("resnet152_be", "resnet152", 220, index=1)]),
        "c": (vgg, crowd),
        "d": ([client(f"{n}_rt", n, 20, True, index=i) for i, n in enumerate(five)], crowd),
        "e": ([client(f"{n}_rt", n, 20, True, i + 1) for i, n in enumerate(five)], crowd),
    }


def write(name, card, about, clients, duration_ns):
    doc = {
        "$schema": "../../../traces/schema/trace.schema.json", "corun_trace": 1, "name": name, "about": about,
        "gpu": card, "include": [f"reef-networks-{card}.json"],
    }
    lines = ["{"] + [f"  {json.dumps(k)}: {json.dumps(v)}," for k, v in doc.items()]
    lines.append('  "clients": [\n    ' + ",\n    ".join(json.dumps(c) for c in clients) + "\n  ],")
    lines.append(f'  "run": {{"duration_ns": {duration_ns}}}\n}}\n')
    slug = name.lower().replace(" ", "-").replace(",", "").replace("(", "").replace(")", "")
    (HERE / f"{slug}.json").write_text("\n".join(lines))


if __name__ == "__main__":
    for card in ("mi50", "v100"):
        (HERE / f"reef-networks-{card}.json").write_text(text(document(card)))
    for letter, (real_time, best_effort) in disb().items():
        length = 2_000_000_000 if letter in "de" else 1_000_000_000
        about = f"DISB {letter.upper()} as in REEF's artifact: best-effort clients ask 100 times a second and drop stale requests."
        for card in ("mi50", "v100"):
            write(f"REEF DISB {letter} {card}", card, about, real_time + best_effort, length)
        write(f"REEF DISB {letter} real-time only", "mi50", about + " Its real-time clients only.", real_time, length)
    # Fig. 12b: a best-effort network over and over, preempted by a short real-time kernel at odd times.
    for n in ("vgg19", "resnet152", "densenet201", "inception3", "distilbert"):
        write(f"REEF preempts {n}", "mi50", "Preemption latency by model: real-time DenseNet-201 47 times a second against one best-effort network in a closed loop.",
              [client("rt", "densenet201", 47, True), client("be", n)], 1_000_000_000)
