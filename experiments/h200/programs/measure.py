#!/usr/bin/env python3
"""Twelve programs as they are (programs.py, lattice.cu): alone, in pairs and triples, captured, and their counters.

  measure.py all SIM FOLDER [SECONDS] [GROUP...]   on the GPU, 510 s; SIM: the `sim` command, with libcorun_capture.so and libcorun_steer.so beside it.
      FOLDER gets runs.jsonl.gz, captured.jsonl.gz, counters.jsonl.gz, written row by row, and kept-1.tar.gz to kept-4, what `sim capture --keep` kept.
      GROUP: turns (and alone), mps, capture, counters, percent, priority, wait; in this order
  measure.py rest SIM FOLDER [SECONDS] [GROUP...]  the same of counters, percent, priority and wait, without what the files beside this one have; 570 s
  measure.py same SIM FOLDER [SECONDS] [GROUP...]  all of one machine and in order, 560 s: alone and turns, capture (each program without another, a service at its
      period), mps, priority, percent. captured.jsonl.gz has what each request took; recordings are imported later
  measure.py trim SIM FOLDER TO                    anywhere: of what `same` recorded TO/captured.jsonl.gz, with traces, and TO/kept-1.tar.xz, what an import needs
  measure.py names                                 anywhere: programs and sets, and what is set aside
  measure.py unpack FOLDER TO                      anywhere: TO/NAME.json, TO/NAME.csv

Services have a request due each PERIOD_MS, a load of 0.4 of their mean time alone; the others make one request after the other. Each set runs for 2 s,
of which the first 0.5 do not count. turns: no MPS. percent: each member has its share of the SMs, and no other program is there. priority: MPS, services
before the others. wait: `sim serve --policy=wait`, without jax-train, whose captures of streams break under the service.
"""
import glob
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SERVICES = ["compiled-decoder", "retrieval", "speech", "moe-layer", "recommender", "graph-network"]
BEST_EFFORT = ["jax-train", "cupy-spectrum", "diffusion-train", "lstm-train", "lattice", "video"]
SETS = [("compiled-decoder", "jax-train"), ("retrieval", "diffusion-train"), ("moe-layer", "lattice"), ("compiled-decoder", "jax-train", "lattice"),
        ("speech", "cupy-spectrum"), ("recommender", "video"), ("retrieval", "speech", "diffusion-train"), ("moe-layer", "retrieval"),
        ("compiled-decoder", "lstm-train"), ("moe-layer", "cupy-spectrum", "lstm-train"), ("recommender", "jax-train"),
        ("graph-network", "lstm-train"), ("speech", "lattice"), ("recommender", "graph-network", "video")]
PERCENT = [(("compiled-decoder", "jax-train"), (30, 50)), (("compiled-decoder", "jax-train", "lattice"), (50, 50, 50)),
           (("compiled-decoder", "jax-train", "lattice"), (30, 30, 30)), (("retrieval", "diffusion-train"), (30, 50)), (("retrieval", "diffusion-train"), (70, 70)),
           (("retrieval", "speech", "diffusion-train"), (50, 50, 50)), (("retrieval", "speech", "diffusion-train"), (30, 30, 30)),
           (("recommender", "video"), (30, 50)), (("recommender", "video"), (70, 70)), (("moe-layer", "lattice"), (30, 50)), (("moe-layer", "lattice"), (70, 70)),
           (("moe-layer", "cupy-spectrum", "lstm-train"), (50, 50, 50)), (("speech", "cupy-spectrum"), (30, 50)), (("speech", "cupy-spectrum"), (70, 70)),
           (("compiled-decoder", "jax-train"), (70, 70))]  # last: XLA times its kernels anew for 92 SMs, for more than 40 s
SHARES = {"turns": 30, "mps": 12, "capture": 18, "counters": 30, "percent": 36, "priority": 16, "wait": 18}  # of the time
SAME = {"turns": 0.32, "capture": 0.6, "mps": 1, "priority": 1, "percent": 1}  # of the time, when no further run begins
GROUPS, REST = list(SHARES), ["counters", "percent", "priority", "wait"]
WITHOUT = {"wait": ["jax-train"]}
LOAD, WARM_S, SECONDS, CAPTURED_S, CAPTURED_LONGER_S = 0.4, 0.5, 2.0, 2.5, 4.0  # longer: at a period
SOON_S = 0.08  # from an order to the first request; programs look for orders each 20 ms
COUNTED, COUNTED_S, COUNTED_AT_LEAST, LATE = 600, 20, 4, "lstm-train"  # launches of a request at most; s of profiling; programs before the rate is known
BEGINS_S = {"jax-train": 75}  # where the others begin sooner
BEGAN = time.time()


