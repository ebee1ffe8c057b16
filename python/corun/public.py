"""How far the simulator is off on measurements that others published: `sim validate --public FOLDER`.

FOLDER holds a user's own clones of their repositories; nothing of them is kept here.  Of each set what is known before programs
share the GPU becomes a table for each program (`sim import table`), the simulator runs them side by side, and what it says is put
beside what was measured, and beside models of others.  A row's error is that of its slowdown: of latency beside others over
latency alone on the same part of the GPU, or of latency on a part over latency on the whole.

Half of each set is kept back (_kept.py) and not looked at unless `--half kept` is asked for.

Leaves out: cards that nobody described (Gavel's K80 and P100, Lucid's, which it does not name): of these only the shape of the
distribution is told.  Sets whose programs are not known well enough to predict anything."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Sequence

from ._kept import kept

Matrix = Sequence[Sequence[float]]


class Bad(Exception):
    """A file that is not as its reader knows it: file, place, what was expected."""


@dataclass
class Row:
    key: tuple[str, ...]
    measured: float  # slowdown
    #: Slowdown by model; None: it says nothing of this row.
    predicted: dict[str, Optional[float]] = field(default_factory=dict)
    noise: Optional[float] = None  # of the measured slowdown, as the source itself tells it
    #: Text of the tables by client, GPU, policy, and whose slowdown: what the simulator is asked.
    question: Any = None
    features: Any = None
    clock: Optional[float] = None  # beside the others over that alone, which the simulator is not told


@dataclass
class Set:
    name: str
    title: str
    source: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# ---- the simulator ----


@dataclass(frozen=True)
class Question:
    """Clients as text of a table (docs/formats.md), side by side and each alone."""

    gpu: str
    policy: str
    tables: tuple[str, ...]
    longest_ms: float  # of a request, as far as it is known
    whole: bool = False  # slowdown over the whole GPU, and not over the same policy alone


def run(sim: str, gpu: str, policy: str, tables: Sequence[str], duration_ms: float) -> list[float]:
    """Mean latency of each client in ms."""
    with tempfile.TemporaryDirectory() as folder:
        clients = []
        for i, table in enumerate(tables):
            file = Path(folder) / f"table{i}.csv"
            header, *rows = table.splitlines()
            file.write_text("\n".join([header + ",gpu", *(f"{row},{gpu}" for row in rows)]))
            clients += ["--client", f"c{i}={file},closed"]
        command = [sim, "compare", "--json", "--policies", policy, "--duration", f"{duration_ms:.3f}ms"]
        done = subprocess.run(command + clients, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Bad(f"the simulator refused a table made of the data: {done.stderr.strip()}")
    return [client["mean_ms"] for client in json.loads(done.stdout)["results"][0]["clients"]]


REQUESTS = 12


class Simulator:
    """Answers, each question once."""

    def __init__(self, sim: str) -> None:
        self.sim = sim
        self.known: dict[Any, list[float]] = {}

    def _of(self, *question: Any) -> list[float]:
        if question not in self.known:
            self.known[question] = run(self.sim, *question)
        return self.known[question]

    def slowdown(self, q: Question) -> list[float]:
        names = "+".join(f"c{i}" for i in range(len(q.tables)))
        together = self._of(q.gpu, q.policy.replace("{clients}", names), q.tables, REQUESTS * len(q.tables) * q.longest_ms)
        policies = ["mps"] * len(q.tables) if q.whole else policies_alone(q.policy, len(q.tables))
        alone = [self._of(q.gpu, policy, (table,), REQUESTS * q.longest_ms)[0] for table, policy in zip(q.tables, policies)]
        return [a / b for a, b in zip(together, alone)]


def policies_alone(policy: str, clients: int) -> list[str]:
    """The part of the GPU that each client has, without the others."""
    if policy.startswith("mps:percentages="):
        return [f"mps:percentages={p}" for p in policy.split("=")[1].split("/")]
    return [policy.replace("{clients}", "c0")] * clients


# ---- small mathematics ----


def least_squares(x: Matrix, y: Sequence[float]) -> list[float]:
    """Weights of the columns of x, by normal equations and elimination with pivots."""
    n = len(x[0])
    a = [[sum(r[i] * r[j] for r in x) for j in range(n)] + [sum(r[i] * v for r, v in zip(x, y))] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[pivot] = a[pivot], a[i]
        if a[i][i] == 0:
            raise Bad("a model cannot be fitted: its inputs are all alike")
        for k in range(n):
            if k != i:
                times = a[k][i] / a[i][i]
                a[k] = [p - times * q for p, q in zip(a[k], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    slope, constant = least_squares([[v, 1.0] for v in x], y)
    return slope, constant


def ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for i in order[at:end + 1]:
            out[i] = (at + end) / 2
        at = end + 1
    return out


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> Optional[float]:
    """Spearman's; None where one of them is all alike."""
    x, y = ranks(a), ranks(b)
    mx, my = statistics.fmean(x), statistics.fmean(y)
    sxx, syy = sum((v - mx) ** 2 for v in x), sum((v - my) ** 2 for v in y)
    if sxx == 0 or syy == 0:
        return None
    return float(sum((p - mx) * (q - my) for p, q in zip(x, y)) / (sxx * syy) ** 0.5)


