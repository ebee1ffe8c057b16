#!/usr/bin/env python3
"""Writes the inputs in corpus/ that fuzzing starts from: each a small valid file, or one of another version.

Inputs called found-* are not from here: they are what fuzzing once broke a reader with, cut down.
"""
import gzip
import json
import pathlib
import sqlite3

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def write(reader, name, content):
    folder = HERE / "corpus" / reader
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content, separators=(",", ":"))
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


# --- traces and GPU descriptions ---

def trace(**more):
    return {
        "corun_trace": 1, "gpu": "h200",
        "kernels": [{"name": "gemm", "grid": [8, 7, 1], "block": [128, 1, 1], "registers_per_thread": 88,
                     "solo_time_ns": 3424}],
        "programs": [{"name": "infer", "streams": ["main", "side"], "ops": [
            {"launch": "gemm", "name": "first", "host_gap_ns": 12.5},
            {"launch": "gemm", "stream": "side", "after": ["first"], "tpc_mask": "0-32,40", "solo_time_ns": 900, "dependent": True},
            {"copy": "device_to_host", "bytes": 100}, {"sync": True}]}],
        "clients": [{"name": "camera", "program": "infer", "streams": {"side": {"priority": -1}},
                     "arrivals": {"type": "periodic", "period_ns": 100, "offset_ns": 1, "stale": "queue"}}],
        "run": {"duration_ns": 1000, "warm_up_ns": 10, "seed": 3}, **more}


KERNEL = {"name": "k", "grid": [4, 2, 1], "block": [64, 1, 1], "cluster": [2, 1, 1], "registers_per_thread": 40,
          "static_shared_memory_bytes": 16, "dynamic_shared_memory_bytes": 4096, "idempotent": True,
          "solo_time_sms": 66, "solo_time_by_sms_ns": {"8": 20000, "132": 3424},
          "block_times_ns": [100, 200, 300, 400, 500, 600, 700, 800],
          "persistent_time_by_ctas_ns": {"1": 5000, "2": 3000},
          "stoppable": {"time_ns": 4000, "workers_stay": True},
          "counters": {"dram_read_bytes": 1e5, "dram_write_bytes": 1e4, "l2_bytes": 2e5, "l1_bytes": 4e5,
                       "warp_instructions": 1e5, "issue_active_pct": 40, "warps_active_pct": 30,
                       "fp64_active_pct": 0, "duration_ns": 3500, "pipes_pct": {"sm__pipe_fma": 10}}}
write("trace", "two-streams", trace())
write("trace", "every-key-of-a-kernel", trace(kernels=[KERNEL], programs=[
    {"name": "infer", "issue": "graph", "streams": ["s"], "ops": [{"launch": "k"}]}]))
write("trace", "memory", trace(programs=[{"name": "infer", "streams": ["s"], "ops": [
    {"alloc": "a", "bytes": 100}, {"copy": "host_to_device", "bytes": 100, "uses": ["a"]},
    {"launch": "gemm", "uses": ["a"]}, {"free": "a"}]}], clients=[
        {"name": n, "program": "infer", "process": "p", "class": "real_time", "priority": -5, "deadline_ns": 1e7,
         "memory_bytes": 1000, "quota": 0.5, "reservation": 0.25, "tpc_mask": "0-65", "issue": "graph",
         "arrivals": a} for n, a in {
             "a": {"type": "closed_loop", "think_time_ns": 5}, "b": {"type": "poisson", "rate_per_s": 10, "seed": 2},
             "c": {"type": "explicit", "times_ns": [1, 2, 3]}, "d": {"type": "once", "at_ns": 5}}.items()]))
write("trace", "code", trace(kernels=[{**KERNEL, "name": "gemm", "code": {
    "library": "vector", "function": "f", "arguments": [
        {"buffer": "f32", "elements": 10, "fill": {"low": -1, "high": 1}},
        {"buffer": "u32", "elements": 4, "fill": {"below": 3}}, {"f32": 0.5}, {"u32": 2}, {"i32": -1}]}}]))
write("trace", "includes-another", trace(include=["other.json", "input"]))
write("trace", "gzip", gzip.compress(json.dumps(trace()).encode(), mtime=0))


def leaf(value, basis="published"):
    return {"value": value, "source": "a data sheet", "basis": basis}


write("gpu", "extends-another", {
    "corun_gpu": 1, "name": "mine", "extends": "rtx-4090", "product": "NVIDIA GeForce RTX 4080",
    "chip": {"sms": leaf(76), "clock_hz": leaf(2505000000)},
    "memory": {"memory_bytes": leaf(17179869184), "l2_bytes": leaf(67108864),
               "dram_bytes_per_second": leaf(716800000000)}})
