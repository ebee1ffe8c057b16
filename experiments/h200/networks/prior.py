#!/usr/bin/env python3
"""What kernels of each class usually do, for those without counters: learnt from the networks' kernels with counters.

  prior.py learn                        writes sim/model/kernel_prior_table.h, from all networks that are not set aside
  prior.py spread                       prints for each class how far its kernels are from what is learnt without their network
  prior.py judge BUILD [MIX...]         errors of the mixes without a set-aside network, in %: with counters (where kernels
                                        have them) / without / without, but with what is learnt from the networks that are
                                        not in the mix / the same for kernels that have none.  BUILD: a build folder, whose
                                        `sim` is built again for each mix
"""
import gzip
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

from collect import HERE, load, set_aside

ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
TABLE = os.path.join(ROOT, "sim/model/kernel_prior_table.h")
GPU = "h200"
FAR = math.log(10)  # a kernel so far off counts no more than that

# The first class counts whose patterns hold one that the name, in lower case, contains; `*`: anything, `^`: it begins so.
# What a name says of its arguments may be anything, so classes that such a name would meet by chance stand behind those it
# would not.
CLASSES = [
    ("cache", "copies into caches", "reshape_and_cache concat_and_cache"),
    ("rotary", "rotary embeddings", "rotary_embedding apply_rotary rope_kernel"),
    ("gather", "gathers", "scatter_gather gather_kernel index_elementwise indexselect index_put indexing_backward embedding"),
    ("elementwise", "elementwise kernels", "elementwise_kernel triton_poi"),
    ("optimizer", "optimizer steps", "multi_tensor_apply"),
    ("attention", "attention kernels", "fmha flash_ attention sdpa attn_fwd attn_bwd ^_fwd_kernel ^_bwd_kernel"),
    ("batch_norm", "batch normalisations", "bn_fw bn_bw batch_norm batchnorm"),
    ("normalisation", "normalisations", "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm softmax"),
    ("reduction", "reductions", "reduce_kernel splitkreduce reducesplitk rowwisemoments triton_red triton_per"),
    ("pooling", "pooling kernels", "max_pool avg_pool average_pool maxpool avgpool upsample"),
    ("layout", "layout changes", "nchwtonhwc nhwctonchw tensortransform addpadding transpose_"),
    ("copy", "copies", "catarray copy_kernel"),
    ("thin_gemm", "gemms with few columns", "gemv2 gemvx gemvn nvjet*x8_ nvjet*_8x nvjet*x16_ nvjet*_16x"),
    ("wgmma", "gemms with wgmma", "nvjet warpgroupsize gmma sm90_xmma sm90_tensorop cutlass3x_sm90"),
    ("mma", "gemms with mma.sync", "tensorop tensor16x8 s1688 s16816 h1688 h16816 s884 h884 i16832 hmma wmma triton_tem "
                                   "triton_mm implicitgemm"),
    ("simt", "gemms without tensor cores", "sgemm ffma simt_ gemmsn gemmk1 scudnn winograd f32f32_f32f32_f32"),
    ("activation", "activations", "act_and_mul silu_and_mul gelu_and_mul"),
    ("cub", "kernels of CUB", "cub::"),
    ("depthwise", "depthwise convolutions", "conv_depthwise conv2d_c1_"),
    ("gemm", "gemms of which no more is known", "gemm matmul"),
]
# Not learnt, as the networks have too few of them or none: taken to do what those of another class do.
LIKE = {"cache": "copy", "rotary": "elementwise", "activation": "elementwise", "cub": "reduction", "depthwise": "simt", "gemm": "mma"}


def matches(name, pattern):
    at = 0
    if pattern.startswith("^"):
        return name.startswith(pattern[1:])
    for part in pattern.split("*"):
        at = name.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def class_of(name):
    return next((c for c, _, patterns in CLASSES if any(matches(name.lower(), p) for p in patterns.split())), None)


