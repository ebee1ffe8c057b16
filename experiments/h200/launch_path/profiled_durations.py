"""What PyTorch's profiler (Kineto, CUPTI) reports for kernels of a known body time, and for two networks.

    python3 profiled_durations.py > profiled_durations.json
"""

import json
import os
import statistics
import tempfile

import cupy
import numpy
import torch

SOURCE = r"""
extern "C" __global__ void body(long long cycles) {
  if (threadIdx.x != 0 || cycles <= 0) return;
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}
extern "C" __global__ void clock_rate(long long* out) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  const long long cycles = clock64();
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < 5000000);
  out[0] = clock64() - cycles;
  out[1] = now - start;
}
"""
KERNELS = 100
BODIES_US = (0, 0.5, 1, 2, 5, 10, 50)
BLOCKS = (1, 132, 1056)
THREADS = 256

module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
body, clock_rate = module.get_function("body"), module.get_function("clock_rate")


def launch(blocks, cycles):
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        body((blocks,), (THREADS,), (numpy.int64(cycles),))


def measure_clock():
    out = torch.zeros(2, dtype=torch.int64, device="cuda")
    with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        clock_rate((1,), (1,), (out.data_ptr(),))
    torch.cuda.synchronize()
    cycles, nanoseconds = out.tolist()
    return 1e3 * cycles / nanoseconds


def capture(action):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        action()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return graph


def profiled(action):
    """What ran on the GPU in order of its start, as the profiler recorded it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        action()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    events = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return sorted(events, key=lambda e: e["ts"])


def replay_time(graph, repeats=15):
    """Median time of one replay in us. The kernel in front lets the replay wait on the GPU, not on the host."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(repeats):
        torch.cuda._sleep(200_000)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def summary(events):
    gaps = [b["ts"] - a["ts"] - a["dur"] for a, b in zip(events, events[1:])]
    return {
        "events": len(events),
        "sum_of_durations_us": round(sum(e["dur"] for e in events), 3),
        "span_us": round(events[-1]["ts"] + events[-1]["dur"] - events[0]["ts"], 3),
        "median_gap_us": round(statistics.median(gaps), 3),
    }


def bodies(mhz):
    cases = [(blocks, us, round(us * mhz)) for blocks in BLOCKS for us in BODIES_US]
    graphs = [capture(lambda: [launch(blocks, cycles) for _ in range(KERNELS)]) for blocks, _, cycles in cases]
    # Profiling can slow a process's later graphs (ResNet-50 by a tenth): the unprofiled times come first.
    before = [replay_time(graph) / KERNELS for graph in graphs]

    def spaced(blocks, cycles, graph):
        for _ in range(KERNELS):
            launch(blocks, cycles)
            torch.cuda.synchronize()

    def queued(blocks, cycles, graph):
        # The long kernel in front lets the queue fill.
        torch.cuda._sleep(round(3000 * mhz))
        for _ in range(KERNELS):
            launch(blocks, cycles)

    def replayed(blocks, cycles, graph):
        graph.replay()

    profiled(lambda: launch(1, 0))
    records = []
    for (blocks, us, cycles), graph, period in zip(cases, graphs, before):
        for mode, action in (("spaced", spaced), ("queued", queued), ("graph", replayed)):
            events = [e for e in profiled(lambda: action(blocks, cycles, graph)) if e["name"] == "body"]
            durations = [e["dur"] for e in events]
            records.append({
                "mode": mode, "blocks": blocks, "threads": THREADS, "body_us": us, "kernels": len(events),
                "duration_us": round(statistics.median(durations), 3),
                "duration_less_body_us": round(statistics.median(durations) - us, 3),
                "period_profiled_us": round(
                    statistics.median(b["ts"] - a["ts"] for a, b in zip(events, events[1:])), 3),
                "gap_profiled_us": summary(events)["median_gap_us"],
                "graph_period_before_profiling_us": round(period, 3),
                "graph_period_after_profiling_us": round(replay_time(graph) / KERNELS, 3),
                "durations_us": [round(d, 3) for d in durations],
            })
    return records


def resnet50():
    import torchvision

    model = torchvision.models.resnet50(weights=None).cuda().eval()
    x = torch.randn(1, 3, 224, 224, device="cuda")
    return lambda: model(x)


def distilbert():
    import transformers

    model = transformers.DistilBertModel(transformers.DistilBertConfig()).cuda().eval()
    ids = torch.randint(0, 30000, (1, 128), device="cuda")
    mask = torch.ones_like(ids)
    return lambda: model(input_ids=ids, attention_mask=mask)


def prepare(make):
    run = make()
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = capture(run)
    return run, graph, replay_time(graph, 50)


def main():
    torch.zeros(1, device="cuda")
    launch(1056, 200_000_000)
    torch.cuda.synchronize()
    mhz = measure_clock()
    networks = {}
    with torch.no_grad():
        for make in (resnet50, distilbert):
            try:
                networks[make.__name__] = prepare(make)
            except Exception as error:  # A network less is no reason to lose the rest.
                networks[make.__name__] = repr(error)
        records = bodies(mhz)
        for name, network in networks.items():
            if isinstance(network, str):
                continue
            run, graph, before = network
            eager = profiled(run)
            in_graph = profiled(graph.replay)
            networks[name] = {
                "graph_before_profiling_us": round(before, 3),
                "graph_after_profiling_us": round(replay_time(graph, 50), 3),
                "eager_profiled": summary(eager),
                "graph_profiled": summary(in_graph),
                "eager_durations": [[e["name"][:80], e["cat"], e["dur"]] for e in eager],
                "graph_durations": [[e["name"][:80], e["cat"], e["dur"]] for e in in_graph],
            }
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "sm_mhz": mhz,
                      "sm_mhz_after": measure_clock(), "networks": networks, "records": records}))


main()