whole = json.loads((ROOT / "traces/gpus/h200.json").read_text())
for group in whole.values():
    if isinstance(group, dict):
        for value in group.values():
            if isinstance(value, dict) and "source" in value:
                value["source"] = "s"
write("gpu", "whole", whole)
write("gpu", "extends-itself", {"corun_gpu": 1, "name": "mine", "extends": "input"})


# --- Kineto ---

def event(cat, name, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}


def kernel(ts, correlation, stream=7, **more):
    return event("kernel", "gemm", ts, 20.125, **{
        "device": 0, "context": 1, "stream": stream, "correlation": correlation, "registers per thread": 122,
        "shared memory": 12544, "blocks per SM": 1.484848, "grid": [196, 1, 1], "block": [128, 1, 1], **more})


def kineto(*events, **more):  # a device only in few: all descriptions are read to find it, which takes 40 ms
    return {"schemaVersion": 1, **more, "traceEvents": list(events)}


LAUNCH = event("cuda_runtime", "cudaLaunchKernel", 10, 3, correlation=1)
write("kineto", "one-launch", kineto(LAUNCH, kernel(20, 1), deviceProperties=[
    {"id": 0, "name": "NVIDIA H200", "numSms": 132}]))
write("kineto", "steps", kineto(*[e for n in range(3) for e in (
    event("user_annotation", f"ProfilerStep#{n}", 1000 * n, 900 + n),
    event("cuda_runtime", "cudaLaunchKernel", 1000 * n + 10, 3, correlation=n + 1), kernel(1000 * n + 20, n + 1))]))
write("kineto", "copies-and-waits", kineto(
    event("cuda_runtime", "cudaMemcpyAsync", 1, 9, correlation=1),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 2, 7, device=0, context=1, stream=7, correlation=1, bytes=999),
    event("cuda_runtime", "cudaLaunchKernel", 10, 200, correlation=2), kernel(215, 2),
    event("cuda_runtime", "cudaEventRecord", 220, 1, correlation=3),
    event("cuda_runtime", "cudaStreamWaitEvent", 222, 1, correlation=4),
    event("cuda_sync", "Stream Wait Event", 222, 1, cuda_sync_kind="Stream Wait Event", device=0, context=1, stream=8,
          wait_on_stream=7, wait_on_cuda_event_record_corr_id=3, correlation=4),
    event("cuda_runtime", "cudaLaunchKernel", 225, 2, correlation=5), kernel(240, 5, 8),
    event("gpu_memset", "Memset (Device)", 262, 1, device=0, context=1, stream=7, correlation=9, bytes=64),
    event("cuda_runtime", "cudaDeviceSynchronize", 230, 40, correlation=6),
    event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 270, 7, device=0, context=2, stream=7, bytes=12)))
write("kineto", "a-graph", kineto(event("cuda_runtime", "cudaGraphLaunch", 5, 3, correlation=1),
                                  kernel(10, 1), kernel(40, 1), kernel(41, 1, 9)))
write("kineto", "amd", kineto(
    event("cuda_runtime", "hipExtModuleLaunchKernel", 1, 2, correlation=1, grid=[65536, 1, 1], block=[256, 1, 1]),
    event("kernel", "k", 5, 9, device=2, stream=0, correlation=1),
    event("kernel", "k", 25, 9, device=2, stream=0, correlation=2),
    event("kernel", "shapeless", 45, 9, device=2, stream=0, correlation=3)))
write("kineto", "bare-records", [{"name": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "ts": 1.5, "dur": 2, "ph": "X",
                                  "stream": 3}, {"name": "k", "grid": [2, 1, 1], "block": [32, 1, 1], "ts": 9, "dur": 2}])
write("kineto", "of-2021", kineto(event("Runtime", "cudaLaunchKernel", 1, 2, correlation=1),
                                  event("Kernel", "k", 4, 2, grid=[1, 1, 1], block=[32, 1, 1], correlation=1),
                                  event("Memcpy", "Memcpy DtoH", 7, 2, bytes=8)))
write("kineto", "two-devices", kineto(kernel(1, 1), kernel(30, 2, device=1), kernel(60, 3, device=1)))
write("kineto", "from-1970", kineto(kernel(1759276800000000.123, 1), kernel(1759276800000030.5, 2)))
write("kineto", "request-times", kineto(LAUNCH, kernel(20, 1), corun_request_time_us={"ProfilerStep": 80.5, "decode": 70}))
write("kineto", "gzip", gzip.compress(json.dumps(kineto(LAUNCH, kernel(20, 1))).encode(), mtime=0))

