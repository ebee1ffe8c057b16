"""What it costs pods to meet on a GPU: each set of programs is simulated once in each mode by `corun.sweep`."""

import dataclasses
import os
import tempfile
from pathlib import Path

import corun

from pods import Kind

GPU = "h200"
DURATION = "400ms"
TRACES = Path(__file__).resolve().parents[1] / "h200/networks/traces"

#: Settings of containers that share a GPU, as policies of corun.
MODES = {"time-slicing": "timeslice", "MPS": "mps", "priorities": "priority"}

#: A request is to be done within this multiple of what it takes alone.
DEADLINE = 2.0

#: The n-th equal program of a GPU is slower by n times this, so that its period meets every phase of the first one.
DRIFT = 0.02


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of the programs of a set, in its order."""

    names: "tuple[str, ...]"  #: of the kinds
    progress: "tuple[float, ...]"  #: throughput over throughput alone
    good: "tuple[float, ...]"  #: of real-time ones the share of requests in time; of the others their progress
    held: "tuple[bool, ...]"  #: at most 1 % of the requests late or dropped; True for best effort

    def holds(self, kind: str) -> bool:
        """Of all that are of this kind: which of the equal ones a pod is, nobody says."""
        return all(held for name, held in zip(self.names, self.held) if name == kind)


def solo_ms(kinds: "list[Kind]", **options) -> "dict[str, float]":
    """What a request of each network takes alone, simulated."""
    networks = sorted({kind.network for kind in kinds})
    with tempfile.TemporaryDirectory() as scratch:
        files = [_save(scratch, network, [f"a={_trace(network)},closed"]) for network in networks]
        rows = corun.sweep(files, "fcfs", **options).rows
    return {network: _clients(row)["a"]["mean_ms"] for network, row in zip(networks, rows)}


def _period_ms(company: "tuple[Kind, ...]", n: int, alone_ms: float) -> float:
    return alone_ms / company[n].share * (1 + DRIFT * company[:n].count(company[n]))


def client(company: "tuple[Kind, ...]", n: int, alone_ms: float) -> str:
    """The n-th of a set as `sim --client` takes it: alone it uses its share of the GPU's time."""
    kind, period_ms, name = company[n], _period_ms(company, n, alone_ms), f"c{n}"
    if kind.real_time:
        return (f"{name}={_trace(kind.network)},rt,priority=-5,rate={1e3 / period_ms:.6g},"
                f"slo={DEADLINE * alone_ms * 1e6:.0f}ns")
    return f"{name}={_trace(kind.network)},be,think={(period_ms - alone_ms) * 1e6:.0f}ns"


def simulate(companies: "list[tuple[Kind, ...]]", alone: "dict[str, float]", **options):
    """{mode: {names of the kinds: Cost}}; options: `executor`, `workers`, `store` of corun.sweep."""
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for i, company in enumerate(companies):
            clients = [client(company, n, alone[kind.network]) for n, kind in enumerate(company)]
            files.append(_save(scratch, f"{i:05}", clients))
        rows = iter(corun.sweep(files, list(MODES.values()), **options).rows)
    costs: dict[str, dict[tuple[str, ...], Cost]] = {mode: {} for mode in MODES}
    for company in companies:
        for mode in MODES:
            seen = _clients(next(rows))
            parts = [_cost(company, n, alone[kind.network], seen[f"c{n}"]) for n, kind in enumerate(company)]
            names = tuple(kind.name for kind in company)
            costs[mode][names] = Cost(names, *zip(*parts))
    return costs


def _cost(company: "tuple[Kind, ...]", n: int, alone_ms: float, seen: dict) -> "tuple[float, float, bool]":
    if company[n].real_time:
        arrived = seen["finished"] + seen["dropped"] + seen["unfinished"]
        late = seen["deadline_misses"]
        return seen["progress"], 1 - late / arrived, late <= 0.01 * arrived
    # By the mean latency rather than by counting: a program of 5 ms ends only some forty requests in a run.
    think_ms = _period_ms(company, n, alone_ms) - alone_ms
    progress = (think_ms + seen["alone_mean_ms"]) / (think_ms + seen["mean_ms"]) if seen["finished"] else 0.0
    return progress, progress, True


def _trace(network: str) -> Path:
    return TRACES / f"{network}.json.gz"


def _save(folder: str, name: str, clients: "list[str]") -> str:
    trace = corun.compose(clients, gpu=GPU)
    trace.set_duration(DURATION)
    path = os.path.join(folder, f"{name}.json")
    trace.save(path)
    return path


def _clients(row: dict) -> dict:
    if "error" in row:
        raise RuntimeError(f"{row['trace']}, {row['policy']}: {row['error']}")
    return {one["name"]: one for one in row["result"]["clients"]}