def quantile(values: Sequence[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


# ---- files ----


def find(folder: Path, inside: str) -> Optional[Path]:
    """In the folder itself, or in a clone in it."""
    return next((p for p in [folder / inside, *sorted(folder.glob(f"*/{inside}"))] if p.exists()), None)


def commit_of(file: Path) -> str:
    done = subprocess.run(["git", "-C", str(file.parent), "log", "-1", "--format=%h %cs"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "commit not known"


def number(text: Any, file: Path, place: str, least: float = 0.0) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = float("nan")
    if not least <= value < float("inf"):
        raise Bad(f"{file}: {place}: {text!r}; expected a number of at least {least:g}")
    return value


def lines_of_json(file: Path) -> dict[str, dict[str, Any]]:
    """JSON a line, {name: {quantity: values}}, put together."""
    out: dict[str, dict[str, Any]] = {}
    for at, text in enumerate(file.read_text().splitlines(), 1):
        if not text.strip():
            continue
        try:
            for name, values in json.loads(text).items():
                out.setdefault(name, {}).update(values)
        except (ValueError, AttributeError, TypeError):
            raise Bad(f"{file}: line {at}: expected an object of objects in JSON") from None
    return out


def percentage(sms: int, of: int) -> str:
    """The least percentage under which MPS, which rounds down, gives no fewer."""
    return f"{100 * sms / of + 1e-4:.4f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return "\n".join([",".join(columns)] + [",".join(f"{v:.9g}" if isinstance(v, float) else str(v) for v in row) for row in rows]) + "\n"


# ---- iGniter: pairs under percentages of MPS, V100, TensorRT ----

IGNITER = "i-Gniter/Profile/tools/gpulet.config"
IGNITER_CARD = "i-Gniter/Algorithm/config"
IGNITER_GPU = "v100-sxm2"  # p3.2xlarge, 1,530 MHz


def igniter_table(alone: Any, card: Any, network: str, batch: str) -> str:
    """As it was alone: latency, DRAM and L2 by percentage; number of kernels; bytes copied for a batch."""
    of = alone[network]
    rows = []
    for percentage, latency in sorted(of["latency"][batch].items(), key=lambda item: -int(item[0])):
        if percentage not in of["dram"][batch]:
            continue  # 10 and 100 %, without counters, of batch 1 only
        rows.append([int(percentage), float(latency), 100, float(of["dram"][batch][percentage]), float(of["l2cache"][batch][percentage]),
                     card[network]["kernel"], card[network]["inputdata"] * int(batch), card[network]["outputdata"] * int(batch)])
    return table(["percentage", "latency_ms", "busy_pct", "dram_pct", "l2_pct", "kernels", "copy_in_bytes", "copy_out_bytes"], rows)


class IgniterModel:
    """iGniter's own model (Xu et al., TPDS 2022, and igniter-algorithm.py), from its card's file alone.

    Time alone is the measured one and not its fitted curve, which is in its favour."""

    def __init__(self, card: Any) -> None:
        self.card = card
        hardware = card["hardware"]
        self.clock, self.limit, self.idle = hardware["maxGPUfrequency"], hardware["maxGPUpower"], hardware["idlepower"]
        power, clock = list(hardware["power"]), hardware["frequency"]
        first = next(i for i, f in enumerate(clock) if f != self.clock)
        step = statistics.fmean(power[i] - power[i - 1] for i in range(1, first))
        for i in range(first, len(power)):
            power[i] = power[i - 1] + step
        over = [(p - self.limit, f - self.clock) for p, f in zip(power[first:], clock[first:])]
        self.per_watt = sum(a * b for a, b in over) / sum(a * a for a, _ in over)
        waits = [t * f / self.clock for t, f in zip(hardware["idletime"], clock)]
        slope, constant = line(range(2, len(waits) + 1), [w - waits[0] for w in waits[1:]])
        self.wait = slope * 2 + constant  # more for each kernel, of two programs
        self.rate = hardware["bandwidth"]

    def of(self, network: str, batch: str, latency: float) -> dict[str, float]:
        card = self.card[network]
        copies = (card["inputdata"] + card["outputdata"]) * int(batch) / self.rate
        active = max(latency - copies - card["idletime_1"], 0.05 * latency)
        able, powers, speeds, l2 = [], [], [], []
        for i, b in enumerate((1, 16, 32)):
            for j in range(3):
                speed = 1000 * b / (card["gpulatency"][i][j] - card["idletime_1"])
                if i == j:
                    speeds.append(speed)
                    l2.append(card["l2caches"][i])
                if card["frequency"][i][j] > self.clock - 1:
                    able.append(speed)
                    powers.append(card["power"][i][j] - self.idle)
        speed = 1000 * int(batch) / active
        by_power, by_l2 = line(able, powers), line(speeds, l2)
        sensitive = (card["activetime_2"] * card["frequency_2"] / self.clock / card["activetime_1"] - 1) / card["l2cache"]
        return {"copies": copies, "active": active, "idle": card["idletime_1"], "kernels": card["kernel"],
                "power": by_power[0] * speed + by_power[1], "l2": by_l2[0] * speed + by_l2[1], "sensitive": sensitive}

    def clock_ratio(self, own: dict[str, float], other: dict[str, float]) -> float:
        """Clock of two programs under the card's limit of power, over the highest."""
        power = self.idle + own["power"] + other["power"]
        return float(1 + self.per_watt * max(0.0, power - self.limit) / self.clock)

    def slowdown(self, own: dict[str, float], other: dict[str, float]) -> float:
        active = own["active"] * (1 + own["sensitive"] * other["l2"])
        on_gpu = (own["idle"] + own["kernels"] * self.wait + active) / self.clock_ratio(own, other)
        return (on_gpu + own["copies"]) / (own["idle"] + own["active"] + own["copies"])


def read_igniter(folder: Path) -> Iterator[Set]:
    file, of_card = find(folder, IGNITER), find(folder, IGNITER_CARD)
    if file is None or of_card is None:
        return
    out = Set("igniter", "iGniter: pairs of networks under MPS, V100", f"icloud-ecnu/igniter, {commit_of(file)}")
    alone, card = lines_of_json(file), lines_of_json(of_card)
    both = alone.pop("interference", {})
    if not both.get("latency") or len(both["latency"]) != len(both.get("std", [])):
        raise Bad(f"{file}: `interference`: expected as many rows of `latency` as of `std`")
    model = IgniterModel(card)
    for measured, deviations in zip(both["latency"], both["std"]):
        if len(measured) != 7 or measured[:5] != deviations[:5]:
            raise Bad(f"{file}: interference row {measured[:5]}: expected two networks, two batches, a percentage and two values")
        names, batches, share = measured[:2], [str(b) for b in measured[2:4]], int(measured[4])
        shares = [str(share), str(100 - share)]
        try:
            latencies = [alone[n]["latency"][b][s] for n, b, s in zip(names, batches, shares)]
            use = [(alone[n]["l2cache"][b][s], alone[n]["dram"][b][s]) for n, b, s in zip(names, batches, shares)]
        except KeyError as missing:
            raise Bad(f"{file}: interference row {measured[:5]}: nothing is known of {missing} alone") from None
        question = Question(IGNITER_GPU, f"mps:percentages={shares[0]}/{shares[1]}",
                            tuple(igniter_table(alone, card, n, b) for n, b in zip(names, batches)), max(latencies))
        own = [model.of(n, b, t) for n, b, t in zip(names, batches, latencies)]
        for i in (0, 1):
            slowdown = number(measured[5 + i], file, f"interference row {measured[:5]}", 1e-9) / latencies[i]
            out.rows.append(Row(tuple(map(str, measured[:5])) + (str(i),), slowdown,
                                {"no interference": 1.0, "iGniter": model.slowdown(own[i], own[1 - i])},
                                deviations[5 + i] / latencies[i], (question, i),
                                [use[i][0], use[1 - i][0], use[i][1], use[1 - i][1], 1.0], model.clock_ratio(*own)))
    yield out


def fit_gpulet(of: Set) -> None:
    """gpulet's model (Choi et al., ATC 2022, as igniter fits it in gpulet.py): slowdown minus one is linear in L2 and DRAM use of
    both programs.  Fitted on the half that is not kept back, whichever is scored."""
    rows = [r for r in of.rows if r.features is not None]
    other = [r for r in rows if not is_kept(of, r)]
    if len(other) < 6:
        return
    weights = least_squares([r.features for r in other], [r.measured - 1 for r in other])
    for r in rows:
        r.predicted["gpulet, fitted"] = 1 + sum(w * f for w, f in zip(weights, r.features))


# ---- ParvaGPU: processes of a network in an instance, A100 80GB ----

PARVA_SMS = {"1": 14, "2": 28, "3": 42, "4": 56, "7": 98}
PARVA_PROFILES = {"1": "1g.10gb", "2": "2g.20gb", "3": "3g.40gb", "4": "4g.40gb", "7": "7g.80gb"}


def read_parvagpu(folder: Path) -> Iterator[Set]:
    where = find(folder, "prof_data")
    if where is None:
        return
    out = Set("parvagpu", "ParvaGPU: processes of a network in one instance, A100 80GB", f"MunQ-Lee/ParvaGPU_SC24, {commit_of(where / 'x')}")
    for file in sorted(where.glob("*.csv")):
        seconds: dict[tuple[str, str, str], float] = {}
        with open(file, newline="") as text:
            for at, row in enumerate(csv.DictReader(text), 2):
                try:
                    key = row["Mig instance"], row["Batch size"], row["Workload Number"]
                    rate = number(row["Throughput"], file, f"line {at}")
                except KeyError as missing:
                    raise Bad(f"{file}: line {at}: there is no column {missing}") from None
                if key[0] not in PARVA_SMS:
                    raise Bad(f"{file}: line {at}: instance {key[0]!r}; expected {', '.join(PARVA_SMS)}")
                if rate > 0:  # of a process; 0: it did not fit
                    seconds[key] = int(key[1]) / rate
        add_parvagpu(out, file.stem, seconds)
    yield out


def shrinking(seconds: dict[tuple[str, str, str], float], instance: str, batch: str) -> Optional[float]:
    """Share of a request's time alone in the instance that goes with its SMs, by the instance next in size."""
    sizes = [i for i in PARVA_SMS if (i, batch, "1") in seconds]
    if len(sizes) < 2 or instance not in sizes:
        return None
    at = sizes.index(instance)
    other = sizes[at + 1] if at + 1 < len(sizes) else sizes[at - 1]
    own, there = seconds[instance, batch, "1"], seconds[other, batch, "1"]
    sms, more = PARVA_SMS[instance], PARVA_SMS[other]
    return min(1.0, max(0.0, (there - own) / (1 / more - 1 / sms) / sms / own))


def add_parvagpu(out: Set, network: str, seconds: dict[tuple[str, str, str], float]) -> None:
    for (instance, batch, processes), time in seconds.items():
        alone = seconds.get((instance, batch, "1"))
        if processes == "1" or alone is None:
            continue
        share = shrinking(seconds, instance, batch)
        if share is None:
            continue
        # A host that runs ahead hides work of the GPU: an image takes at least what it does in the largest batch.
        most = max((int(b) for i, b, n in seconds if i == instance and n == "1" and shrinking(seconds, i, b) is not None))
        an_image = (shrinking(seconds, instance, str(most)) or 0) * seconds[instance, str(most), "1"] / most
        busy = min(100.0, 100 * max(share, an_image * int(batch) / alone, 0.01))
        text = table(["sms", "latency_ms", "busy_pct"], [[PARVA_SMS[instance], 1e3 * alone, busy]])
        n = int(processes)
        profile = f"mig:profile={PARVA_PROFILES[instance]},clients={{clients}},inside=mps"
        question = Question("a100-80gb", profile, (text,) * n, 1e3 * alone)
        out.rows.append(Row((network, instance, batch, processes), time / alone, {"no interference": 1.0, "in turns": float(n)},
                            None, (question, 0)))


# ---- MuxServe: prefill of a language model by percentage of MPS, A100 80GB ----


def read_muxserve(folder: Path) -> Iterator[Set]:
    file = find(folder, "examples/placement/llama.json")
    if file is None:
        return
    out = Set("muxserve", "MuxServe: prefill of LLaMA by MPS percentage, A100 80GB", f"hao-ai-lab/MuxServe, {commit_of(file)}")
    try:
        document = json.loads(file.read_text())
    except ValueError as error:
        raise Bad(f"{file}: {error}") from None
    for model, by_tp in document.items():
        cells = by_tp.get("1")  # one GPU
        if cells is None:
            continue
        for batch in cells["100"]:
            for length in cells["100"][batch]:
                alone, half = (number(cells[p][batch][length]["prefill"], file, f"/{model}/1/{p}/{batch}/{length}", -1) for p in ("100", "50"))
                if alone <= 0 or half <= 0:  # out of memory
                    continue
                text = table(["percentage", "latency_ms"], [[100, alone], [50, half]])
                for percentage in cells:
                    time = cells[percentage].get(batch, {}).get(length, {}).get("prefill", 0)
                    if percentage in ("100", "50") or time <= 0:
                        continue
                    question = Question("a100-80gb", f"mps:percentages={percentage}", (text,), 3 * alone, whole=True)
                    out.rows.append(Row((model, "1", percentage, batch, length), time / alone,
                                        {"no effect": 1.0, "by SMs": 100 / float(percentage)}, None, (question, 0)))
    yield out


# ---- nos: pods of YOLOS-small in a closed loop, A100 80GB PCIe ----

NOS_POLICIES = {"Time-slicing": "timeslice", "MPS": "mps", "MIG": None}


def read_nos(folder: Path) -> Iterator[Set]:
    file = find(folder, "demos/gpu-sharing-comparison/README.md")
    if file is None:
        return
    out = Set("nos", "nos: pods of YOLOS-small, A100 80GB", f"nebuly-ai/nos, {commit_of(file)}")
    rows = [[cell.strip() for cell in text.strip().strip("|").split("|")] for text in file.read_text().splitlines() if text.startswith("|")]
    pods = [re.sub(r"\D", "", cell) for cell in rows[0][1:]] if rows else []
    seconds = {row[0]: {n: number(cell, file, f"row {row[0]}", 1e-9) for n, cell in zip(pods, row[1:])} for row in rows if row[0] in NOS_POLICIES}
    if set(seconds) != set(NOS_POLICIES) or any("1" not in by for by in seconds.values()):
        raise Bad(f"{file}: expected a table with rows {', '.join(NOS_POLICIES)} and a column of one pod")
    text = table(["sms", "latency_ms"], [[108, 1e3 * seconds["MPS"]["1"]], [14, 1e3 * seconds["MIG"]["1"]]])
    for mode, by_pods in seconds.items():
        policy = NOS_POLICIES[mode]
        for n, time in by_pods.items():
            if n == "1":
                continue
            alone = by_pods["1"]
            # Instances share nothing of this program's: one value for all.
            question = (Question("a100-80gb", policy, (text,) * int(n), 1e3 * alone), 0) if policy else None
            row = Row((mode, n), time / alone, {"no interference": 1.0, "in turns": float(n)}, None, question)
            if question is None:
                row.predicted["corun"] = 1.0
            out.rows.append(row)
    yield out


# ---- LithOS reproduction: operations of ResNet-50 by TPCs, A100 80GB PCIe ----

LITHOS_LINE = re.compile(r"\[predict\] op\((slot=\d+,k=\d+)\) @(\d+)TPC measured=([\d.]+)us")
LITHOS_FROM = ("54", "13")
LITHOS_LONGEST_US = 1000  # what is longer holds waits of the host


def read_lithos(folder: Path) -> Iterator[Set]:
    where = find(folder, "figdata")
    files = sorted(where.glob("resnet50-infer__tpc_*.log")) if where else []
    if not files:
        return
    out = Set("lithos", "LithOS reproduction: operations of ResNet-50 by TPCs, A100", f"AureliusJustin/lithos-reproduction, {commit_of(files[0])}")
    times: dict[str, dict[str, float]] = {}
    for file in files:
        for text in file.read_text(errors="replace").splitlines():
            if (found := LITHOS_LINE.match(text)) and float(found[3]) <= LITHOS_LONGEST_US:
                times.setdefault(found[1], {}).setdefault(found[2], float(found[3]))  # the first pass of each
    if not times:
        raise Bad(f"{files[0]}: expected lines as `[predict] op(slot=0,k=3) @27TPC measured=255.0us`")
    for operation, by_tpcs in times.items():
        if not all(t in by_tpcs for t in LITHOS_FROM):
            continue
        # Only ratios count: us stand as ms, so that launches and single waves do not show.
        text = table(["sms", "latency_ms"], [[2 * int(t), by_tpcs[t]] for t in LITHOS_FROM])
        for tpcs, time in by_tpcs.items():
            if tpcs in LITHOS_FROM:
                continue
            question = Question("a100-80gb", f"mps:percentages={percentage(int(tpcs), 54)}", (text,), 3 * by_tpcs["54"], whole=True)
            out.rows.append(Row((operation, tpcs), time / by_tpcs["54"], {"no effect": 1.0, "by SMs": 54 / int(tpcs)}, None, (question, 0)))
    yield out


# ---- sglang-omni issue 1934: slowdown in green contexts of an H200, by number of SMs; typed from the thread ----

SGLANG_OMNI = {"decode": {"32": 1.33, "48": 1.21, "64": 1.09, "80": 1.08, "96": 1.06},
               "vocoder": {"32": 2.5, "48": 1.83, "64": 1.49, "80": 1.30, "96": 1.18}}


def read_sglang_omni(_: Path) -> Iterator[Set]:
    out = Set("sglang-omni", "sglang-omni: Qwen3-TTS on parts of an H200", "sgl-project/sglang-omni, issue 1934, typed")
    for work, by_sms in SGLANG_OMNI.items():
        alone = 10.0  # ms: only ratios are published
        text = table(["sms", "latency_ms"], [[132, alone], [32, alone * by_sms["32"]]])
        for sms, slowdown in by_sms.items():
            if sms == "32":
                continue
            question = Question("h200", f"mps:percentages={percentage(int(sms), 132)}", (text,), 3 * alone, whole=True)
            out.rows.append(Row((work, sms), slowdown, {"no effect": 1.0, "by SMs": 132 / int(sms)}, None, (question, 0)))
    yield out


READERS: list[Callable[[Path], Iterator[Set]]] = [read_igniter, read_parvagpu, read_muxserve, read_nos, read_lithos, read_sglang_omni]


# ---- shape only ----


def shapes(folder: Path) -> list[str]:
    """Medians on cards that are not described: how much programs get side by side."""
    out = []
    first, second = (find(folder, f"scheduler/{name}_throughputs.json") for name in ("simulation", "physical_cluster"))
    if first and second:
        files = [json.loads(f.read_text()) for f in (first, second)]
        for gpu in files[0]:
            both = [gavel_stp(f.get(gpu, {})) for f in files]
            if not both[0]:
                continue
            shared = [abs(both[1][k] / both[0][k] - 1) for k in both[0] if k in both[1]]
            noise = f"; its two files are {100 * statistics.median(shared):.0f} % apart in the median of {len(shared)}" if shared else ""
            out.append(f"Gavel, {gpu}: STP of {len(both[0])} pairs under MPS {spread(list(both[0].values()))}{noise}")
    if file := find(folder, "simulation/data/colocate_info.csv"):
        with open(file, newline="") as text:
            speeds = [number(row[f"speed{i}"], file, f"row {row['']}") for row in csv.DictReader(text) for i in (1, 2)]
        out.append(f"Lucid, a card that is not named: speed of {len(speeds)} programs beside one other, in turns, {spread(speeds)}")
    return out


def gavel_stp(of_gpu: Any) -> dict[tuple[str, str], float]:
    out = {}
    for a, row in of_gpu.items():
        for b, pair in row.items():
            if b == "null" or b not in of_gpu or not isinstance(pair, list) or min(pair) <= 0:
                continue
            alone = [of_gpu[name].get("null") or 0 for name in (a, b)]
            if min(alone) > 0 and a <= b:
                out[a, b] = pair[0] / alone[0] + pair[1] / alone[1]
    return out


def spread(values: Sequence[float]) -> str:
    return "%.2f to %.2f, median %.2f" % (min(values), max(values), statistics.median(values))


# ---- score ----


def is_kept(of: Set, row: Row) -> bool:
    return kept(of.name, *(row.key[:5] if of.name == "igniter" else row.key))  # a pair's two clients belong together


def simulate(sets: Sequence[Set], sim: str, threads: int) -> None:
    simulator = Simulator(sim)
    asked = sorted({row.question[0] for s in sets for row in s.rows if row.question}, key=repr)
    with ThreadPoolExecutor(threads) as pool:
        answers = dict(zip(asked, pool.map(simulator.slowdown, asked)))
    for s in sets:
        for row in s.rows:
            if row.question:
                question, client = row.question
                row.predicted["corun"] = answers[question][client]
                if row.clock is not None:
                    row.predicted["corun, iGniter's clock"] = answers[question][client] / row.clock


def score(rows: Sequence[Row], model: str) -> dict[str, Any]:
    """Errors in %: of the slowdown over the measured one; of slowdown minus one, in points, and over the null model's."""
    pairs = [(p, r.measured) for r in rows if (p := r.predicted.get(model)) is not None]
    relative = [100 * abs(p / m - 1) for p, m in pairs]
    points = [100 * abs(p - m) for p, m in pairs]
    return {"rows": len(pairs), "mean": statistics.fmean(relative), "median": statistics.median(relative), "p90": quantile(relative, 0.9),
            "p95": quantile(relative, 0.95), "points": statistics.fmean(points), "of_null": statistics.fmean(points) / (
                statistics.fmean(100 * abs(m - 1) for _, m in pairs) or 1), "rank": rank_correlation(*zip(*pairs))}


def models_of(of: Set) -> list[str]:
    names: dict[str, None] = {"corun": None}
    for row in of.rows:
        names.update(dict.fromkeys(row.predicted))
    return list(names)


def report(sets: Sequence[Set], shape: Sequence[str], worst: int) -> str:
    out = [f"{'':34} {'error of the slowdown, %':>27} {'slowdown - 1':>20} {'rank':>6}",
           f"{'':26} {'rows':>7} {'mean':>8} {'median':>7} {'p90':>6} {'p95':>6} {'points':>8} {'of null':>9} {'corr.':>6}"]
    for s in sets:
        out += ["", f"{s.title} ({s.source})"]
        for model in models_of(s):
            e = score(s.rows, model)
            rank = "-" if e["rank"] is None else "%.2f" % e["rank"]
            out.append(f"  {model:24} {e['rows']:>7} {e['mean']:>8.1f} {e['median']:>7.1f} {e['p90']:>6.1f} {e['p95']:>6.1f} {e['points']:>8.1f} {e['of_null']:>9.2f} {rank:>6}")
        noise = [100 * r.noise for r in s.rows if r.noise is not None]
        out.append(f"  the source's own deviation: {statistics.median(noise):.1f} points in the median" if noise else "  the source tells no deviation")
        if worst:
            bad = sorted(s.rows, key=lambda r: -abs((r.predicted["corun"] or 0) / r.measured - 1))[:worst]
            out += [f"    {' '.join(r.key):44} measured {r.measured:.2f}  corun {r.predicted['corun']:.2f}" for r in bad]
    if shape:
        out += ["", "No description of the card, so only the shape:"] + [f"  {text}" for text in shape]
    return "\n".join(out) + "\n"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="sim validate --public", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with clones of the repositories")
    parser.add_argument("--sim", default=os.environ.get("CORUN_SIM", "sim"), help="the command (default: $CORUN_SIM, or sim)")
    parser.add_argument("--half", choices=["other", "kept", "all"], default="other", help="which rows are scored (default: those that are not kept back)")
    parser.add_argument("--only", default="", help="sets, as igniter,nos")
    parser.add_argument("--worst", type=int, default=0, help="also this many of the worst rows of each set")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args(arguments)
    try:
        if not a.folder.is_dir():
            raise Bad(f"{a.folder}: is no folder; expected one with clones of igniter, ParvaGPU_SC24, MuxServe, nos, ...")
        sets = [s for read in READERS for s in read(a.folder) if not a.only or s.name in a.only.split(",")]
        if all(s.name == "sglang-omni" for s in sets) and not a.only:
            raise Bad(f"{a.folder}: has no clone with data that is known; expected igniter, ParvaGPU_SC24, MuxServe, nos, ...")
        for s in sets:
            fit_gpulet(s)
            s.rows = [r for r in s.rows if a.half == "all" or is_kept(s, r) == (a.half == "kept")]
        sets = [s for s in sets if s.rows]
        simulate(sets, a.sim, a.threads)
        shape = [] if a.only else shapes(a.folder)
    except Bad as error:
        print(f"sim: {error}", file=sys.stderr)
        return 2
    if a.json:
        print(json.dumps({s.name: {model: score(s.rows, model) for model in models_of(s)} for s in sets}, indent=1))
    else:
        print(report(sets, shape, a.worst), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