# --- Nsight Systems: rows, as nsys_rows.h says, and a database ---

A, B = 281 << 48 | 111 << 24, 281 << 48 | 222 << 24
STRINGS = "".join(f"T {i} {s}\n" for i, s in enumerate(
    ["gemm", "void_gemm<float>()", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", "step",
     "cudaGraphLaunch_v10000", "cudaStreamWaitEvent_v3020"], 1))


def row_kernel(start, end, correlation, process=A, stream=7, cluster="1 1 1"):
    return f"K {start} {end} 0 1 {stream} {correlation} {process} 2 1 96 264 1 1 128 1 1 1024 2048 {cluster}\n"


write("nsys_rows", "a-launch", STRINGS + f"G 0 NVIDIA-H200 132 0\nR 1000 3000 {A + 5} 1 3\n" + row_kernel(9000, 59000, 1))
write("nsys_rows", "two-processes", STRINGS + f"P {A} 111 /usr/bin/python3\nP {B} 222 server\n" +
      f"R 1000 3000 {A + 5} 1 3\nR 1500 3000 {B + 5} 1 3\n" + row_kernel(9000, 59000, 1) + row_kernel(60000, 70000, 1, B))
write("nsys_rows", "ranges", STRINGS + "".join(
    f"N {n * 100000} {n * 100000 + 90000} {A + 5} - 6\nR {n * 100000 + 10} {n * 100000 + 20} {A + 5} {n + 1} 3\n" +
    row_kernel(n * 100000 + 1000, n * 100000 + 5000, n + 1, cluster="2 1 1") for n in range(3)) + f"N 5 9 {A + 5} step -\n")
write("nsys_rows", "copies-and-waits", STRINGS + f"R 1 5000 {A + 5} 1 4\nC 100 4000 0 1 7 1 {A} 4096 1 0 2\n"
      f"M 5000 5100 0 1 7 0 {A} 64\n" + f"R 6000 6100 {A + 5} 2 3\n" + row_kernel(7000, 9000, 2) +
      f"R 6200 9100 {A + 5} 3 5\nS 6200 9100 0 1 7 3 {A} 3\nR 9200 9300 {A + 5} 4 8\nS 9200 9300 0 1 8 4 {A} 2\n" +
      f"R 9400 9500 {A + 5} 5 7\n" + row_kernel(9600, 9900, 5, stream=8) + row_kernel(9700, 9950, 5, stream=9) +
      f"C 9960 9970 0 1 7 6 {A} 10 8 2 2\nC 9980 9990 0 1 7 7 {A} 10 2 2 0\n")


def database(*statements):
    file = HERE / "seed.sqlite"
    file.unlink(missing_ok=True)
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA page_size=512")
        for statement in statements:
            db.execute(statement)
    db.close()
    content = file.read_bytes()
    file.unlink()
    return content


write("nsys", "kernels-only", database(
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, gridX INT, gridY INT, gridZ INT, blockX INT, "
    "blockY INT, blockZ INT)", "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10,20,1,1,1,32,1,1)"))
write("nsys", "graphs-only", database("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT)"))

# --- rocprofv3 ---

for name in ["rocm7", "rocm62"]:  # as text: a key may stand twice
    write("rocprof", name, "".join(
        line.strip() for line in (ROOT / f"tests/data/rocprof_{name}.json").read_text().splitlines()))

# --- sim capture ---

CAPTURE = '["p",1,7,"serve"]\n["d",0,"NVIDIA H200",132]\n["n",0,"k"]\n["n",1,"cudaLaunchKernel_v7000"]\n'


def captured(start, correlation, cluster="0,0,0"):
    return f'["a",1,{start},{start + 900},11,{correlation}]\n' \
           f'["k",0,{start + 3000},{start + 8000},0,1,7,{correlation},64,1,1,128,1,1,32,0,0,{cluster},0]\n'


write("capture", "a-launch", CAPTURE + captured(1000, 5) + '["z",0]\n')
write("capture", "of-each-kind", CAPTURE.replace('["d",0,"NVIDIA H200",132]\n', "") + '["r","step",500,90000,11]\n' +
      captured(1000, 5, "2,1,1") + '["c",4096,10000,11000,0,1,7,6,1,1,2]\n["m",64,12000,12500,0,1,7,8]\n'
      '["x",1,4096,139,900]\n["x",2,4096,139,50000]\n["e",1,3,9,7]\n["s",20000,1,8,10,3]\n' +
      captured(30000, 11) + '["z",2]\n')