def is_set_aside(name):
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


def say(*words):
    print(f"{time.time() - BEGAN:5.0f} s", *words, flush=True)


class Failed(Exception):
    pass


class Rows:
    """A file of lines of JSON; each append is a gzip member, so that what was written stays."""

    def __init__(self, path, about):
        self.path = path
        open(path, "w").close()
        self.add(about)

    def add(self, row):
        with gzip.open(self.path, "at", 9) as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def rows_of(folder, what):
    for path in sorted(glob.glob(os.path.join(folder, what + "*.jsonl.gz"))):
        with gzip.open(path, "rt") as file:
            yield from map(json.loads, file)


def key_of(mode, names, percentages=()):
    return mode, tuple(names), tuple(percentages)


class Program:
    """One process; it waits for orders in a folder of its own."""

    def __init__(self, name, lattice, before=(), environment=None):
        self.name, self.folder, self.number, self.stopped = name, tempfile.mkdtemp(prefix="program-"), 0, False
        command = [lattice, self.folder] if name == "lattice" else [sys.executable, os.path.join(HERE, "programs.py"), name, self.folder]
        self.said = open(os.path.join(self.folder, "said"), "w")
        self.process = subprocess.Popen([*before, *command], env=environment, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT,
                                        process_group=0)

    def is_alive(self):
        return self.process.poll() is None

    def last_words(self, most=500):
        with open(os.path.join(self.folder, "said"), errors="replace") as file:
            return file.read()[-most:]

    def wait_for(self, file, seconds):
        path, until = os.path.join(self.folder, file), time.time() + seconds
        while not os.path.exists(path):
            if not self.is_alive():
                raise Failed(f"{self.name} ended: {self.last_words()}")
            if time.time() > until:
                raise Failed(f"{self.name}: no {file} in {seconds:.0f} s: {self.last_words(200)}")
            time.sleep(0.002)
        return path

    def stop(self):
        """Until the next order, so that it costs others nothing."""
        try:
            os.killpg(self.process.pid, signal.SIGSTOP)
            self.stopped = True
        except ProcessLookupError:
            pass

    def tell(self, *order):
        if self.stopped:
            os.killpg(self.process.pid, signal.SIGCONT)
            self.stopped = False
        path = os.path.join(self.folder, f"order.{self.number}")
        with open(path + ".new", "w") as file:
            file.write(" ".join(map(str, order)))
        os.rename(path + ".new", path)
        self.number += 1

    def hear(self, seconds):
        """The answer to the last order; a program that gives none is ended."""
        try:
            with open(self.wait_for(f"answer.{self.number - 1}", seconds)) as file:
                answer = json.load(file)
        except Failed:
            self.kill()
            raise
        if "failed" in answer:
            raise Failed(f"{self.name}: {answer['failed']}")
        return answer

    def kill(self):
        """With what it started, as `sim capture` and ncu start the program."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass

    def end(self, seconds=8):
        if self.is_alive():
            self.tell("end")
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        self.said.close()

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Mps:
    """A server of its own, from `start` on; the programs' environment is known before."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mps-")
        os.mkdir(self.folder + "/pipe"), os.mkdir(self.folder + "/log")
        self.environment = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=self.folder + "/pipe", CUDA_MPS_LOG_DIRECTORY=self.folder + "/log")

    def start(self):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.environment, check=True, timeout=20)

    def quit(self):
        try:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=self.environment, timeout=30)
        except (OSError, subprocess.SubprocessError) as error:
            say("mps does not quit:", repr(error)[:200])
        shutil.rmtree(self.folder, ignore_errors=True)


