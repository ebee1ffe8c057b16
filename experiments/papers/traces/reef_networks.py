#!/usr/bin/env python3
"""Writes reef-networks-mi50.json and -v100.json: the five networks of REEF's evaluation as launches on its two cards.

Nobody has published the kernels of REEF's TVM builds with their order and launch shapes, so these are the networks
recorded on an H200 (traces/h200, PyTorch), changed by four rules, each the same for every kernel:

- TVM fuses what PyTorch launches beside convolutions, matrix products and poolings (layouts, normalisation, activation):
  such a launch's time goes to the next launch that stays. Additions of residuals stay, as they do in the released profiles.
- A grid shrinks with the number of SMs, so that a kernel fills as large a part of the card, and with the batch
  (ResNet-152 was recorded with 8 images).
- A block's shared memory is at most 32 KiB and a thread has at most 128 registers (a MI50's CU has 64 KiB and 65,536).
- Times are scaled so that a network alone takes what it takes on a MI50, by one factor a network: ResNet-152 13,233 us,
  DenseNet-201 3,743, Inception v3 8,273, DistilBERT 5,426 (`model_latency` of the profiles in github.com/SJTU-IPADS/reef,
  resource/*/*.profile.json); VGG-19 4,200 us (its released profile is of another network; DISB B of the artifact asks for
  220 a second, so it is under 4,545 us, and a preemption of almost 40 us costs it less than 1 %, so it is about 4,000).
  No kernel is shorter than 10 us (REEF, section 2.1). The V100 is taken to be as fast as the MI50 (14 and 13.3
  TFLOPS).
"""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent.parent
NETWORKS = {  # name: file, batch, us alone on a MI50
    "vgg19": ("vgg19_b1", 1, 4200),
    "resnet152": ("resnet152_b8", 8, 13233),
    "densenet201": ("densenet201_b1", 1, 3743),
    "inception3": ("inception3_b1", 1, 8273),
    "distilbert": ("distilbert_b1s128", 1, 5426),
}
FUSED = ("nchwToNhwc", "nhwcToNchw", "elementwise", "bn_fw", "splitKreduce", "scal_kernel", "epilogue", "CatArray",
         "computeOffsets", "gather")
SHORTEST_US = 10


def scaled(times, total):
    """One factor, none below the shortest, the sum as asked."""
    low, high = 0.0, 1000.0
    for _ in range(200):
        factor = (low + high) / 2
        if sum(max(SHORTEST_US, factor * t) for t in times) < total:
            low = factor
        else:
            high = factor
    return [max(SHORTEST_US, high * t) for t in times], high


def network(name, file, batch, total, sms):
    recorded = json.load(open(ROOT / "traces" / "h200" / f"{file}.json"))
    kernels = {k["name"]: k for k in recorded["kernels"]}
    kept, carried = [], 0.0
    for op in recorded["programs"][0]["ops"]:
        if "launch" not in op:
            continue
        kernel = kernels[op["launch"]]
        us = op.get("solo_time_ns", kernel.get("solo_time_ns")) / 1000
        if any(word in kernel["name"] for word in FUSED) and "CUDAFunctor_add" not in kernel["name"]:
            carried += us
            continue
        kept.append([kernel, us + carried])
        carried = 0.0
    if carried:
        kept[-1][1] += carried
    times, factor = scaled([us for _, us in kept], total)
    shapes, ops = {}, []
    for (kernel, _), us in zip(kept, times):
        grid = kernel["grid"]
        blocks = max(1, round(grid[0] * grid[1] * grid[2] * sms / 132 / batch))
        threads = kernel["block"][0] * kernel["block"][1] * kernel["block"][2]
        memory = kernel.get("static_shared_memory_bytes", 0) + kernel.get("dynamic_shared_memory_bytes", 0)
        key = (blocks, threads, min(128, kernel.get("registers_per_thread", 32)), min(memory, 32768))
        if key not in shapes:
            shapes[key] = {
                "name": f"{name}/{len(shapes)}", "grid": [blocks, 1, 1], "block": [threads, 1, 1],
                "registers_per_thread": key[2], "dynamic_shared_memory_bytes": key[3], "idempotent": True,
            }
        ops.append({"launch": shapes[key]["name"], "solo_time_ns": round(us * 1000)})
    print(f"{name}: {len(ops)} launches, factor {factor:.2f}, longest {max(times):.0f} us")
    return list(shapes.values()), {"name": name, "ops": ops}


def document(card, sms):
    kernels, programs = [], []
    for name, (file, batch, total) in NETWORKS.items():
        of_network, program = network(name, file, batch, total, sms)
        kernels += of_network
        programs.append(program)
    return {
        "$schema": "../../../traces/schema/trace.schema.json", "corun_trace": 1, "name": f"REEF's networks on a {card}",
        "about": "Made by reef_networks.py from networks recorded on an H200; the rules are there.",
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


def client(name, program, rate=None, real_time=False, poisson=None):
    c = {"name": name, "program": program, "process": "server"}
    if real_time:
        c["class"] = "real_time"
    if poisson is not None:
        c["arrivals"] = {"type": "poisson", "rate_per_s": rate, "seed": poisson}
    elif rate:
        c["arrivals"] = {"type": "periodic", "period_ns": round(1e9 / rate)}
    return c


def disb():
    """The artifact's DISB (github.com/SJTU-IPADS/reef-artifacts, evaluation/fig10): best effort at 100 a second."""
    five = ["vgg19", "resnet152", "densenet201", "inception3", "distilbert"]
    crowd = [client(f"{n}_be{i}", n, 100)
             for i, n in enumerate(["densenet201", "densenet201", "vgg19", "distilbert", "resnet152"])]
    vgg = [client("vgg19_rt", "vgg19", 100, True)]
    return {
        "a": (vgg, [client("resnet152_be", "resnet152", 100)]),
        "b": ([client("vgg19_rt", "vgg19", 220, True)], [client("resnet152_be", "resnet152", 220)]),
        "c": (vgg, crowd),
        "d": ([client(f"{n}_rt", n, 20, True) for n in five], crowd),
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
    for card, sms in (("mi50", 60), ("v100", 80)):
        (HERE / f"reef-networks-{card}.json").write_text(text(document(card, sms)))
    for letter, (real_time, best_effort) in disb().items():
        length = 600_000_000 if letter in "de" else 300_000_000
        about = f"DISB {letter.upper()} as in REEF's artifact: best-effort clients ask 100 times a second and drop stale requests."
        for card in ("mi50", "v100"):
            write(f"REEF DISB {letter} {card}", card, about, real_time + best_effort, length)
        write(f"REEF DISB {letter} real-time only", "mi50", about + " Its real-time clients only.", real_time, length)
    # Fig. 12b: a best-effort network over and over, preempted by a short real-time kernel at odd times.
    for n in NETWORKS:
        write(f"REEF preempts {n}", "mi50", "Preemption latency by model: real-time DenseNet-201 47 times a second against one best-effort network in a closed loop.",
              [client("rt", "densenet201", 47, True), client("be", n)], 1_000_000_000)