def captured_rounds(begin, first, recorded):
    """Four launches with a wait and a range each."""
    text = ""
    for i in range(4):
        at, number = begin + 20_000 * i, first + 2 * i
        launch = captured(at, number)
        text += (launch if recorded else launch.splitlines(True)[0]) + f'["a",2,{at + 2000},{at + 9000},11,{number + 1}]\n'
        text += f'["r","step",{at - 100},{at + 9100},11,0]\n'
    return text


write("capture", "segments", CAPTURE + '["n",2,"cudaStreamSynchronize_v3020"]\n["n",3,"cuGraphLaunch"]\n["o",1,1]\n' +
      captured_rounds(10_000, 1, True) + '["a",3,92000,93000,11,99]\n["o",95000,0]\n' + captured_rounds(100_000, 21, False) +
      '["o",190000,1]\n' + captured_rounds(200_000, 41, True) + '["z",0]\n')
write("capture", "an-end-in-a-later-segment", CAPTURE + '["r","step",500,20000,11,0]\n' + captured(1000, 5).replace(',9000,', ',60000,') +
      '["r","step",20500,40000,11,0]\n' + captured(21000, 6) + '["o",50000,0]\n["o",55000,1]\n' + captured(70000, 7) + '["z",0]\n')

# --- Nsight Compute ---

HEADER = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
          "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value")


def csv(*rows):
    return "".join(",".join('"' + str(v) + '"' for v in r) + "\n" for r in rows)


def long(id, metric, unit, value, kernel="void relu<float, 4>(int, float*)"):
    return (id, 7, "python", "127.0.0.1", kernel, 1, 7, "(128, 1, 1)", "(8, 7, 1)", 0, "9.0", "Launch", metric, unit, value)