def counted(answer):
    """Of what began and ended after the warm-up: mean, median and p99 of ms; and requests a second, with parts of those at both ends."""
    ms = sorted(m for m, end in zip(answer["ms"], answer["ends"]) if end > WARM_S)
    ends = answer["ends"]

    def done_by(at):
        n = sum(end <= at for end in ends)
        return n if n in (0, len(ends)) else n + (at - ends[n - 1]) / (ends[n] - ends[n - 1])
    return {"mean_ms": round(statistics.mean(ms), 4), "p50_ms": ms[len(ms) // 2], "p99_ms": ms[int(0.99 * (len(ms) - 1))],
            "per_s": round((done_by(SECONDS) - done_by(WARM_S)) / (SECONDS - WARM_S), 3)} if ms else {}


class Campaign:
    def __init__(self, sim, folder, seconds, groups, without=()):
        """without: rows of an earlier campaign, which are not measured again; its periods hold on."""
        os.makedirs(folder, exist_ok=True)
        self.sim, self.folder, self.end, self.groups = os.path.abspath(sim), folder, BEGAN + seconds, groups or GROUPS
        self.scratch, self.lattice, self.periods, self.measured, self.was_counted, self.lame = tempfile.mkdtemp(), None, {}, set(), set(), set()
        for row in without:
            if "csv" in row:
                self.was_counted.add(row["name"])
            said = row.get("programs", {})
            if said and not any("failed" in one for one in said.values()):
                self.measured.add(key_of(row["mode"], row["set"], row.get("percentages", ())))
                self.periods |= row.get("period_ms", {})
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": self.scratch + "/inductor", "TRITON_CACHE_DIR": self.scratch + "/triton", "CUPY_CACHE_DIR": self.scratch + "/cupy",
                       "JAX_COMPILATION_CACHE_DIR": self.scratch + "/jax", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                       "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # no processes of its own
        self.plain = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=self.scratch + "/no-mps")
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid,clocks.sm,temperature.gpu,power.draw", "--format=csv,noheader"],
                               capture_output=True, text=True)
        nvcc = subprocess.run("nvcc --version | grep -o 'release [0-9.]*'", shell=True, capture_output=True, text=True)
        self.about = {"gpu": asked.stdout.strip(), "cuda": nvcc.stdout.strip(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                      "command": " ".join(["measure.py", *map(os.path.basename, sys.argv[1:])]), "load": LOAD, "seconds": SECONDS, "warm_s": WARM_S}
        self.runs, self.captured, self.counters = (Rows(os.path.join(folder, name + ".jsonl.gz"), self.about) for name in ("runs", "captured", "counters"))
        say(self.about)

    def left(self):
        return self.end - time.time()

    def compile(self):
        built = os.path.join(self.scratch, "lattice")
        try:
            subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-o", built, os.path.join(HERE, "lattice.cu")], check=True, timeout=60, capture_output=True)
        except (OSError, subprocess.SubprocessError) as error:
            say("lattice is not compiled:", repr(error)[:300], getattr(error, "stderr", b""))
        self.lattice = built

    # ---- processes

    def start(self, name, before=(), environment=None):
        try:
            return Program(name, self.lattice, before, environment or self.plain)
        except OSError as error:
            say(name, "is not started:", error)
            return None

    def all_of(self, group):
        """What a group needs, started; the GPU is not used yet."""
        if group == "turns":
            return None, {n: self.start(n) for n in SERVICES + BEST_EFFORT}
        if group in ("mps", "priority"):
            mps = Mps()
            return mps, {n: self.start(n, environment=mps.environment | ({"CUDA_MPS_CLIENT_PRIORITY": "0" if n in SERVICES else "1"} if group == "priority" else {}))
                         for n in SERVICES + BEST_EFFORT}
        return None, {n: self.start(n, self.capture_of(n)) for n in SERVICES + BEST_EFFORT}

    def missing(self, mode):
        return [names for names in SETS if key_of(mode, names) not in self.measured and not set(names) & set(WITHOUT.get(mode, ()))]

    def capture_of(self, name):
        return [self.sim, "capture", "--once", "--gpu=h200", "--name=" + name, "-o", f"{self.scratch}/{name}.json", "--keep", f"{self.scratch}/kept/{name}", "--"]

    def imported(self, programs, seconds=40):
        until = time.time() + seconds
        for name, one in programs.items():
            try:
                if one:
                    one.wait_for("imported", max(1, until - time.time()))
            except Failed as failed:
                say(failed)

    def begin(self, programs, mode, seconds=50):
        """JAX first and by itself, as XLA times its kernels where it has no record of them; the others at once."""
        begun, order = {}, [[n for n in programs if n == "jax-train"], [n for n in programs if n != "jax-train"]]
        for names in order:
            told = [n for n in names if programs[n] and programs[n].is_alive()]
            for n in told:
                programs[n].tell("begin")
            until = time.time() + min(max(seconds, *(BEGINS_S.get(n, 0) for n in names), 0), max(5, self.left()))
            for n in told:
                try:
                    begun[n] = programs[n].hear(max(1, until - time.time()))
                except Failed as failed:
                    self.runs.add({"mode": mode, "begin": n, "failed": str(failed)})
                    say(mode, "does not begin:", str(failed)[:300])
        say(mode, "begun:", json.dumps(begun))
        return {n: programs[n] for n in begun}

    def close(self, programs):
        for one in programs.values():
            if one and one.is_alive():
                one.tell("end")
        for one in programs.values():
            if one:
                try:
                    one.process.wait(6)
                except subprocess.TimeoutExpired:
                    one.kill()
                one.end(), one.forget()

    # ---- runs

    def run_set(self, mode, programs, names, more=None, closed=False):
        row = {"mode": mode, "set": names, **(more or {}), "programs": {}}
        missing = [n for n in names if not (programs.get(n) and programs[n].is_alive())]
        if missing:
            row["failed"] = f"not there: {missing}"
        else:
            periods = {n: 0 if closed or n in BEST_EFFORT else self.periods.get(n, 10) for n in names}
            row["period_ms"] = {n: p for n, p in periods.items() if p}
            begin = time.perf_counter() + SOON_S
            for n in names:
                programs[n].tell("run", periods[n], begin, SECONDS)
            for n in names:  # each answer is taken, also after a failure
                try:
                    answer = programs[n].hear(SECONDS + 12)
                    row["programs"][n] = counted(answer) | answer
                except Failed as failed:
                    row["programs"][n] = {"failed": str(failed)}
        self.runs.add(row)
        say(mode, "+".join(names), json.dumps(more or {}), row.get("failed", ""),
            {n: r.get("failed", [r.get("mean_ms"), r.get("p99_ms"), r.get("per_s")]) for n, r in row["programs"].items()})
        return row["programs"]

    def sets(self, mode, programs, until):
        for names in self.missing(mode):
            if time.time() < until:
                self.run_set(mode, programs, names)

    def alone(self, programs, mode):
        for n in programs:
            said = self.run_set(mode, programs, (n,), {"closed": True}, closed=True).get(n, {})
            if n in SERVICES and "mean_ms" in said:
                self.periods[n] = round(said["mean_ms"] / LOAD, 2)
        for n in programs:
            if n in SERVICES:
                self.run_set(mode, programs, (n,))

    def group_of_all(self, group, mps, programs, until, begun_all=lambda: None):
        """begun_all: called before anything is measured."""
        try:
            if mps:
                mps.start()
            begun = self.begin(programs, group)
            begun_all()
            if not self.periods:
                self.alone(begun, "alone" if group == "turns" else f"alone under {group}")
            self.sets(group, begun, until)
        finally:
            self.close(programs)
            if mps:
                mps.quit()

    def started_with(self, names, shares):
        mps = Mps()
        return mps, {n: self.start(n, environment=mps.environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(p)}) for n, p in zip(names, shares)}

    def percent_set(self, names, shares, mps, programs, before_run=lambda: None):
        try:
            if self.lame & set(names):
                raise Failed(f"did not begin before: {self.lame & set(names)}")
            mps.start()
            for n in names:  # one after the other: MPS gives out SMs in the order of the contexts
                programs[n].tell("context")
                programs[n].hear(20)
            begun = self.begin(programs, f"percent {shares}", 30)
            self.lame |= set(names) - set(begun)
            before_run()
            self.run_set("percent", begun, names, {"percentages": shares})
        except (Failed, OSError, subprocess.SubprocessError, AttributeError) as error:
            say("percent", names, shares, repr(error)[:200])
        finally:
            self.close(programs)
            mps.quit()

    def percent(self, until):
        rest = [one for one in PERCENT if key_of("percent", *one) not in self.measured]
        following = self.started_with(*rest[0]) if rest else None
        for i, (names, shares) in enumerate(rest):
            (mps, programs), following = following, None
            if time.time() + max(BEGINS_S.get(n, 0) for n in names) / 2 >= until:
                self.close(programs)
                shutil.rmtree(mps.folder, ignore_errors=True)
                break
            following = self.started_with(*rest[i + 1]) if i + 1 < len(rest) else None
            self.imported(programs, 25)
            self.percent_set(names, shares, mps, programs, lambda: following and self.imported(following[1], 15))

    def capture(self, programs, until):
        """One after the other; what a capture then makes of its recording is done beside the next one."""
        self.imported(programs)
        for n, one in programs.items():
            try:
                if time.time() > until or not one or not one.is_alive():
                    raise Failed("not captured: no time, or not there: " + (one.last_words(300) if one else ""))
                one.tell("begin")
                one.hear(60)
                one.tell("run", 0, time.perf_counter() + 0.05, CAPTURED_S)
                said = counted(one.hear(CAPTURED_S + 20))
                one.tell("end")
                one.wanted = said
                say("captured", n, said)
            except Failed as failed:
                self.captured.add({"name": n, "failed": str(failed)})
                say("capture", n, str(failed)[:300])
                if one:
                    one.kill()
        for n, one in programs.items():
            if not hasattr(one, "wanted"):
                continue
            row = {"name": n, "captured": one.wanted}
            try:
                row["exit"] = one.process.wait(min(40, max(3, self.left() - 10)))
            except subprocess.TimeoutExpired:
                one.kill()
                row["exit"] = "does not end"
            row["said"] = one.last_words(1500)
            path = f"{self.scratch}/{n}.json"
            if os.path.exists(path) and os.path.getsize(path):
                try:
                    with open(path) as file:
                        row["trace"] = json.load(file)
                except ValueError as error:
                    row["failed"] = repr(error)[:200]
            else:
                row["failed"] = "no trace"
            self.captured.add(row)
            say("trace of", n, row["exit"], row.get("failed", f"{len(row.get('trace', {}).get('kernels', []))} kernels"))
        for i, names in enumerate((SERVICES[:3], SERVICES[3:], BEST_EFFORT[:3], BEST_EFFORT[3:])):
            with tarfile.open(os.path.join(self.folder, f"kept-{i + 1}.tar.gz"), "w:gz") as tar:
                for n in names:
                    if os.path.isdir(f"{self.scratch}/kept/{n}"):
                        tar.add(f"{self.scratch}/kept/{n}", n)
        for one in programs.values():
            if one:
                one.end(), one.forget()

    def record(self, programs, until):
        """As `sim capture --once --keep` does it, but no import runs beside a program: there is none, and what waits is stopped."""
        for n, one in programs.items():
            period = self.periods.get(n, 0) if n in SERVICES else 0
            row, seconds = {"name": n, "period_ms": period}, CAPTURED_LONGER_S if period else CAPTURED_S
            try:
                if time.time() > until or not one or not one.is_alive():
                    raise Failed("not captured: no time, or not there: " + (one.last_words(300) if one else ""))
                one.tell("begin")
                row |= one.hear(60)
                time.sleep(0.3)
                one.tell("run", period, time.perf_counter() + SOON_S, seconds)
                answer = one.hear(seconds + 20)
                row |= {"seconds": seconds, "captured": counted(answer)} | answer
            except Failed as failed:
                row["failed"] = str(failed)
                if one:
                    one.kill()
            if one:
                one.end(25)  # the library then writes what it has left
                row |= {"exit": one.process.returncode, "said": one.last_words(1500)}
                one.forget()
            self.captured.add(row)
            say("captured", n, row.get("captured"), row.get("failed", "")[:300])
        packing = []
        for i in range(4):
            there = [n for n in (SERVICES + BEST_EFFORT)[3 * i:3 * i + 3] if os.path.isdir(f"{self.scratch}/kept/{n}")]
            if there:
                packing.append(subprocess.Popen(["tar", "czf", os.path.join(self.folder, f"kept-{i + 1}.tar.gz"), "-C", self.scratch + "/kept", *there]))
        for one in packing:
            one.wait()

    def count(self, until):
        """All begin before the first is counted, as counters of DRAM are the whole GPU's. lstm-train, whose two layers are one operation of 700 launches,
        starts when the time that a launch takes is known."""
        sys.path.append(os.path.join(HERE, "../networks"))
        from ncu import METRICS

        def started(n, launches):
            return self.start(n, ["ncu", "--profile-from-start", "off", "--clock-control", "none", "--target-processes", "all", "--csv", "--print-units", "base",
                                  "--launch-count", str(launches), "--log-file", f"{self.scratch}/{n}.csv", "--metrics", ",".join(METRICS)],
                              dict(self.plain, TMPDIR=tempfile.mkdtemp(dir=self.scratch)))  # else each ncu waits for the one before
        order = [n for pair in zip(SERVICES, BEST_EFFORT) for n in pair if n not in self.was_counted]
        order.sort(key=LATE.__eq__)
        programs, spent, launches = {n: started(n, COUNTED) for n in order if n != LATE}, 0.0, 0
        self.imported(programs)
        begun = self.begin(programs, "counters")
        for n, one in programs.items():
            if one and n not in begun:
                one.kill()
        for i, n in enumerate(order):
            if LATE in order and LATE not in programs and (i == COUNTED_AT_LEAST or n == LATE):
                rate = spent / launches if launches else 0.08
                programs[LATE] = started(LATE, max(100, int(min(800, 2 * COUNTED_S / rate))))
            row, at, one = {"name": n}, time.time(), programs[n]
            try:
                if at > until or one is None:
                    raise Failed("no time, or not started")
                if n == LATE:
                    one.wait_for("imported", 20)
                    one.tell("begin")
                    one.hear(30)
                at = time.time()
                one.tell("count", COUNTED_S)
                row |= one.hear(max(15, min((3 if n == LATE else 1.75) * COUNTED_S, until - at + 15)))
            except Failed as failed:
                row["failed"] = str(failed)
            row["s"] = round(time.time() - at, 1)
            if one:
                one.end(20)  # ncu then prints its table
                row["said"] = one.last_words(300) if "failed" in row else ""
                one.forget()
            table = f"{self.scratch}/{n}.csv"
            if os.path.exists(table):
                with open(table, errors="replace") as file:
                    lines = [line for line in file if line.startswith('"')]
                if lines:
                    row["csv"], row["launches"] = "".join(lines), len({line.split(",", 1)[0] for line in lines[1:]})
                    spent, launches = spent + row["s"], launches + row["launches"]
            self.counters.add(row)
            say("counted", n, row.get("launches"), "launches in", row["s"], "s", row.get("failed", "")[:200])

    def wait(self, until):
        at = self.scratch + "/service"
        with open(self.scratch + "/service.said", "w") as said:
            service = subprocess.Popen([self.sim, "serve", "--policy=wait", "--at", at], stdout=said, stderr=subprocess.STDOUT)
        programs = {}
        try:
            started = time.time()
            while not os.path.exists(at + "/environment") and service.poll() is None and time.time() < started + 30:
                time.sleep(0.02)
            for n in (n for n in SERVICES + BEST_EFFORT if n not in WITHOUT["wait"]):
                programs[n] = self.start(n, [self.sim, "run", "--at", at, "--name", n, *(["--class=real_time", "--priority=-5"] if n in SERVICES else []), "--"], dict(os.environ))
            self.imported(programs, 30)
            self.sets("wait", self.begin(programs, "wait", 60), until)
            state = subprocess.run([self.sim, "top", "--json", "--at", at], capture_output=True, text=True, timeout=10).stdout
            self.runs.add({"mode": "wait", "service": json.loads(state) if state.startswith("{") else state[:500]})
        finally:
            self.close(programs)
            service.terminate()
            try:
                service.wait(20)
            except subprocess.TimeoutExpired:
                service.kill()
            with open(self.scratch + "/service.said", errors="replace") as file:
                say("service:", file.read()[-400:])

    def started(self, group):
        """What `same` needs of a group: [(what it is of, MPS server, programs)]."""
        if group == "percent":
            once = {}
            for names, shares in sorted(PERCENT, key=lambda one: "jax-train" in one[0]):
                once.setdefault(names, shares)
            return [((names, shares), *self.started_with(names, shares)) for names, shares in once.items()]
        if group == "capture":
            library = os.path.join(os.path.dirname(self.sim), "libcorun_capture.so")
            programs = {}
            for n in SERVICES + BEST_EFFORT:
                os.makedirs(f"{self.scratch}/kept/{n}")
                programs[n] = self.start(n, environment=self.plain | {"CORUN_CAPTURE": f"{self.scratch}/kept/{n}", "CUDA_INJECTION64_PATH": library,
                                                                      "NVTX_INJECTION64_PATH": library})
            return [(None, None, programs)]
        return [(None, *self.all_of(group))]

    def same(self):
        """While programs of a group begin, those of the next two groups import their libraries; then these are stopped until their turn."""
        self.compile()
        ahead = {}
        for i, group in enumerate(self.groups):
            until = min(BEGAN + SAME[group] * (self.end - BEGAN), self.end - 8)
            try:
                if self.left() < 25:
                    raise Failed("no time")
                here = ahead.pop(group, None) or self.started(group)
                for _, _, programs in here:
                    self.imported(programs)

                def stop_others():
                    for others in ahead.values():
                        for _, _, programs in others:
                            self.imported(programs)
                            for one in programs.values():
                                one and one.stop()
                    say("the others wait")
                if group == "capture":
                    self.record(here[0][2], until)
                elif group == "percent":
                    for n, ((names, shares), mps, programs) in enumerate(here):
                        if time.time() + (BEGINS_S["jax-train"] if "jax-train" in names else 20) > self.end:
                            ahead[group] = here[n:]
                            raise Failed(f"no time for {names}")
                        self.percent_set(names, shares, mps, programs)
                else:
                    for following in self.groups[i + 1:i + 3]:
                        if following not in ahead:
                            ahead[following] = self.started(following)
                    self.group_of_all(group, *here[0][1:], until, stop_others)
            except Exception as error:  # one that fails must not cost the others
                say(group, "FAILS:", repr(error)[:400])
        for others in ahead.values():
            for _, mps, programs in others:
                for one in programs.values():
                    if one:
                        one.kill(), one.end(), one.forget()
                if mps:
                    shutil.rmtree(mps.folder, ignore_errors=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        say("done")

    def run(self):
        self.compile()
        self.groups = [g for g in self.groups if g not in ("priority", "wait") or self.missing(g)]
        parts = [SHARES[group] for group in self.groups]
        ahead = {}  # of a group that follows: its processes, which have imported their libraries meanwhile
        for i, group in enumerate(self.groups):
            if self.left() < 25:
                say("no time for", self.groups[i:])
                break
            until = min(BEGAN + sum(parts[:i + 1]) / sum(parts) * (self.end - BEGAN), self.end - 8)
            try:
                if group in ("turns", "mps", "priority", "capture"):
                    mps, programs = ahead.pop(group, None) or self.all_of(group)
                    self.imported(programs)
                    following = self.groups[i + 1] if i + 1 < len(self.groups) else ""
                    if following in ("mps", "priority", "capture"):
                        ahead[following] = self.all_of(following)
                        self.imported(ahead[following][1])
                    if group == "capture":
                        self.capture(programs, until)
                    else:
                        self.group_of_all(group, mps, programs, until)
                elif group == "percent":
                    self.percent(until)
                elif group == "counters":
                    self.count(until)
                else:
                    self.wait(until)
            except Exception as error:  # one that fails must not cost the others
                say(group, "FAILS:", repr(error)[:400])
        for mps, programs in ahead.values():
            self.close(programs)
            if mps:
                shutil.rmtree(mps.folder, ignore_errors=True)
        shutil.rmtree(self.scratch, ignore_errors=True)
        say("done")


def names():
    for name in SERVICES + BEST_EFFORT:
        print(f"{name:20}", "service    " if name in SERVICES else "best effort", "set aside" if is_set_aside(name) else "")
    for of in SETS:
        print(f"{' + '.join(of):52}", "set aside" if any(map(is_set_aside, of)) else "")


def unpack(folder, to, number=""):
    """number: of the campaign whose captures are wanted."""
    os.makedirs(to, exist_ok=True)
    for what, key, end in ((f"captured*{number}.", "trace", "json"), ("counters", "csv", "csv")):
        for row in rows_of(folder, what):
            if key in row:
                with open(os.path.join(to, f"{row['name']}.{end}"), "w") as out:
                    out.write(row[key] if end == "csv" else json.dumps(row[key], indent=1))
    for path in glob.glob(os.path.join(folder, f"kept-*{number}.tar.*")):
        with tarfile.open(path) as tar:
            tar.extractall(os.path.join(to, "kept"), filter="data")


class Recording:
    """What the library wrote of one process: rows, of which the first column says what they are (hw/capture/recording.h)."""

    def __init__(self, folder):
        self.path = max(glob.glob(os.path.join(folder, "*.jsonl")), key=os.path.getsize)
        with open(self.path) as file:
            self.rows = [json.loads(line) for line in file]
        self.names = {r[1]: r[2] for r in self.rows if r[0] == "n"}
        self.segments = sorted((r[1], r[2]) for r in self.rows if r[0] == "o")
        self.calls = sorted((r for r in self.rows if r[0] == "a"), key=lambda r: r[2])

    def is_recorded(self, at):
        return ([1] + [on for since, on in self.segments if since <= at])[-1] == 1

    def cut(self, folder, windows, keeps_range, unrecorded=False):
        """Only calls that begin in windows, and what they led to; unrecorded: also calls of segments without kernels, which tell the pace."""
        def inside(at):
            return any(a <= at <= b for a, b in windows)
        ids = {r[5] for r in self.calls if inside(r[2])}
        calls = ids | ({r[5] for r in self.calls if not self.is_recorded(r[2])} if unrecorded else set())
        keeps = {"a": lambda r: r[5] in calls, "k": lambda r: r[7] in ids, "c": lambda r: r[7] in ids, "m": lambda r: r[7] in ids,
                 "e": lambda r: r[3] in ids, "s": lambda r: inside(r[1]), "r": lambda r: r[1] == "request" and keeps_range(r)}
        kept = [r for r in self.rows if r[0] not in keeps or keeps[r[0]](r)]
        named = {r[1] for r in kept if r[0] in "ak"}
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, os.path.basename(self.path)), "w") as out:
            out.writelines(json.dumps(r, separators=(",", ":")) + "\n" for r in kept if r[0] != "n" or r[1] in named)


