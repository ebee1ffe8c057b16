#!/usr/bin/env python3
"""Times pairs of GPU kernels that share a GPU: the data on which a contention model is tested, not fitted.

    measure_pairs.py times SET FILE   kernels alone, alone on fewer SMs, and every pair in six modes
    measure_pairs.py counters FILE    adds those of Nsight Compute's counters that the kernels of FILE lack

SET: heldout, or reference (those of ../../reference/h200-corun.json.gz).  Each operation is one PyTorch call
that launches one kernel; an operation that does not is left out with a message. A client issues `launches`
launches of its kernel into one stream. Both clients start together; `t_a` and `t_b` are the times in ms at which
each has finished, medians of `samples`, and `spread` is the largest ratio among them. There are 3 samples, and up
to 7 until the 3 that lie closest together differ by at most 2 %; a sample for which the host was not done when the
gate opened does not count and is taken again behind a longer gate.

Modes: streams, streams_ba   two plain streams, the host issues A first or B first
       prio_a, prio_b        A or B on a stream of the highest priority
       half, quarter         green contexts, A on a half or a quarter of the SMs and B on the others
"""
import csv
import gzip
import json
import math
import subprocess
import sys
import tempfile
from itertools import combinations, combinations_with_replacement
from statistics import median

COUNTERS = {
    "warp_instructions": "smsp__inst_executed.sum",
    "issue_active_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "l1_bytes": "l1tex__t_bytes.sum",
    "warps_active_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "fp64_active_pct": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "ncu_duration_ns": "gpu__time_duration.sum",
}
# How busy each pipe of the SMs is, %.
PIPES = {
    **{pipe: f"sm__inst_executed_pipe_{pipe}.avg.pct_of_peak_sustained_active"
       for pipe in ("alu", "fma", "fmaheavy", "lsu", "xu")},
    "tensor_cycles": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1_data": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
}
TARGET_MS = 4.0  # what a client's launches should last alone