class Gpu:
    def __init__(self):
        with open(os.path.join(ROOT, f"traces/gpus/{GPU}.json")) as file:
            data = json.load(file)
        value = lambda part, name: data[part][name]["value"]  # noqa: E731
        self.sms, self.clock_hz = value("chip", "sms"), value("chip", "clock_hz")
        self.sm = {name: entry["value"] for name, entry in data["sm"].items()}
        self.launch_cost_ns = value("contention", "launch_cost_ns")
        self.slots = self.sm["sub_partitions"] * self.clock_hz / 1e9  # of an SM, a ns
        self.l2 = value("contention", "l2_read_bytes_per_second") / 1e9 / self.sms  # of an SM, a ns

    def room(self, kernel, warps):
        def up(n, step):
            return -(-n // step) * step
        sm, warps = self.sm, up(warps, self.sm["warp_allocation_granularity"])
        registers = up(kernel["registers_per_thread"] * 32, sm["register_allocation_unit"]) * warps
        shared = up(kernel.get("static_shared_memory_bytes", 0) + kernel.get("dynamic_shared_memory_bytes", 0) +
                    sm["shared_memory_reserved_bytes"], sm["shared_memory_allocation_unit"])
        return max(1, min(sm["max_blocks"], sm["max_warps"] // warps, sm["registers"] // max(1, registers),
                          sm["shared_memory_bytes"] // shared))


def bases(kernel, gpu):
    """What instructions and bytes may be proportional to: SM times ns with blocks, warp times ns, warps."""
    blocks, warps = math.prod(kernel["grid"]), math.ceil(math.prod(kernel["block"]) / 32)
    time = max(kernel["solo_time_ns"] - gpu.launch_cost_ns, 0.2 * kernel["solo_time_ns"])
    places = gpu.room(kernel, warps) * gpu.sms
    waves = math.ceil(blocks / places)
    sm_time = time * min(gpu.sms, blocks)
    return {"sm_time": sm_time, "warp_time": time * blocks / waves * warps, "warp": blocks * warps}


def kernels_of(network, gpu):
    """Its kernels with counters, each with a weight: long ones slow others down, but no one should decide alone."""
    trace = load(f"traces/{network}.json.gz")
    kernels, time = {k["name"]: k for k in trace["kernels"]}, {}
    for op in (op for program in trace["programs"] for op in program["ops"] if "launch" in op):
        name = op["launch"]
        time[name] = time.get(name, 0) + op.get("solo_time_ns", kernels[name].get("solo_time_ns", 0))
    rows = []
    for name, kernel in kernels.items():
        if "counters" not in kernel or not kernel.get("solo_time_ns") or not class_of(name):
            continue
        c = kernel["counters"]
        rows.append({"network": network, "class": class_of(name), "weight": math.sqrt(time.get(name, 0) / sum(time.values()) + 1e-6),
                     "bases": bases(kernel, gpu), "instructions": c["warp_instructions"], "l2": c["l2_bytes"],
                     "tensor": c["tensor_instructions"], "l1": c["l1_bytes"], "dram_read": c["dram_read_bytes"],
                     "dram_write": c["dram_write_bytes"]})
    return rows


def median(values, weights):
    half, total = sum(weights) / 2, 0
    for value, weight in sorted(zip(values, weights)):
        total += weight
        if total >= half:
            return value


def ratio(rows, what, base):
    return median([r[what] / r["bases"][base] for r in rows], [r["weight"] for r in rows])


def distance(rows, what, base):
    """Mean distance, as a logarithm, of the kernels from the median of those of the other networks."""
    sum_, weights = 0, 0
    for network in {r["network"] for r in rows}:
        others = [r for r in rows if r["network"] != network]
        middle = ratio(others, what, base) if others else 0
        for r in rows:
            if r["network"] == network and r[what] > 0 and middle > 0:
                sum_ += r["weight"] * min(FAR, abs(math.log(r[what] / r["bases"][base] / middle)))
                weights += r["weight"]
    return sum_ / weights if weights else FAR


def share(rows, what, of):
    return median([r[what] / r[of] if r[of] else 0 for r in rows], [r["weight"] for r in rows])


def learn(rows):
    priors = {}
    for name, _, _ in CLASSES:
        own = [r for r in rows if r["class"] == name]
        if not own or name in LIKE:
            continue
        prior = {"kernels": len(own), "networks": len({r["network"] for r in own})}
        for what in ("instructions", "l2"):
            base = min(("sm_time", "warp_time", "warp"), key=lambda b: distance(own, what, b))  # in doubt, the first
            prior[what] = (base, ratio(own, what, base))
        for what, of in (("tensor", "instructions"), ("l1", "l2"), ("dram_read", "l2"), ("dram_write", "l2")):
            prior[what] = share(own, what, of)
        priors[name] = prior
    return priors


def write_table(path, priors, gpu, about):
    """Times become shares of what the GPU can do, so that the table suits others too."""
    lines = [f"// Written by experiments/h200/networks/prior.py: {about}.",
             "// In this order, the first class of which a name holds a pattern counts.",
             "#pragma once", "", '#include "sim/model/kernel_prior.h"', "", "namespace corun::sim {", "",
             "// clang-format off", "// class, its kernels, patterns; instructions and L2 bytes, each by what; shares: "
             "tensor of all instructions, L1, DRAM reads", "// and writes of L2 bytes; the number of kernels and of networks it is learnt from",
             "inline constexpr Prior kPriors[] = {"]
    for name, plural, patterns in CLASSES:
        p = priors.get(LIKE.get(name, name))
        if not p:
            continue
        scaled = []
        for what, peak in (("instructions", gpu.slots), ("l2", gpu.l2)):
            base, value = p[what]
            scaled.append(f"Prior::{base}, {value / (1 if base == 'warp' else peak):.4g}")
        shares = ", ".join(f"{p[w]:.3g}" for w in ("tensor", "l1", "dram_read", "dram_write"))
        lines += [f'    {{"{name}", "{plural}",', f'     "{patterns}",',
                  f'     {scaled[0]}, {scaled[1]}, {shares}, {p["kernels"]}, {p["networks"]}}},']
    if not priors:
        lines.append('    {"none", "none", "*no name holds this*", Prior::warp, 1, Prior::warp, 0, 0, 0, 0, 0, 0, 0},')
    lines += ["};", "// clang-format on", "", "}  // namespace corun::sim", ""]
    with open(path, "w") as file:
        file.write("\n".join(lines))


def learnt_networks():
    return [n["name"] for n in load("networks.json.gz")["networks"] if not n["set_aside"]]


def spread(rows):
    for name, plural, _ in CLASSES:
        own = [r for r in rows if r["class"] == name]
        if not own or name in LIKE:
            continue
        prior = learn(own)[name]
        text = ", ".join(f"{what} {math.exp(distance(own, what, prior[what][0])):.2f}x a {prior[what][0]}"
                         for what in ("instructions", "l2"))
        print(f"{plural:28}{len(own):4} kernels, {prior['networks']:2} networks: off by {text}")


def stripped_copy(folder):
    """The networks and mixes, the kernels' counters taken away."""
    for part in ("traces", "mixes"):
        os.makedirs(os.path.join(folder, part))
        for name in os.listdir(os.path.join(HERE, part)):
            if part == "mixes":
                shutil.copy(os.path.join(HERE, part, name), os.path.join(folder, part))
                continue
            trace = load(f"{part}/{name}")
            for kernel in trace["kernels"]:
                kernel.pop("counters", None)
            trace.pop("$schema", None)
            with gzip.open(os.path.join(folder, part, name), "wt", compresslevel=1) as file:
                json.dump(trace, file)
    shutil.copy(os.path.join(HERE, "networks.json.gz"), folder)


def errors(build, folder, mix):
    """Of each mode: |simulated / measured - 1| of the mean latencies and of the throughputs."""
    out = subprocess.run([os.path.join(build, "bin/sim"), "validate", folder, "--mixes", mix, "--modes", "streams,priority",
                          "--duration", "150ms", "--json"], check=True, capture_output=True, text=True).stdout
    parts = json.loads(out)["others"]["modes"]
    return {mode: {what: (part[what]["mean"], part[what]["rows"]) for what in ("mean_latency", "throughput")}
            for mode, part in parts.items()}


def build_with(build, priors, gpu):
    write_table(TABLE, priors, gpu, "for prior.py judge; not to be committed")
    subprocess.run(["cmake", "--build", build, "--target", "sim"], check=True, stdout=subprocess.DEVNULL)


def judge(build, only):
    gpu, aside, rows = Gpu(), set_aside(), []
    mixes = {m["name"]: m["networks"] for m in load("networks.json.gz")["mixes"]}
    mixes = {m: n for m, n in mixes.items() if not set(n) & set(aside) and (not only or m in only)}
    by_network = {n: kernels_of(n, gpu) for n in learnt_networks()}
    with open(TABLE) as file:
        kept = file.read()
    found = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            stripped_copy(folder)
            build_with(build, {}, gpu)
            for mix in mixes:
                found[mix] = [errors(build, HERE, mix), errors(build, folder, mix)]
            for mix, networks in mixes.items():
                others = [r for n, kernels in by_network.items() if n not in networks for r in kernels]
                build_with(build, learn(others), gpu)
                found[mix] += [errors(build, folder, mix), errors(build, HERE, mix)]
                print_mix(mix, found[mix])
    finally:
        with open(TABLE, "w") as file:
            file.write(kept)
    for mode in ("streams", "priority"):
        rows = [f for f in found.values() if mode in f[0]]
        print_mix(f"mean of {len(rows)}, {mode}", [
            {mode: {what: (sum(e * n for e, n in of) / sum(n for _, n in of), 0)
                    for what in ("mean_latency", "throughput")
                    for of in [[r[i][mode][what] for r in rows if r[i][mode][what][1]]]}} for i in range(4)])


def print_mix(name, found):
    for mode in found[0]:
        cells = [" / ".join(f"{100 * v[mode][what][0]:5.1f}" if v[mode][what][0] is not None else "    -" for v in found)
                 for what in ("mean_latency", "throughput")]
        print(f"{name:28}{mode:10} mean latency {cells[0]}   throughput {cells[1]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["judge"] and len(sys.argv) > 2:
        judge(os.path.abspath(sys.argv[2]), sys.argv[3:])
    elif sys.argv[1:] in (["learn"], ["spread"]):
        gpu = Gpu()
        rows = [row for network in learnt_networks() for row in kernels_of(network, gpu)]
        if sys.argv[1] == "spread":
            spread(rows)
        else:
            write_table(TABLE, learn(rows), gpu, f"the kernels with counters of {len({r['network'] for r in rows})} networks on "
                                                 f"an NVIDIA H200, those set aside left out")
    else:
        sys.exit(__doc__)