write("ncu", "long", "==PROF== Connected\n" + csv(
    HEADER, long(0, "gpu__time_duration.sum", "usecond", "3.42"), long(0, "dram__bytes_read.sum", "Mbyte", "1,234.5"),
    long(0, "smsp__inst_executed.sum", "inst", "2,000"), long(0, "launch__cluster_size", "", "2"),
    long(1, "lts__t_bytes.sum", "byte", "12.345,6"), long(1, "launch__registers_per_thread", "register/thread", 40),
    long(1, "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "n/a")) + "==WARNING== done\n")
write("ncu", "wide", csv(
    ("ID", "Kernel Name", "Block Size", "Grid Size", "Device", "gpu__time_duration.sum", "dram__bytes_write.sum",
     "launch__shared_mem_per_block_static", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    ("", "", "", "", "", "ns", "Kbyte", "byte/block", "%"), (0, "k", "(32, 1, 1)", "(4, 1, 1)", 0, "3000", "1.5", "16", "12"),
    (1, "k", "(32, 1, 1)", "(4, 1, 1)", 0, "3100", "1.5")))
write("ncu", "gzip", gzip.compress(csv(HEADER, long(0, "gpu__time_duration.sum", "ns", "3")).encode(), mtime=0))

# --- table ---
write("table", "percentages", "percentage,latency_ms,busy_pct,dram_pct,l2_pct,kernels,gpu\n100,10,95,20,30,5,h200\n50,17.1,97,15,,5,\n25,1e6,0.1,0,0,1000,\n")
write("table", "sms", "sms, latency_ms, copy_in_bytes, copy_out_bytes, issue_pct, occupancy_pct\r\n132,0.001,0,0,100,100\r\n1,12,1000000,1,0.1,1\r\n")

# --- arrivals ---

write("arrivals", "azure", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-30 23:59:59.9999999,374,44\r\n"
      "2024-03-01 00:00:00+00:00,879,55\r\n")
write("arrivals", "burstgpt", "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,0,1087,API log\n60,\"a,b\",2.0,3,5,API log\n")
write("arrivals", "mooncake", '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
      '{"timestamp": 3052, "input_length": 7319, "output_length": 490, "hash_ids": []}\n')
write("arrivals", "times", "0\n0.25\n 7e1\n3\n")
write("arrivals", "gzip", gzip.compress(b"time\n1\n2\n", mtime=0))

# --- what the project writes and reads ---

write("profile", "points", {
    "corun_profile": 1, "gpu": "titan-xp", "source": "simulated",
    "kernels": [{"kernel": "k", "points": [{"sms": 15, "ctas_per_sm": 16, "time_ns": 29120000},
                                           {"sms": 1, "ctas_per_sm": 1, "ctas": 1, "time_ns": 5.5}]}]})
write("sweep", "grid", {"corun_sweep": 1, "traces": ["a.json"], "gpus": ["h200"], "policies": ["fcfs", "mps"],
                        "set": {"cam.rate": [50, "100"]}, "seeds": [1, 2], "duration": "100ms"})
for name in ["mps-percentages", "timeslice-h200", "reef-fig16-padding", "libsmctrl-table3"]:
    write("figure", name, (ROOT / f"experiments/papers/{name}.json").read_bytes())

NETWORK = {"name": "n", "trace": "n.json", "graph_ms": [0.05, 0.03], "set_aside": True, "eager_ms": [1]}
write("networks", "one-mix", {
    "corun_networks": 1, "device": "a card", "networks": [NETWORK],
    "mixes": [{"name": "mix", "trace": "mix.json", "networks": ["n", "n"]}],
    "runs": [{"mix": "mix", "mode": "streams", "policy": "fcfs", "clients": [
        [{"latencies_us": [50, 60], "dropped": 1}], [{"done": 9, "per_s": 2000.0}]]}]})
cut = json.loads(gzip.decompress((ROOT / "experiments/reference/h200-corun-2.json.gz").read_bytes()))
two = dict(list(cut["kernels"].items())[:2])
write("reference", "two-kernels", {**cut, "kernels": two, "rows": [
    row for row in cut["rows"] if row["a"] in two and row["b"] in two][:6]})

# --- fat binaries ---

for mode in ["none", "speed", "balance", "size"]:
    write("fat_binary", mode, (ROOT / f"tests/data/fat_binaries/{mode}.fatbin").read_bytes())

# --- programs of a service: a policy, then acts (service.cpp) ---

def number(n):
    return bytes([n]) if n < 250 else b"\xff" + n.to_bytes(4, "little")


def act(peer, kind, *more):
    return bytes([peer, kind]) + b"".join(m if isinstance(m, bytes) else bytes([m]) for m in more)


def joined(peer, of=0):
    return act(peer, 2, of) + act(peer, 6)


def launches(peer, stream, count, kernel=0, attempts=0):
    return act(peer, 10, 6, stream, number(kernel), count - 1, attempts)


def ended(peer, stream, more=0):
    return act(peer, 10, 4, stream, number(more))


def requested(peer, what, *words):
    return act(peer, 10, 8, what, *map(number, words))


KERNEL_0 = act(0, 10, 3, 0, *map(number, (32, 0, 0, 8, 128, 4, 1, 1, 1)), 65)
WAITS = act(0, 7, 80)
for policy, name in enumerate(("wait", "backfill", "reef", "smguard", "flexgpu", "memory-wait", "fcfs", "priority", "parts", "stopped", "timeslice")):
    write("service", name, bytes([policy]) + joined(0) + joined(1, 1) + KERNEL_0 + launches(0, 0, 5, attempts=6) + launches(1, 1, 2) + WAITS + ended(0, 0) + ended(1, 1) +
          act(0, 10, 5, 0, number(3), 0) + WAITS + requested(0, 1, 0, 0, 0, 0))
write("service", "blocks", b"\x04" + joined(0) + joined(1, 1) + requested(0, 3, 0, 4, 1, 0) + requested(1, 3, 0, 30, 1, 0) + WAITS + act(0, 10, 7) + launches(1, 0, 1) +
      requested(0, 6, 0, 1, 0, 0) + WAITS + requested(0, 5, 0, 1, 1, 0) + requested(0, 7, 0, 1, 0, 0) + requested(0, 4, 0, 0, 1, 0) + WAITS)
write("service", "half", b"\x00" + act(0, 0) + act(0, 1, 2, b"\0\0", 1) + act(1, 0) + act(1, 3, b"\4\0", b"\7\0\0\0", 1) + act(2, 0) + act(2, 3, b"\0\0", b"\0\0\0\0", 0, b"\x40\0") +
      act(3, 0) + act(3, 5) + act(2, 4, 1))
write("service", "descriptors", b"\x03" + joined(0) + act(0, 1, 1, b"\1", 0, 63) + act(1, 0) + act(1, 1, 1, b"\0", 0, 20) + act(0, 8, b"\0\x10") + act(0, 9, b"\1\0") + act(1, 4, 0))
write("service", "words", b"\x02" + joined(0, 1) + launches(0, 0, 200) + act(0, 10, 2, number(5000)) + act(0, 10, 1, b"\0\0", number(1 << 31)) + act(0, 10, 0, b"\x40\0\0\0", number(7)) +
      requested(0, 2, 0, 1, 0, 0) + requested(0, 9, 300, 1 << 30, 9999, 50))
write("service", "state", b"\x00" + act(0, 0) + act(0, 3, b"\0\0", b"\1\0\0\0", 1) + act(0, 7, 80) + act(0, 4, 0) + joined(1) + launches(1, 19, 250, 4095))