def operations(which):
    """Name -> maker of a launch function. Every call of a maker makes buffers of its own: two clients that read
    the same buffer would find it in L2."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0 if which == "reference" else 1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    # Leaves flash attention; to choose it at each call costs the host 0.1 ms.
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    f16, f32, f64, bf16 = torch.float16, torch.float32, torch.float64, torch.bfloat16

    def normal(*shape, dtype=f32):
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def empty(*shape, dtype=f32):
        return torch.empty(*shape, device="cuda", dtype=dtype)

    def into(function, output, *inputs):
        """A call that writes to `output`, so that nothing is allocated while it is timed."""
        return lambda: function(*inputs, out=output)

    def copy(target, source):
        return lambda: target.copy_(source)

    def row_indices(rows, count):
        return torch.randint(rows, (count,), device="cuda")

    def conv1x1():
        image = normal(32, 256, 56, 56, dtype=f16).to(memory_format=torch.channels_last)
        weight = normal(128, 256, 1, 1, dtype=f16).to(memory_format=torch.channels_last)
        return lambda: F.conv2d(image, weight)

    def conv3x3_f16():
        image = normal(32, 128, 56, 56, dtype=f16).to(memory_format=torch.channels_last)
        weight = normal(128, 128, 3, 3, dtype=f16).to(memory_format=torch.channels_last)
        return lambda: F.conv2d(image, weight, padding=1)

    def conv7x7():
        image, weight = normal(16, 8, 224, 224), normal(32, 8, 7, 7)
        return lambda: F.conv2d(image, weight, stride=2, padding=3)

    def attention():
        q, k, v = (normal(8, 16, 1024, 64, dtype=f16) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v)

    def avgpool():
        image = normal(32, 64, 112, 112)
        return lambda: F.avg_pool2d(image, 3, 2)

    def upsample():
        image = normal(16, 64, 56, 56)
        return lambda: F.interpolate(image, scale_factor=2.0, mode="bilinear")

    def log_softmax():
        logits = normal(2048, 50304)
        return lambda: F.log_softmax(logits, 1)

    def softmax():
        rows = normal(32768, 1024)
        return lambda: F.softmax(rows, 1)

    def filter2d(weight_shape, groups):
        def make():
            image, weight = normal(32, 64, 112, 112), normal(*weight_shape)
            return lambda: F.conv2d(image, weight, padding=1, groups=groups)
        return make

    def on_cube(function):
        def make():
            cube = normal(64, 1024, 1024)
            return lambda: function(cube)
        return make

    def batchnorm():
        image = normal(32, 64, 112, 112)
        mean, variance, scale, shift = (normal(64).abs() for _ in range(4))
        return lambda: F.batch_norm(image, mean, variance, scale, shift)

    def layernorm():
        rows = normal(8192, 4096)
        return lambda: F.layer_norm(rows, (4096,))

    def maxpool():
        image = normal(32, 64, 112, 112)
        return lambda: F.max_pool2d(image, 3, 2, 1)

    cube = (64, 1024, 1024)
    if which == "reference":
        return {
            "sgemm1024": lambda: into(torch.mm, empty(1024, 1024), normal(1024, 1024), normal(1024, 1024)),
            "hgemm2048": lambda: into(torch.mm, empty(2048, 2048, dtype=f16), normal(2048, 2048, dtype=f16),
                                      normal(2048, 2048, dtype=f16)),
            "relu256M": lambda: into(lambda x, out: torch.clamp_min(x, 0, out=out), empty(*cube), normal(*cube)),
            "add256M": lambda: into(torch.add, empty(*cube), normal(*cube), normal(*cube)),
            "layernorm": layernorm,
            "gelu": on_cube(F.gelu),
            "tanh_bf16": lambda: into(torch.tanh, empty(1 << 27, dtype=bf16), normal(1 << 27, dtype=bf16)),
            "conv3x3": filter2d((64, 64, 3, 3), 1),
            "dwconv": filter2d((64, 1, 3, 3), 64),
            "maxpool": maxpool,
            "digamma": lambda: into(torch.special.digamma, empty(16, 1024, 1024), normal(16, 1024, 1024).abs()),
            "transpose": lambda: copy(empty(8192, 8192), normal(8192, 8192).t()),
            "batchnorm": batchnorm,
            "gather_small": lambda: into(torch.index_select, empty(1 << 24), normal(1 << 22), 0,
                                         row_indices(1 << 22, 1 << 24)),
        }
    return {
        "sgemm2048": lambda: into(torch.mm, empty(2048, 2048), normal(2048, 2048), normal(2048, 2048)),
        "bgemm_tall": lambda: into(torch.mm, empty(16384, 1024, dtype=bf16), normal(16384, 1024, dtype=bf16),
                                   normal(1024, 1024, dtype=bf16)),
        "bmm_f32": lambda: into(torch.bmm, empty(96, 512, 512), normal(96, 512, 64), normal(96, 64, 512)),
        "conv1x1": conv1x1,
        "conv3x3_f16": conv3x3_f16,
        "conv7x7": conv7x7,
        "attention": attention,
        "softmax": softmax,
        "log_softmax": log_softmax,
        "row_sum": lambda: into(lambda x, out: torch.sum(x, 1, out=out), empty(16384), normal(16384, 4096)),
        "sigmoid32M": lambda: into(torch.sigmoid, empty(1 << 25), normal(1 << 25)),
        "mul4M": lambda: into(torch.mul, empty(1 << 22), normal(1 << 22), 1.5),
        "cast_f16": lambda: copy(empty(1 << 26), normal(1 << 26, dtype=f16)),
        "strided_copy": lambda: copy(empty(8192, 8192), normal(8192, 16384)[:, ::2]),
        "avgpool": avgpool,
        "upsample": upsample,
        "rows_1KiB": lambda: into(torch.index_select, empty(1 << 17, 256), normal(1 << 19, 256), 0,
                                  row_indices(1 << 19, 1 << 17)),
        "gather_1GiB": lambda: into(torch.index_select, empty(1 << 23), normal(1 << 28), 0,
                                    row_indices(1 << 28, 1 << 23)),
        "cumsum": lambda: into(torch.cumsum, empty(8192, 4096), normal(8192, 4096), 1),
        "erfinv": lambda: into(torch.special.erfinv, empty(1 << 24),
                               torch.rand(1 << 24, device="cuda") * 1.9 - 0.95),
        "sin_f64": lambda: into(torch.sin, empty(1 << 23, dtype=f64), normal(1 << 23, dtype=f64)),
    }


def recorded_kernels(launch):
    """What one launch puts on the GPU, as PyTorch's profiler records it."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        launch()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profiler.export_chrome_trace(file.name)
        with open(file.name) as trace:
            events = json.load(trace)["traceEvents"]
    return [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def closest(taken):
    """The largest ratio among the 3 samples that lie closest together."""
    return min(max(max(t) / min(t) for t in zip(*three)) for three in combinations(taken, 3))


class Gpu:
    """Streams of all kinds, and the stopwatch."""

    def __init__(self):
        import torch
        from cuda.bindings import driver
        self.torch, self.driver = torch, driver
        torch.zeros(1, device="cuda")  # makes the primary context
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.gate = torch.cuda.Stream()
        self.plain = torch.cuda.Stream(), torch.cuda.Stream()
        self.low, self.high = torch.cuda.Stream(priority=0), torch.cuda.Stream(priority=-5)
        self.device = self.call(driver.cuDeviceGet, 0)
        all_sms = self.call(driver.cuDeviceGetDevResource, self.device,
                            driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        ignore_coscheduling = 1
        self.tpcs = self.call(driver.cuDevSmResourceSplitByCount, self.sms // 2, all_sms,
                              ignore_coscheduling, 2)[0]
        self.confined = {}

    def call(self, function, *arguments):
        status, *results = function(*arguments)
        if int(status) != 0:
            raise RuntimeError(f"{function.__name__}: {status}")
        return results[0] if len(results) == 1 else results

    def on_sms(self, first, last):
        """The stream of a green context of the SMs [first, last), both even."""
        if (first, last) not in self.confined:
            groups = self.tpcs[first // 2:last // 2]
            description = self.call(self.driver.cuDevResourceGenerateDesc, groups, len(groups))
            context = self.call(self.driver.cuGreenCtxCreate, description, self.device, 1)
            stream = self.call(self.driver.cuGreenCtxStreamCreate, context, 1, 0)
            self.confined[first, last] = self.torch.cuda.ExternalStream(int(stream)), context
        return self.confined[first, last][0]

    def modes(self):
        one, two = self.plain
        half, quarter = self.sms // 4 * 2, self.sms // 8 * 2
        return {"streams": (one, two), "streams_ba": (one, two), "prio_a": (self.high, self.low),
                "prio_b": (self.low, self.high), "half": (self.on_sms(0, half), self.on_sms(half, self.sms)),
                "quarter": (self.on_sms(0, quarter), self.on_sms(quarter, self.sms))}

    def warm(self, clients):
        """Lets every client allocate what it allocates on its stream before the clock runs."""
        for launch, _, stream in clients:
            with self.torch.cuda.stream(stream):
                launch()
        self.torch.cuda.synchronize()

    def time(self, clients):
        """As `try_time`, behind longer gates until the host is done in time."""
        for longer in (1, 2, 4, 8):
            ends, late = self.try_time(clients, longer)
            if not late:
                return ends
        raise RuntimeError("the host is too slow for the gate")

    def try_time(self, clients, longer):
        """Starts the clients [(launch, launches, stream)] together; the ms after which each is done, and
        whether the host was late. A sleeping kernel holds them back until the host has issued everything, a client's k-th launch where its rival is as
        far as itself."""
        cuda = self.torch.cuda
        cuda.synchronize()
        start = cuda.Event(enable_timing=True)
        ends = [cuda.Event(enable_timing=True) for _ in clients]
        host_us = 3000 + 60 * sum(launches for _, launches, _ in clients)
        with cuda.stream(self.gate):
            cuda._sleep(longer * max(6_000_000, 1980 * host_us))
            start.record(self.gate)
        for _, _, stream in clients:
            stream.wait_event(start)
        order = sorted((k / launches, which) for which, (_, launches, _) in enumerate(clients)
                       for k in range(launches))
        for _, which in order:
            launch, _, stream = clients[which]
            with cuda.stream(stream):
                launch()
        for (_, _, stream), end in zip(clients, ends):
            end.record(stream)
        late = start.query()
        cuda.synchronize()
        return [round(start.elapsed_time(end), 4) for end in ends], late

    def samples(self, pair, turn):
        """Times of both clients: 3, and up to 7 until 3 of them agree."""
        taken = []
        while len(taken) < 3 or (len(taken) < 7 and closest(taken) > 1.02):
            taken.append(self.time(pair[::turn])[::turn])
        return taken

    def median_time(self, client, repeats):
        self.warm([client])
        return median(self.time([client])[0] for _ in range(repeats))


def describe(gpu, launch):
    """The launch shape and the solo times of an operation, or why it cannot be used."""
    for _ in range(3):
        launch()
    gpu.torch.cuda.synchronize()
    found = recorded_kernels(launch)
    if len(found) != 1 or found[0]["cat"] != "kernel":
        return None, f"not one kernel but {[k['name'][:60] for k in found]}"
    shape = found[0]["args"]
    stream = gpu.plain[0]
    one_ms = gpu.median_time((launch, 20, stream), 3) / 20
    launches = max(4, min(400, round(TARGET_MS / one_ms)))
    return {
        "name": found[0]["name"], "grid": shape["grid"], "block": shape["block"],
        "registers_per_thread": shape["registers per thread"], "shared_memory_bytes": shape["shared memory"],
        "launches": launches, "solo_ms": gpu.median_time((launch, launches, stream), 5),
        "solo_ms_by_sms": {n: gpu.median_time((launch, launches, gpu.on_sms(0, n)), 3)
                           for n in (8, 16, 32, 66, 100, 132) if n <= gpu.sms},
    }, None


def save(path, data):
    with open(path, "w") as file:
        json.dump(data, file, indent=1)


def gpu_name(torch):
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True).stdout.split()
    return (f"{torch.cuda.get_device_name()}, driver {(driver or ['unknown'])[0]}, CUDA {torch.version.cuda}, "
            f"PyTorch {torch.__version__}")


def times(which, path):
    import torch
    gpu = Gpu()
    data = {"gpu": gpu_name(torch), "set": which, "kernels": {}, "rows": []}
    clients = {}
    with torch.no_grad():
        for name, make in operations(which).items():
            try:
                first = make()
                kernel, reason = describe(gpu, first)
                second = make()
            except Exception as error:  # an operation that this PyTorch refuses must not cost the others
                kernel, reason = None, repr(error)
            if kernel is None:
                print(f"{name} left out: {reason}", flush=True)
                continue
            clients[name] = first, second
            data["kernels"][name] = kernel
            print(name, kernel["launches"], kernel["solo_ms"], kernel["name"][:80], flush=True)
        save(path, data)
        for a, b in combinations_with_replacement(clients, 2):
            for mode, (stream_a, stream_b) in gpu.modes().items():
                pair = [(clients[a][0], data["kernels"][a]["launches"], stream_a),
                        (clients[b][1], data["kernels"][b]["launches"], stream_b)]
                turn = -1 if mode == "streams_ba" else 1
                gpu.warm(pair)
                ends = list(zip(*gpu.samples(pair, turn)))
                spread = round(max(max(t) / min(t) for t in ends), 4)
                data["rows"].append({"a": a, "b": b, "mode": mode,
                                     "t_a": median(ends[0]), "t_b": median(ends[1]), "spread": spread,
                                     "samples": ends})
            print(a, b, *(f"{r['mode']} {r['t_a']:.2f}/{r['t_b']:.2f}" for r in data["rows"][-6:]), flush=True)
            if b == list(clients)[-1]:
                save(path, data)
    save(path, data)


def profiled(which, names):
    """Runs under Nsight Compute, which looks only between start and stop."""
    import torch
    makers = operations(which)
    with torch.no_grad():
        for name in names:
            launch = makers[name]()
            launch()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            launch()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()


def counters(path):
    packed = path.endswith(".gz")
    with (gzip.open(path, "rt") if packed else open(path)) as file:
        data = json.load(file)
    names = list(data["kernels"])
    which = data.get("set", "reference" if "sgemm1024" in names else "heldout")  # the first files do not say
    known = {key for kernel in data["kernels"].values() for key in kernel.get("ncu", {})}
    wanted = {key: metric for key, metric in COUNTERS.items() if key not in known}
    pipes = {} if "pipes_pct" in known else PIPES
    command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv",
               "--print-units", "base", "--metrics", ",".join([*wanted.values(), *pipes.values()]),
               sys.executable, __file__, "profiled", which, *names]
    run = subprocess.run(command, capture_output=True, text=True)
    table = list(csv.DictReader(line for line in run.stdout.splitlines() if line.startswith('"')))
    by_id = {}
    for row in table:
        by_id.setdefault(int(row["ID"]), {"kernel": row["Kernel Name"]})[row["Metric Name"]] = row["Metric Value"]
    if len(by_id) != len(names):
        sys.exit(f"{len(by_id)} kernels profiled, {len(names)} expected:\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}")
    for name, (_, row) in zip(names, sorted(by_id.items())):
        def values(metrics):
            found = {key: float(row[m].replace(",", "")) for key, m in metrics.items() if m in row}
            return {key: value for key, value in found.items() if math.isfinite(value)}
        ncu = data["kernels"][name].setdefault("ncu", {})
        ncu.update(values(wanted))
        if pipes:
            ncu["pipes_pct"] = values(pipes)
        print(name, row["kernel"][:50], "of", data["kernels"][name]["name"][:50], ncu, flush=True)
    if packed:
        with open(path, "wb") as file:
            file.write(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))
    else:
        save(path, data)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["times", "heldout" | "reference" as which, path]: times(which, path)
        case ["counters", path]: counters(path)
        case ["profiled", which, *names]: profiled(which, names)
        case _: sys.exit(__doc__)
