#!/usr/bin/env python3
"""What kernels of each class usually do, for those without counters: learnt from kernels with counters of the networks and of
experiments/h200/parts, each with its time as its weight.

  prior.py learn                        writes sim/model/kernel_prior_table.h, from all that is not set aside
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
SHORTEST_US = 3  # of the operations' kernels
LONG_NS = 1e5  # no kernel counts for more, so that none decides alone
FAR = math.log(10)  # a kernel so far off counts no more than that

# The first class counts whose patterns hold one that the name, in lower case, contains; `*`: anything, `^`: it begins so.
# What a name says of its arguments may be anything, so classes that such a name would meet by chance stand behind those it
# would not.
CLASSES = [
    ("copy", "copies", "reshape_and_cache concat_and_cache"),
    ("streaming", "elementwise kernels over neighbours",
     "rotary_embedding apply_rotary rope_kernel act_and_mul silu_and_mul gelu_and_mul"),
    ("scatter", "gathers and scatters of words", "scatter_gather index_put index_elementwise"),
    ("gather", "gathers of rows", "gather_kernel indexselect indexing_backward embedding"),
    ("streaming", "elementwise kernels over neighbours", "vectorized_elementwise triton_poi"),
    ("elementwise", "elementwise kernels with an index for each element", "elementwise_kernel"),
    ("optimizer", "optimizer steps", "multi_tensor_apply"),
    ("decode_attention", "attention kernels of few queries", "splitkv split_kv flash_decod decode_attention paged_attention sdpa*_16x"),
    ("attention", "attention kernels", "fmha flash_ attention sdpa attn_fwd attn_bwd ^_fwd_kernel ^_bwd_kernel"),
    ("batch_norm", "batch normalisations", "bn_fw bn_bw batch_norm batchnorm"),
    ("normalisation", "normalisations", "layer_norm layernorm rms_norm rmsnorm group_norm groupnorm softmax"),
    ("reduction", "reductions", "reduce_kernel splitkreduce reducesplitk rowwisemoments triton_red triton_per"),
    ("pooling", "pooling kernels", "max_pool avg_pool average_pool maxpool avgpool upsample"),
    ("layout", "layout changes", "nchwtonhwc nhwctonchw tensortransform addpadding transpose_"),
    ("copy", "copies", "catarray copy_kernel"),
    ("gemv", "products of a matrix and a vector", "gemv2 gemvx gemvn"),
    ("thin_gemm", "gemms with few columns",
     "nvjet*x8_64x nvjet*x16_64x nvjet*x24_64x nvjet*x32_64x nvjet*_8x*_64x nvjet*_16x*_64x"),
    ("wgmma", "gemms with wgmma", "nvjet warpgroupsize gmma sm90_xmma sm90_tensorop cutlass3x_sm90"),
    ("mma", "gemms with mma.sync", "tensorop tensor16x8 s1688 s16816 h1688 h16816 s884 h884 i16832 hmma wmma triton_tem "
                                   "triton_mm implicitgemm"),
    ("simt", "gemms without tensor cores", "sgemm ffma simt_ gemmsn gemmk1 scudnn winograd f32f32_f32f32_f32"),
    ("sort", "sorts and scans", "cub::"),
    ("depthwise", "depthwise convolutions", "conv_depthwise conv2d_c1_"),
    ("mma", "gemms with mma.sync", "gemm matmul"),
    # What other names say, as those of XLA, CuPy and users.
    ("sort", "sorts and scans", "sort topk scan"),
    ("scatter", "gathers and scatters of words", "scatter"),
    ("gather", "gathers of rows", "gather indexfunc"),
    ("reduction", "reductions", "reduce reduction cupy_sum cupy_mean cupy_max cupy_min"),
    ("elementwise", "elementwise kernels with an index for each element", "triu_tril transpose"),
    ("streaming", "elementwise kernels over neighbours", "_vectorized dropout copy loop_*fusion cupy_"),
]


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


def row_of(network, name, kernel, counters, gpu):
    """What it does, as shares of what its SMs can do in its time.  Long kernels tell more of limits, short ones of starts."""
    time = max(kernel["solo_time_ns"] - gpu.launch_cost_ns, 0.2 * kernel["solo_time_ns"])
    sm_time = time * min(gpu.sms, math.prod(kernel["grid"]))
    return {"network": network, "class": class_of(name), "weight": min(kernel["solo_time_ns"], LONG_NS),
            "instructions": counters["warp_instructions"] / sm_time / gpu.slots, "tensor": counters["tensor_instructions"] / sm_time / gpu.slots,
            **{what: counters[what + "_bytes"] / sm_time / gpu.l2 for what in ("l2", "l1", "dram_read", "dram_write")}}


def kernels_of(network, gpu):
    return [row_of(network, kernel["name"], kernel, kernel["counters"], gpu) for kernel in load(f"traces/{network}.json.gz")["kernels"]
            if "counters" in kernel and kernel.get("solo_time_ns") and class_of(kernel["name"])]


def kernels_of_parts(gpu):
    """Those of ordinary operations on parts of the GPU."""
    with gzip.open(os.path.join(HERE, "../parts/kernels-1.json.gz")) as file:
        operations = json.load(file)["operations"]
    rows = {}
    for operation, of in operations.items():
        for kernel in of["kernels"] or [] if not of["set_aside"] else []:
            us, name = kernel["us_by_sms"].get(str(gpu.sms), 0), kernel["name"]
            if kernel["cat"] == "kernel" and "ncu" in kernel and us > SHORTEST_US and class_of(name):
                rows[operation, name, *kernel["grid"]] = row_of(operation, name, {**kernel, "solo_time_ns": us * 1e3}, kernel["ncu"], gpu)
    return list(rows.values())


def median(values, weights):
    half, total = sum(weights) / 2, 0
    for value, weight in sorted(zip(values, weights)):
        total += weight
        if total >= half:
            return value


def usual(rows, what):
    return median([min(1, r[what]) for r in rows], [r["weight"] for r in rows])


def distance(rows, what):
    """Mean distance, as a logarithm, of the kernels from the median of those of the other networks."""
    sum_, weights = 0, 0
    for network in {r["network"] for r in rows}:
        others = [r for r in rows if r["network"] != network]
        middle = usual(others, what) if others else 0
        for r in rows:
            if r["network"] == network and r[what] > 0 and middle > 0:
                sum_ += r["weight"] * min(FAR, abs(math.log(r[what] / middle)))
                weights += r["weight"]
    return sum_ / weights if weights else FAR


def learn(rows):
    priors = {}
    for name in dict.fromkeys(name for name, *_ in CLASSES):
        own = [r for r in rows if r["class"] == name]
        if own:
            priors[name] = {what: usual(own, what) for what in ("instructions", "tensor", "l2", "l1", "dram_read", "dram_write")}
            priors[name] |= {"kernels": len(own), "networks": len({r["network"] for r in own})}
    return priors


def write_table(path, priors, about):
    """Times become shares of what the GPU can do, so that the table suits others too."""
    lines = [f"// Written by experiments/h200/networks/prior.py: {about}.",
             "// In this order, the first class of which a name holds a pattern counts.  A class may stand twice.",
             "#pragma once", "", '#include "sim/model/kernel_prior.h"', "", "namespace corun::sim {", "",
             "// clang-format off", "// class, its kernels, patterns; instructions and L2 bytes, as shares of what its SMs can do in its time; tensor",
             "// instructions of all; L1, DRAM read and written bytes of L2's; the number of kernels, and of networks and operations,",
             "// from which they are learnt",
             "inline constexpr Prior kPriors[] = {"]
    for name, plural, patterns in CLASSES:
        if p := priors.get(name):
            shares = [p["tensor"] / p["instructions"], *(p[what] / p["l2"] for what in ("l1", "dram_read", "dram_write"))]
            lines += [f'    {{"{name}", "{plural}",', f'     "{patterns}",',
                      f'     {p["instructions"]:.3g}, {p["l2"]:.3g}, {", ".join(f"{s:.3g}" for s in shares)}, {p["kernels"]}, {p["networks"]}}},']
    if not priors:
        lines.append('    {"none", "none", "*no name holds this*", 1, 0, 0, 0, 0, 0, 0, 0},')
    lines += ["};", "// clang-format on", "", "}  // namespace corun::sim", ""]
    with open(path, "w") as file:
        file.write("\n".join(lines))


def learnt_networks():
    return [n["name"] for n in load("networks.json.gz")["networks"] if not n["set_aside"]]


def spread(rows):
    for name in dict.fromkeys(name for name, *_ in CLASSES):
        if own := [r for r in rows if r["class"] == name]:
            text = ", ".join(f"{what} {math.exp(distance(own, what)):.2f}x" for what in ("instructions", "l2", "dram_read"))
            print(f"{name:14}{len(own):4} kernels of {len({r['network'] for r in own}):2} networks and operations: off by {text}")


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


def build_with(build, priors):
    write_table(TABLE, priors, "for prior.py judge; not to be committed")
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
            build_with(build, {})
            for mix in mixes:
                found[mix] = [errors(build, HERE, mix), errors(build, folder, mix)]
            for mix, networks in mixes.items():
                others = [r for n, kernels in by_network.items() if n not in networks for r in kernels]
                build_with(build, learn(others + kernels_of_parts(gpu)))
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
        counted = len({r["network"] for r in rows})
        rows += kernels_of_parts(gpu)
        if sys.argv[1] == "spread":
            spread(rows)
        else:
            write_table(TABLE, learn(rows), f"kernels with counters of {counted} networks and {len({r['network'] for r in rows}) - counted} operations on "
                                            f"an NVIDIA H200, those set aside left out")
    else:
        sys.exit(__doc__)
