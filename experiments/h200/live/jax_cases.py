#!/usr/bin/env python3
"""JAX under `sim serve` beside a background torch program: does each program end as alone, with the same bits?

  jax_cases.py SIM [--budget S] [--policies a,b] [--together N] [--out FILE]
Cases: inference and training, with command buffers (all kinds, from one node on), with XLA's defaults, and without, under each policy.
First alone, twice, without a service: whoever differs from itself is judged by closeness only.
One JSON line a case, to $OUT/jax.jsonl (or FILE) and to standard output:
  {"policy", "case", "ok", "same": true|false|null, "close", "exit", "s", "steps", "said": [lines of corun:], "error", "unsteered", "launches", "graphs"}
JAX programs of a policy run N at a time (4) beside one torch program, in one service.  Exit code 1 if a case is not ok.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

POLICIES = ["fcfs", "priority", "wait", "reef-n", "smguard", "flexgpu"]
FLAGS = {
    "buffers": "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN --xla_gpu_graph_min_graph_size=1",
    "default": "",
    "plain": "--xla_gpu_enable_command_buffer=",
}
COMMON = "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true"
STEPS = {"inference": 200, "training": 80}


def jax_program(kind, steps):
    import hashlib

    import jax
    import jax.numpy as jnp
    import numpy as np
    width, heads, layers, batch, length = 256, 4, 3, 8, 128
    key = jax.random.PRNGKey(7)

    def weights(*shape):
        nonlocal key
        key, one = jax.random.split(key)
        return jax.random.normal(one, shape, jnp.float32) * shape[0] ** -0.5
    parameters = [{"qkv": weights(width, 3 * width), "out": weights(width, width), "up": weights(width, 4 * width), "down": weights(4 * width, width)} for _ in range(layers)]
    x, y = weights(batch, length, width), weights(batch, length, width)

    def norm(h):
        return (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)

    def forward(parameters, h):
        for layer in parameters:
            q, k, v = jnp.split((norm(h) @ layer["qkv"]).reshape(batch, length, 3 * heads, width // heads).transpose(0, 2, 1, 3), 3, 1)
            scores = jax.nn.softmax((q @ k.transpose(0, 1, 3, 2)) * (width // heads) ** -0.5, -1)
            h = h + (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ layer["out"]
            h = h + jax.nn.gelu(norm(h) @ layer["up"]) @ layer["down"]
        return h

    infer = jax.jit(lambda p, h: norm(forward(p, h)))

    @jax.jit
    def train(p, m):
        loss, g = jax.value_and_grad(lambda p: jnp.mean(jnp.square(forward(p, x) - y)))(p)
        m = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree_util.tree_map(lambda p, m: p - 1e-3 * m, p, m), m, loss

    began = time.time()
    if kind == "inference":
        h = x
        for i in range(steps):
            h = infer(parameters, h)
            if i % 10 == 9:
                h.block_until_ready()
        out = [np.asarray(h)]
    else:
        momentum = jax.tree_util.tree_map(jnp.zeros_like, parameters)
        losses = []
        for i in range(steps):
            parameters, momentum, loss = train(parameters, momentum)
            if i % 5 == 4:
                losses.append(float(loss))
        out = [np.asarray(losses, np.float32)] + [np.asarray(a) for a in jax.tree_util.tree_leaves(parameters)]
    digest = hashlib.sha256(b"".join(a.tobytes() for a in out)).hexdigest()
    print(json.dumps({"sha256": digest, "sum": float(sum(np.abs(a.astype(np.float64)).sum() for a in out)), "finite": bool(all(np.isfinite(a).all() for a in out)),
                      "steps": steps, "loop_s": round(time.time() - began, 2), "platform": jax.devices()[0].platform}), flush=True)


def torch_program(folder):
    """Trains until FOLDER/enough is there; says the hash of its first 20 steps."""
    import hashlib

    import torch
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(2048, 1024, device="cuda"), torch.randn(2048, 1024, device="cuda")
    losses, steps = [], 0
    open(folder + "/torch.ready", "w").close()
    while steps < 20 or not os.path.exists(folder + "/enough"):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps <= 20:
            losses.append(loss.item())
        elif steps % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    print(json.dumps({"sha256": hashlib.sha256(json.dumps(losses).encode()).hexdigest(), "sum": sum(losses), "finite": losses == losses, "steps": steps}), flush=True)


class Matrix:
    def __init__(self, a):
        self.a, self.until, self.alone, self.bad, self.lock = a, time.time() + a.budget, {}, 0, threading.Lock()
        folder = os.environ.get("OUT", ".")
        self.out = open(a.out or folder + "/jax.jsonl", "a")

    def left(self):
        return max(0.0, self.until - time.time())

    def add(self, row):
        with self.lock:
            self.bad += not row.get("ok")
            line = json.dumps(row)
            print(line, flush=True)
            self.out.write(line + "\n")
            self.out.flush()

    def execute(self, command, environment, limit):
        """(exit code or None, JSON that it said or {}, standard error)"""
        try:
            p = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=max(5.0, min(limit, self.left())))
            said = [line for line in p.stdout.splitlines() if line.startswith("{")]
            return p.returncode, json.loads(said[-1]) if said else {}, p.stderr
        except subprocess.TimeoutExpired as late:
            error = late.stderr or b""
            return None, {}, "hangs; " + (error.decode(errors="replace") if isinstance(error, bytes) else error)
        except Exception as failed:  # noqa: BLE001
            return None, {}, repr(failed)

    def case(self, kind, flags, joins=()):
        environment = dict(os.environ, XLA_FLAGS=f"{COMMON} {FLAGS[flags]}".strip(), XLA_PYTHON_CLIENT_PREALLOCATE="false", TF_CPP_MIN_LOG_LEVEL="1")
        return self.execute([*joins, sys.executable, os.path.abspath(__file__), "--jax", kind, str(STEPS[kind])], environment, self.a.limit)

    def judge(self, policy, name, begun, result, expected, state=None):
        code, said, error = result
        row = {"policy": policy, "case": name, "exit": code, "s": round(time.time() - begun, 1), "steps": said.get("steps"), "loop_s": said.get("loop_s"),
               "said": [line for line in error.splitlines() if "corun:" in line][:4]}
        if expected:
            row["same"] = (said.get("sha256") == expected[0]["sha256"]) if expected[0].get("repeats") else None
            row["close"] = bool(said) and abs(said["sum"] - expected[0]["sum"]) <= 1e-3 * abs(expected[0]["sum"])
        for p in (state or {}).get("programs", []):
            if p["name"] == name:
                row |= {key: p[key] for key in ("launches", "graphs", "unsteered", "requests")}
        row["ok"] = code == 0 and said.get("finite", False) and row.get("same") is not False and row.get("close", True)
        if not row["ok"]:
            row["error"] = error[-1200:]
        return row

    def run_alone(self, names):
        def one(name):
            kind, flags = name.split("/")
            begun = time.time()
            results = [self.case(kind, flags) for _ in range(2)]
            first, second = results[0][1], results[1][1]
            if first:
                first["repeats"] = first["sha256"] == second.get("sha256")
                self.alone[name] = [first]
            row = self.judge("alone", name, begun, results[0], None)
            self.add(row | {"repeats": first.get("repeats"), "platform": first.get("platform"), "flags_refused": "Unknown flag" in results[0][2]})
        with concurrent.futures.ThreadPoolExecutor(self.a.together) as pool:
            list(pool.map(one, names))

    def run_policy(self, policy, names):
        folder = tempfile.mkdtemp(prefix="jax-matrix-")
        at = folder + "/service"
        options = ["--memory=40GiB"] if policy == "flexgpu" else []
        said = open(folder + "/service.said", "w")
        service = subprocess.Popen([self.a.sim, "serve", "--policy=" + policy, *(["--persistent"] if policy == "smguard" else []), "--at", at, *options], stdout=said, stderr=subprocess.STDOUT)
        torch = None
        try:
            began = time.time()
            while not os.path.exists(at + "/environment") and service.poll() is None and time.time() < began + 30:
                time.sleep(0.02)
            if service.poll() is not None or not os.path.exists(at + "/environment"):
                return self.add({"policy": policy, "case": "service", "ok": False, "error": open(folder + "/service.said").read()[-800:]})
            joins = lambda name, *more: [self.a.sim, "run", "--at", at, "--name", name, *more, "--"]  # noqa: E731
            torch_begun = time.time()
            torch = subprocess.Popen([*joins("torch"), sys.executable, os.path.abspath(__file__), "--torch", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not os.path.exists(folder + "/torch.ready") and torch.poll() is None and time.time() < torch_begun + 60:
                time.sleep(0.05)

            def one(name):
                kind, flags = name.split("/")
                begun, last, over = time.time(), {}, threading.Event()

                def look():  # the state while it is there: nobody has it afterwards
                    while not over.wait(1.0):
                        try:
                            text = subprocess.run([self.a.sim, "top", "--json", "--at", at], capture_output=True, text=True, timeout=5).stdout
                            state = json.loads(text)
                            if any(p["name"] == name for p in state["programs"]):
                                last.update(state)
                        except Exception:  # noqa: BLE001
                            pass
                looks = threading.Thread(target=look)
                looks.start()
                real_time = ["--class=real_time", "--priority=-5"] if kind == "inference" else []
                result = self.case(kind, flags, joins(name, *real_time))
                over.set()
                looks.join()
                self.add(self.judge(policy, name, begun, result, self.alone.get(name), last))
            with concurrent.futures.ThreadPoolExecutor(self.a.together) as pool:
                list(pool.map(one, names))
            open(folder + "/enough", "w").close()
            try:
                out, error = torch.communicate(timeout=max(5.0, min(60.0, self.left())))
                lines = [line for line in out.splitlines() if line.startswith("{")]
                result = torch.returncode, json.loads(lines[-1]) if lines else {}, error
            except subprocess.TimeoutExpired:
                torch.kill()
                result = None, {}, "hangs; " + torch.communicate()[1]
            self.add(self.judge(policy, "torch", torch_begun, result, self.alone.get("torch")))
        except Exception as failed:  # noqa: BLE001
            self.add({"policy": policy, "case": "matrix", "ok": False, "error": repr(failed)})
        finally:
            open(folder + "/enough", "w").close()
            if torch is not None and torch.poll() is None:
                torch.kill()
            service.terminate()
            try:
                service.wait(20)
            except subprocess.TimeoutExpired:
                service.kill()
            said.close()
            text = open(folder + "/service.said", errors="replace").read()
            if service.returncode not in (0, -15):
                self.add({"policy": policy, "case": "service", "ok": False, "exit": service.returncode, "error": text[-800:]})
            shutil.rmtree(folder, ignore_errors=True)


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--jax":
        return jax_program(sys.argv[2], int(sys.argv[3]))
    if len(sys.argv) > 1 and sys.argv[1] == "--torch":
        return torch_program(sys.argv[2])
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("--budget", type=float, default=540, help="seconds in all")
    parser.add_argument("--limit", type=float, default=90, help="seconds of one program")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--cases", default="")
    parser.add_argument("--together", type=int, default=3)
    parser.add_argument("--out")
    a = parser.parse_args()
    a.sim = os.path.abspath(a.sim)
    matrix = Matrix(a)
    names = a.cases.split(",") if a.cases else [f"{kind}/{flags}" for kind in STEPS for flags in FLAGS]
    matrix.run_alone(names)
    folder = tempfile.mkdtemp(prefix="jax-matrix-")
    open(folder + "/enough", "w").close()
    begun = time.time()
    results = [matrix.execute([sys.executable, os.path.abspath(__file__), "--torch", folder], dict(os.environ), a.limit) for _ in range(2)]
    if results[0][1]:
        matrix.alone["torch"] = [results[0][1] | {"repeats": results[0][1]["sha256"] == results[1][1].get("sha256")}]
    matrix.add(matrix.judge("alone", "torch", begun, results[0], None))
    shutil.rmtree(folder, ignore_errors=True)
    for policy in a.policies.split(","):
        if matrix.left() < 25:
            matrix.add({"policy": policy, "case": "all", "ok": False, "error": "no time is left"})
            continue
        matrix.run_policy(policy, names)
    print(json.dumps({"not_ok": matrix.bad}), flush=True)
    return 1 if matrix.bad else 0


if __name__ == "__main__":
    sys.exit(main())