def cuts_of(recording, said):
    """Windows to try, nearest the request that the import took: (windows, which ranges stay, whether other calls stay, options of the import)."""
    what, ms = re.search(r"The request is (request|repetition \d+) \((\S+) ms\)", said).groups()
    if what == "request":
        ranges = sorted((r[2], r[3]) for r in recording.rows if r[0] == "r" and r[1] == "request")
        steps = [r for r in ranges if all(map(recording.is_recorded, r))]
        ends = [0] + [end for _, end in ranges]
        begins = [begin for begin, _ in ranges] + [1 << 63]

        def lasts(r):
            return r[1] - r[0]
        for middle in (r for r in steps if abs(lasts(r) / 1e6 - float(ms)) < 0.0006):
            near = sorted(steps[1:], key=lambda r: abs(r[0] - middle[0]))
            picked = [middle, *[r for r in near if lasts(r) < lasts(middle)][:1], *[r for r in near if lasts(r) > lasts(middle)][:1]]
            windows = [(max(ends[ranges.index(r)], r[0] - 300_000), min(begins[ranges.index(r) + 1], r[1] + 300_000)) for r in picked]
            yield windows, lambda r, picked=picked: (r[2], r[3]) in picked or not (recording.is_recorded(r[2]) and recording.is_recorded(r[3])), False, []
        return
    launches = int(re.search(r"what repeats, ([\d,]+) launch", said)[1].replace(",", ""))
    beside = 3
    made = [r for r in recording.calls if re.search("GraphLaunch" if launches == 1 else "Launch|Memset", recording.names[r[1]]) and recording.is_recorded(r[2])]
    at = int(what.split()[1])
    paced = re.search(r"without the profiler it takes (\d+\.?\d*)", said)
    for index in sorted(range(at - 25, at + 26), key=lambda i: abs(i - at)):
        first, end = (index - beside) * launches, (index + 1 + beside) * launches
        if first >= 1 and end < len(made):
            for step in range(2 * beside + 1):
                yield ([(made[first][2] - 250_000, made[end][2] - 30_000)], lambda r: True, launches == 1,
                       [f"--step={step}", *([f"--request-time={paced[1]}ms"] if launches > 1 and paced else [])])


