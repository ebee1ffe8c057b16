#!/usr/bin/env python3
"""Programs, each alone and then under each policy of `sim serve` beside a program that trains: is what comes out the same, bit by bit?

  matrix.py SIM [--programs cuda|python|jax|NAME,NAME...] [--policies a,b] [--classes rt,be] [--budget S] [--limit S] [--together N] [--at-once N] [--before FILE] [--out FILE]
CUDA programs are compiled first (programs/*.cu).  Each program runs twice without a service: who differs from itself is held to the same sum only.
Under a policy each runs as a real-time program beside one that trains with PyTorch (best effort), then as a best-effort one beside both that and a
real-time one with short kernels each 2 ms.  N programs run together in a service, and N services at once, each with its own MPS server.
--before: rows that are there and ok are not made again, and programs that ran alone there do not run alone again.
One JSON line a row, to $OUT/matrix.jsonl (or FILE) and to standard output.  Exit code 1 if a row is not ok.
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

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
POLICIES = ["fcfs", "priority", "wait", "reef-n", "smguard", "flexgpu"]
OPTIONS = {"smguard": ["--policy=smguard", "--persistent"], "flexgpu": ["--policy=flexgpu:turn=4", "--memory=1280MiB"]}
CUDA = {"conditional": [], "captures": [], "reset": [], "cooperative": [], "clusters": [], "dependent": [], "streams": [], "legacy": ["defaults.cu"],
        "per_thread": ["defaults.cu", "--default-stream", "per-thread"], "pools": [], "managed": [], "forked": [], "sorted": []}
PYTHON = ["jax-inference", "jax-training", "libraries", "compiled", "graphs", "loader", "cupy", "numba", "generate", "triton"]
JAX_FLAGS = "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true "
BUFFERS = {"": "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN --xla_gpu_graph_min_graph_size=1", "default": "", "plain": "--xla_gpu_enable_command_buffer="}
JAX = [f"jax-{kind}-{buffers}" for kind in ("inference", "training") for buffers in ("default", "plain")]  # beside the two of PYTHON


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                pass
    return {}


class Matrix:
    def __init__(self, a):
        self.a, self.until, self.bad, self.lock = a, time.time() + a.budget, 0, threading.Lock()
        self.alone, self.done, self.running = {}, set(), set()
        self.built = tempfile.mkdtemp(prefix="matrix-")
        for line in open(a.before) if a.before else []:
            row = json.loads(line)
            if row.get("ok") and row.get("policy") == "alone":
                self.alone[row["program"]] = row
            elif row.get("ok"):
                self.done.add((row["program"], row["policy"], row["class"]))
        self.out = open(a.out or os.environ.get("OUT", ".") + "/matrix.jsonl", "a")

    def left(self):
        return max(0.0, self.until - time.time())

    def add(self, row):
        with self.lock:
            self.bad += row.get("ok") is False
            line = json.dumps(row)
            print(line, flush=True)
            self.out.write(line + "\n")
            self.out.flush()

    def build(self, names):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"

        def one(name):
            source, *flags = CUDA.get(name) or [name + ".cu"]
            r = subprocess.run([nvcc, "-O2", "-std=c++20", "-arch=sm_90", *flags, "-o", f"{self.built}/{name}", f"{HERE}/programs/{source}"], capture_output=True, text=True)
            if r.returncode != 0:
                self.add({"program": name, "policy": "build", "ok": False, "error": r.stderr[-800:]})
        with concurrent.futures.ThreadPoolExecutor(14) as pool:
            list(pool.map(one, [*names, "pulses"]))

    def command(self, name):
        if name.startswith("jax-"):
            kind = name.split("-")[1]
            return [sys.executable, HERE + "/programs/jax_and_torch.py", kind, "120" if kind == "inference" else "60"]
        return [f"{self.built}/{name}"] if name in CUDA else [sys.executable, HERE + "/programs/python_programs.py", name]

    def execute(self, name, joins=()):
        environment = dict(os.environ, PYTHONSAFEPATH="1", XLA_PYTHON_CLIENT_PREALLOCATE="false", TF_CPP_MIN_LOG_LEVEL="1", TORCHINDUCTOR_CACHE_DIR=self.a.caches + "/inductor",
                           TRITON_CACHE_DIR=self.a.caches + "/triton", CUPY_CACHE_DIR=self.a.caches + "/cupy", CUBLAS_WORKSPACE_CONFIG=":4096:8", HF_HUB_OFFLINE="1")
        if name.startswith("jax-"):
            environment["XLA_FLAGS"] = JAX_FLAGS + BUFFERS["".join(name.split("-")[2:])]
        begun, row = time.time(), {}
        process = subprocess.Popen([*joins, *self.command(name)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        with self.lock:
            self.running.add(process)
        try:
            out, error = process.communicate(timeout=max(5.0, min(self.a.limit, self.left())))
        except subprocess.TimeoutExpired:
            row["hangs"] = True
            os.killpg(process.pid, 9)  # the group that this began
            out, error = process.communicate()
        finally:
            with self.lock:
                self.running.discard(process)
        said = last_json(out)
        row |= {"exit": process.returncode, "s": round(time.time() - begun, 1), "hash": said.get("hash") or said.get("sha256"), "sum": said.get("sum")}
        row |= {key: said[key] for key in ("lost_words", "platform") if key in said}
        if told := [line for line in error.splitlines() if "corun:" in line]:
            row["said"] = told[:4]
        if process.returncode != 0 or row["hash"] is None:
            row["error"] = (out[-300:] + " | " + error[-900:]).strip()
        return row

    def run_alone(self, names):
        def one(name):
            try:
                first, second = self.execute(name), self.execute(name)
                ok = first["exit"] == second["exit"] == 0 and first["hash"] is not None
                row = {"program": name, "policy": "alone", "class": None, **first, "repeats": first["hash"] == second["hash"], "again_s": second["s"], "ok": ok}
                if ok:
                    self.alone[name] = row
                self.add(row)
            except Exception as failed:  # noqa: BLE001
                self.add({"program": name, "policy": "alone", "ok": False, "error": repr(failed)})
        with concurrent.futures.ThreadPoolExecutor(self.a.together * self.a.at_once) as pool:
            list(pool.map(one, [name for name in names if name not in self.alone]))

    def judge(self, row, alone):
        row["same"] = row["hash"] == alone["hash"] if alone["repeats"] else None
        ok = row["exit"] == 0 and row["hash"] is not None and row["same"] is not False
        if row["same"] is None and row.get("sum") is not None and alone.get("sum"):
            row["close"] = abs(row["sum"] - alone["sum"]) <= 1e-3 * abs(alone["sum"])
            ok = ok and row["close"]
        return row | {"ok": ok}

    def run_policy(self, policy, names, kinds):
        folder = tempfile.mkdtemp(prefix="matrix-" + policy + "-")
        at, over, seen, background = folder + "/service", threading.Event(), {}, {}
        said = open(folder + "/said", "w")
        service = measure.serve(self.a.sim, at, *OPTIONS.get(policy, ["--policy=" + policy]), stdout=said, stderr=subprocess.STDOUT)

        def top():
            return json.loads(subprocess.run([self.a.sim, "top", "--json", "--at", at], capture_output=True, text=True, timeout=5).stdout)

        def look():
            while not over.wait(0.2):
                try:
                    state = top()
                    seen["service"] = state
                    seen.update({p["name"]: p for p in state["programs"]})
                except Exception:  # noqa: BLE001
                    pass
        looks = threading.Thread(target=look)

        def start(name, command, *joins):
            background[name] = time.time(), subprocess.Popen([self.a.sim, "run", "--at", at, "--name", name, *joins, "--", *command],
                                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONSAFEPATH="1"))
            while not os.path.exists(f"{folder}/{name}.ready") and background[name][1].poll() is None and time.time() < background[name][0] + 60:
                time.sleep(0.05)

        def one(case):
            name, kind = case
            try:
                real_time = ["--class=real_time", "--priority=-5"] if kind == "rt" else []
                row = self.execute(name, [self.a.sim, "run", "--at", at, "--name", f"{name}-{kind}", *real_time, "--"])
                time.sleep(0.25)
                state = seen.get(f"{name}-{kind}", {})
                row |= {key: state[key] for key in ("launches", "graphs", "unsteered", "queued", "requests", "mean_wait_us") if key in state}
                self.add({"program": name, "policy": policy, "class": kind} | self.judge(row, self.alone[name]))
            except Exception as failed:  # noqa: BLE001
                self.add({"program": name, "policy": policy, "class": kind, "ok": False, "error": repr(failed)})
        try:
            if not os.path.exists(at + "/environment"):
                return self.add({"program": "service", "policy": policy, "ok": False, "error": open(folder + "/said").read()[-800:]})
            looks.start()
            start("torch", [sys.executable, HERE + "/programs/jax_and_torch.py", "torch", folder])
            for kind in kinds:
                if kind == "be":
                    start("pulses", [self.built + "/pulses", folder, "pulses"], "--class=real_time", "--priority=-5")
                cases = [(name, kind) for name in names if name in self.alone and (name, policy, kind) not in self.done]
                with concurrent.futures.ThreadPoolExecutor(self.a.together) as pool:
                    list(pool.map(one, cases))
            state = seen.get("service", {})
            self.add({"program": "service", "policy": policy, "class": None, "exit": service.poll(), "ok": service.poll() is None, "decision_us": state.get("decision_us"),
                      "memory": state.get("memory"), "options": OPTIONS.get(policy)})
            open(folder + "/enough", "w").close()
            for name, (begun, process) in background.items():
                try:
                    out, error = process.communicate(timeout=max(5.0, min(60.0, self.left())))
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, error = process.communicate()
                told = last_json(out)
                row = {"program": name, "policy": policy, "class": "background", "exit": process.returncode, "s": round(time.time() - begun, 1), "sum": told.get("sum"),
                       "hash": told.get("hash") or told.get("sha256"), **{k: told[k] for k in ("steps", "requests", "p99_ms", "longest_ms") if k in told}}
                if process.returncode != 0:
                    row["error"] = error[-600:]
                self.add(self.judge(row, self.alone[name]))
        except Exception as failed:  # noqa: BLE001
            self.add({"program": "matrix", "policy": policy, "ok": False, "error": repr(failed)})
        finally:
            open(folder + "/enough", "w").close()
            over.set()
            for _, process in background.values():
                if process.poll() is None:
                    process.kill()
            measure.end(service)
            said.close()
            if looks.ident is not None:
                looks.join()
            text = open(folder + "/said", errors="replace").read()
            if service.returncode not in (0, -15):
                self.add({"program": "service", "policy": policy, "ok": False, "exit": service.returncode, "error": text[-800:]})
            shutil.rmtree(folder, ignore_errors=True)

    def run_background_alone(self):
        folder = tempfile.mkdtemp(prefix="matrix-alone-")
        open(folder + "/enough", "w").close()
        for name, command in (("torch", [sys.executable, HERE + "/programs/jax_and_torch.py", "torch", folder]), ("pulses", [self.built + "/pulses", folder, "pulses"])):
            told = [last_json(subprocess.run(command, capture_output=True, text=True, timeout=90, env=dict(os.environ, PYTHONSAFEPATH="1")).stdout) for _ in range(2)]
            hashes = [t.get("hash") or t.get("sha256") for t in told]
            self.alone[name] = {"program": name, "policy": "alone", "class": "background", "hash": hashes[0], "sum": told[0].get("sum"), "repeats": hashes[0] == hashes[1], "ok": hashes[0] is not None}
            self.add(self.alone[name])
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("--programs", default="cuda,python")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--classes", default="rt,be")
    parser.add_argument("--budget", type=float, default=540, help="seconds in all")
    parser.add_argument("--limit", type=float, default=90, help="seconds of one program")
    parser.add_argument("--together", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--caches", default="/tmp/matrix-caches")
    parser.add_argument("--before")
    parser.add_argument("--out")
    a = parser.parse_args()
    a.sim = os.path.abspath(a.sim)
    names = [n for name in a.programs.split(",") for n in ({"cuda": list(CUDA), "python": PYTHON, "jax": JAX}.get(name) or [name])]
    matrix = Matrix(a)
    said = subprocess.run(["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    matrix.add({"gpu": said, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "arguments": sys.argv[2:]})
    began = time.time()
    matrix.build([name for name in names if name in CUDA])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: job(), [lambda: matrix.run_alone(names), matrix.run_background_alone]))
    print(f"# alone after {time.time() - began:.0f} s", flush=True)

    def policy(which):
        if matrix.left() < 30 or "torch" not in matrix.alone:
            return matrix.add({"program": "all", "policy": which, "ok": False, "error": "no time is left"})
        return matrix.run_policy(which, names, a.classes.split(","))
    with concurrent.futures.ThreadPoolExecutor(a.at_once) as pool:
        list(pool.map(policy, a.policies.split(",")))
    shutil.rmtree(matrix.built, ignore_errors=True)
    print(json.dumps({"not_ok": matrix.bad, "s": round(time.time() - began)}), flush=True)
    return 1 if matrix.bad else 0


if __name__ == "__main__":
    sys.exit(main())
