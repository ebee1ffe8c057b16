#!/usr/bin/env python3
"""Writes the recordings rocprof_*.json beside it, as rocprofv3's source says that it writes them.

rocprof_rocm7.json: two processes on an MI250X's die, streams and registers known, two roctx ranges called "step".
rocprof_rocm62.json: an MI300X in one partition, no streams, group_segment_size twice in each dispatch (as 6.2 wrote).

The keys and their order are those of generateJSON.cpp and cxx/serialization.hpp of ROCm/rocprofiler-sdk; what the
importer does not read is left out, but for a record of each kind that it must pass over.
"""
import json
import pathlib
import re

HERE = pathlib.Path(__file__).parent
CPU, GPU = {"handle": 18446744073709551600}, {"handle": 18446744073709551601}  # any 64 bits
HIP, DISPATCH, COPY, MARKER, HSA = 5, 11, 10, 7, 1  # kinds: indices into strings/buffer_records
CALLS = ["hipLaunchKernel", "hipMemcpy", "hipMemcpyAsync", "hipStreamSynchronize", "hipExtModuleLaunchKernel",
         "hipGetDevice", "hipStreamWaitEvent"]
COPIES = ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST",
          "MEMORY_COPY_DEVICE_TO_DEVICE"]


def kinds():
    names = [{"kind": "NONE", "operations": []} for _ in range(12)]
    names[HIP] = {"kind": "HIP_RUNTIME_API", "operations": CALLS}
    names[HSA] = {"kind": "HSA_CORE_API", "operations": ["hsa_signal_store"]}
    names[COPY] = {"kind": "MEMORY_COPY", "operations": COPIES}
    names[MARKER] = {"kind": "MARKER_CORE_API", "operations": ["roctxThreadRangeA"]}
    names[DISPATCH] = {"kind": "KERNEL_DISPATCH", "operations": ["", "KERNEL_DISPATCH_COMPLETE"]}
    return names


def record(kind, operation, correlation, start, end, thread=4242, **more):
    return {"size": 64, "kind": kind, "operation": operation, "thread_id": thread,
            "correlation_id": {"internal": correlation, "external": 0}, "start_timestamp": start, "end_timestamp": end,
            **more}


def call(name, correlation, start, end):
    return record(HIP, CALLS.index(name), correlation, start, end)


def dispatch(kernel, correlation, start, end, work_items, group, lds=0, queue=1, **more):
    xyz = lambda d: dict(zip("xyz", d))
    return record(DISPATCH, 1, correlation, start, end, dispatch_info={
        "size": 96, "agent_id": GPU, "queue_id": {"handle": queue}, "kernel_id": kernel, "dispatch_id": correlation,
        "private_segment_size": 0, "group_segment_size": lds, "workgroup_size": xyz(group),
        "grid_size": xyz(work_items)}, **more)


def process(pid, command, agent, symbols, records, messages=()):
    return {
        "metadata": {"pid": pid, "init_time": 1, "fini_time": 10**9, "config": {}, "command": command},
        "summary": [],
        "agents": [{"size": 264, "id": CPU, "type": 1, "name": "a CPU", "product_name": "a CPU", "cu_count": 0},
                   {"size": 264, "id": GPU, "type": 2, "wave_front_size": 64, **agent}],
        "counters": [{"agent_id": GPU, "id": {"handle": 1}, "name": "SQ_WAVES"}],
        "strings": {"callback_records": [], "buffer_records": kinds(),
                    "marker_api": [{"key": k, "value": v} for k, v in messages]},
        "code_objects": [{"code_object_id": 1, "uri": "memory://1"}],
        "kernel_symbols": symbols,
        "callback_records": {"counter_collection": []},
        "buffer_records": {"kernel_dispatch": [], "hip_api": [], "hsa_api": [record(HSA, 0, 99, 1, 2)], "marker_api": [],
                           "rccl_api": [], "memory_copy": [], "scratch_memory": [], **records}}


def symbol(id, name, **more):
    return {"size": 80, "kernel_id": id, "code_object_id": 1, "kernel_name": f"_Z{len(name)}{name}v.kd",
            "private_segment_size": 0, "group_segment_size": 512, "formatted_kernel_name": f"{name}()", **more}


def stream(number):
    return {"stream_id": {"handle": number}}


MI250X = {"name": "gfx90a", "product_name": "AMD Instinct MI250X", "cu_count": 110}
COUNTS = {"sgpr_count": 32, "arch_vgpr_count": 64, "accum_vgpr_count": 32}
first = process(4242, ["/opt/app/server", "--port", "1"], MI250X, [{"size": 0, "kernel_id": 0}, symbol(1, "gemm", **COUNTS)], {
    "kernel_dispatch": [dispatch(1, 2, 12000, 32000, (65536, 3, 1), (256, 1, 1), 2560, **stream(1)),
                        dispatch(1, 3, 33000, 53000, (65500, 3, 1), (256, 1, 1), 2560, **stream(1)),
                        dispatch(1, 6, 112000, 142000, (65536, 3, 1), (256, 1, 1), 2560, **stream(2))],
    "hip_api": [call("hipMemcpy", 1, 1000, 9000), call("hipLaunchKernel", 2, 10000, 11000),
                call("hipLaunchKernel", 3, 11500, 12500), call("hipGetDevice", 4, 12600, 12700),
                call("hipStreamSynchronize", 5, 13000, 54000), call("hipLaunchKernel", 6, 110000, 111000)],
    "memory_copy": [record(COPY, 2, 1, 2000, 8500, dst_agent_id=GPU, src_agent_id=CPU, bytes=4096, **stream(1))],
    "marker_api": [record(MARKER, 0, 50, 500, 60000), record(MARKER, 0, 51, 105000, 150000),
                   record(MARKER, 0, 52, 500, 600)]},
    [(50, "step"), (51, "step"), (52, "load")])
second = process(5252, ["python3"], MI250X, [symbol(7, "relu", arch_vgpr_count=256, accum_vgpr_count=128)], {
    "kernel_dispatch": [dispatch(7, 1, 60000, 70000, (1024, 1, 1), (1024, 1, 1), **stream(0))]})

MI300X = {"name": "gfx942", "product_name": "", "cu_count": 38}
old = process(77, ["app"], MI300X, [symbol(1, "gemm")], {
    "kernel_dispatch": [dispatch(1, 1, 5000, 9000, (4096, 1, 1), (64, 4, 1), 512),
                        dispatch(1, 2, 6000, 10000, (4096, 1, 1), (64, 4, 1), 512, queue=2)],
    "memory_copy": [record(COPY, 3, 9, 11000, 12000, dst_agent_id=CPU, src_agent_id=GPU, bytes=64)]})
old["callback_records"]["counter_collection"] = [
    {"thread_id": 1, "dispatch_data": {"dispatch_info": {"kernel_id": 1}}, "records": [{"value": 1}], "arch_vgpr_count": 48}]

if __name__ == "__main__":
    def text(*processes):
        return json.dumps({"rocprofiler-sdk-tool": list(processes)}, indent=1) + "\n"
    (HERE / "rocprof_rocm7.json").write_text(text(first, second))
    twice = re.sub(r'(\n +)"grid_size"', r'\1"group_segment_size": 512,\1"grid_size"', text(old))
    (HERE / "rocprof_rocm62.json").write_text(twice)