def trim(sim, folder, to):
    """The whole recordings imported, and the least of each whose import has the same kernels and gaps."""
    os.makedirs(to, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        unpack(folder, scratch)

        def imported(recorded, name, options=()):
            ran = subprocess.run([sim, "import", "capture", recorded, "--gpu=h200", "--name=" + name, "-o", f"{scratch}/{name}.new", *options], capture_output=True, text=True)
            if ran.returncode:
                return None, ran.stderr
            with open(f"{scratch}/{name}.new") as file:
                return json.load(file), ran.stderr + ran.stdout
        found = list(rows_of(folder, "captured"))
        out = Rows(os.path.join(to, "captured.jsonl.gz"), found[0])
        os.makedirs(f"{scratch}/trimmed")
        for row in found[1:]:
            name = row["name"]
            whole, least = f"{scratch}/kept/{name}", f"{scratch}/trimmed/{name}"
            if os.path.isdir(whole):
                trace, said = imported(whole, name)
                row |= {"trace": trace, "said": said} if trace else {"failed": said[-500:]}
                tried, best, recording = 0, None, Recording(whole)
                for way in cuts_of(recording, said) if trace else ():
                    tried += 1
                    recording.cut(least, *way[:3])
                    other, _ = imported(least, name, way[3])
                    if other and (other["kernels"], len(other["programs"][0]["ops"])) == (trace["kernels"], len(trace["programs"][0]["ops"])):
                        gaps = [sum(op.get("host_gap_ns", 0) for op in one["programs"][0]["ops"]) for one in (trace, other)]
                        best = min([best, (abs(gaps[1] - gaps[0]), tried, gaps, way)], key=lambda one: one[0] if one else 1 << 63)
                        if best[0] < 1_000:
                            break
                if best:
                    _, _, gaps, way = best
                    recording.cut(least, *way[:3])
                    row["import"] = way[3]
                    print(f"{name:18}{os.path.getsize(glob.glob(least + '/*')[0]):9} bytes, try {tried}, gaps of {gaps[0] / 1e3:.1f} us, trimmed {gaps[1] / 1e3:.1f}", *way[3], flush=True)
                else:
                    print(f"{name:18}whole, {tried} tried", said[-300:] if not trace else "", flush=True)
                    shutil.rmtree(least, ignore_errors=True)
                    shutil.copytree(whole, least)
            out.add(row)
        with tarfile.open(os.path.join(to, "kept-1.tar.xz"), "w:xz", preset=9) as tar:
            for name in sorted(os.listdir(f"{scratch}/trimmed")):
                tar.add(f"{scratch}/trimmed/{name}", name)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["all", sim, folder]: Campaign(sim, folder, 510, []).run()
        case ["all", sim, folder, seconds, *groups]: Campaign(sim, folder, float(seconds), groups).run()
        case ["same", sim, folder, *asked]: Campaign(sim, folder, float(asked[0] if asked else 560), asked[1:] or list(SAME)).same()
        case ["trim", sim, folder, to]: trim(sim, folder, to)
        case ["rest", sim, folder, *asked]:
            Campaign(sim, folder, float(asked[0] if asked else 570), asked[1:] or REST, [row for what in ("runs", "counters") for row in rows_of(HERE, what)]).run()
        case ["names"]: names()
        case ["unpack", folder, to]: unpack(folder, to)
        case _: sys.exit(__doc__)
