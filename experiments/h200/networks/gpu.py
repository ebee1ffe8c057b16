"""Networks on the GPU of this process: built, captured as graphs, confined to parts of the GPU, and driven as clients."""
import concurrent.futures
import gc
import json
import os
import subprocess
import sys
import time


def networks():
    """The module, which needs PyTorch."""
    import networks as module
    return module


class Gpu:
    """Networks of one process, built once, and their graphs by what they were captured for."""

    def __init__(self):
        import torch
        self.torch, self.runs, self.graphs, self.streams = torch, {}, {}, {}
        self.threads, self.groups, self.contexts = {}, None, {}
        torch.zeros(1, device="cuda")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    def stream(self, kind, slot):
        """kind: plain, high, or a part of the GPU."""
        if (kind, slot) not in self.streams:
            cuda = self.torch.cuda
            self.streams[kind, slot] = (cuda.ExternalStream(self.confined(kind)) if self.is_part(kind) else
                                        cuda.Stream(priority=-5 if kind == "high" else 0))
        return self.streams[kind, slot]

    def within(self, kind, work):
        """`work` by a thread whose current context is the part's: cuBLAS and cuDNN hold handles by thread and context, and
        refuse a stream of another."""
        if not self.is_part(kind):
            return work()
        if kind not in self.threads:
            self.threads[kind] = concurrent.futures.ThreadPoolExecutor(1)
            self.threads[kind].submit(self.enter, kind).result()
        return self.threads[kind].submit(work).result()

    def is_part(self, kind):
        """A green context: here one of half of the SMs."""
        return kind in ("first", "rest")

    def split(self, whole):
        """The SMs in groups of two."""
        from cuda.bindings import driver
        return call(driver.cuDevSmResourceSplitByCount, self.sms // 2, whole, 1, 2)[0]

    def of_part(self, kind):
        middle = self.sms // 4
        return self.groups[:middle] if kind == "first" else self.groups[middle:]

    def enter(self, kind):
        from cuda.bindings import driver
        device = call(driver.cuDeviceGet, 0)
        if not self.groups:
            self.groups = self.split(call(driver.cuDeviceGetDevResource, device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
        mine = self.of_part(kind)
        self.contexts[kind] = call(driver.cuGreenCtxCreate, call(driver.cuDevResourceGenerateDesc, mine, len(mine)), device, 1)
        call(driver.cuCtxSetCurrent, call(driver.cuCtxFromGreenCtx, self.contexts[kind]))
        self.torch.autograd.set_multithreading_enabled(False)  # backward too in this thread

    def confined(self, kind):
        from cuda.bindings import driver
        return int(call(driver.cuGreenCtxStreamCreate, self.contexts[kind], 1, 0))

    def run(self, name, slot=0):
        if (name, slot) not in self.runs:
            self.torch.manual_seed(1 + slot)
            self.runs[name, slot] = networks().build(name)
        return self.runs[name, slot]

    def graph(self, name, kind="plain", slot=0):
        """A CUDA graph of one request and the stream to launch it on."""
        if (name, kind, slot) not in self.graphs:
            self.graphs[name, kind, slot] = self.within(kind, lambda: self.captured(name, kind, slot))
        return self.graphs[name, kind, slot]

    def captured(self, name, kind, slot):
        torch = self.torch
        run, stream, graph = self.run(name, slot), self.stream(kind, slot), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(4):
                run()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            run()
        torch.cuda.synchronize()
        for _ in range(3):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        return graph, stream


UNIT = 8  # SMs of a group


class Parts(Gpu):
    """A green context for each client: `units` groups of 8 SMs each, one behind the other."""

    def __init__(self, units=()):
        super().__init__()
        self.units = units

    def is_part(self, kind):
        return kind.startswith("part")

    def split(self, whole):
        from cuda.bindings import driver
        without_coscheduling = 1  # else this H200 gives 15 groups and leaves 12 SMs
        return call(driver.cuDevSmResourceSplitByCount, self.sms // UNIT, whole, without_coscheduling, UNIT)[0]

    def of_part(self, kind):
        i = int(kind[4:])
        return self.groups[sum(self.units[:i]):sum(self.units[:i + 1])]


def call(function, *arguments):
    status, *results = function(*arguments)
    if int(status) != 0:
        raise RuntimeError(f"{function.__name__}: {status}")
    return results[0] if len(results) == 1 else results


def drive(torch, clients, seconds, begin=None):
    """clients: [{"work": (graph, stream), "period": s or None, "offset": s}]; what each has done. Times in s from `begin`."""
    if begin is None:
        gc.collect()  # takes up to 0.1 s: processes that begin together do it beforehand
    gc.disable()
    base = begin or time.perf_counter() + 0.001
    while time.perf_counter() < base:
        pass
    state = [{"due": base + c.get("offset", 0), "pending": None, "queue": [], "latencies": [], "ends": [], "dropped": 0}
             for c in clients]
    while (now := time.perf_counter()) < base + seconds:
        for client, s in zip(clients, state):
            graph, stream = client["work"]
            period = client["period"]
            if period is None:
                if s["queue"] and s["queue"][0].query():
                    s["queue"].pop(0)
                    s["ends"].append(time.perf_counter() - base)
                if len(s["queue"]) < 2:
                    event = torch.cuda.Event()
                    with torch.cuda.stream(stream):
                        graph.replay()
                        event.record()
                    s["queue"].append(event)
                continue
            now = time.perf_counter()
            if s["pending"] is None and now >= s["due"]:
                while s["due"] + period <= now:
                    s["due"], s["dropped"] = s["due"] + period, s["dropped"] + 1
                event = torch.cuda.Event()
                with torch.cuda.stream(stream):
                    graph.replay()
                    event.record()
                s["pending"], s["due"] = (event, s["due"]), s["due"] + period
            if s["pending"] and s["pending"][0].query():
                s["latencies"].append(time.perf_counter() - s["pending"][1])
                s["pending"] = None
    torch.cuda.synchronize()
    gc.enable()
    return [{"latencies_us": [round(t * 1e6, 1) for t in s["latencies"]], "dropped": s["dropped"]} if c["period"] is not None
            else {"done": len(s["ends"]), "per_s": round((len(s["ends"]) - 1) / (s["ends"][-1] - s["ends"][0]), 3)
                  if len(s["ends"]) > 2 else None} for c, s in zip(clients, state)]


class Process:
    """A script that takes orders, a JSON line each, and answers with one."""

    def __init__(self, arguments, environment):
        script, *rest = arguments
        self.process = subprocess.Popen([sys.executable, os.path.abspath(script), *rest], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self):
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(20)
        except Exception:
            self.process.kill()
