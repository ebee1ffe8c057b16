"""Grids of runs on any executor of `concurrent.futures`, with results by content hash."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

from ._native import InputError, SweepPoint, hash_points, line_again, run_points, sweep_points
from ._show import package, rows_html, rows_to_pandas

#: What a notebook shows of each client of a point, beside what was set.
SHOWN = {"trace", "policy", "seed", "gpu", "stp", "client", "throughput_per_s", "p99_ms", "error"}


class Sweep:
    """The results of a grid, in its order."""

    def __init__(self, lines: Sequence[str]):
        self.lines: list[str] = list(lines)  #: JSON, as `sim sweep` prints them

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict a point: hash, trace, gpu, policy, seed, duration, set, and `result` or `error`."""
        return [json.loads(line) for line in self.lines]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if "error" in row]

    def flat(self) -> list[dict[str, Any]]:
        """A dict a client of a point, with the numbers of both: what a table of a notebook wants."""
        out = []
        for row in self.rows:
            point = {key: row.get(key) for key in ("hash", "trace", "policy", "seed")}
            point.update(row.get("set") or {})
            result = row.get("result") or {}
            point.update({key: result.get(key) for key in ("gpu", "stp", "antt", "fairness", "sm_busy")})
            for client in result.get("clients") or [{}]:
                numbers = {k: v for k, v in client.items() if not isinstance(v, dict) and k != "name"}
                numbers.update({f"served_{k}": v for k, v in client.get("served", {}).items()})
                out.append({**point, "client": client.get("name"), **numbers,
                            "error": (row.get("error") or {}).get("problem")})
        return out

    def to_pandas(self) -> Any:
        return rows_to_pandas(self.flat())

    def to_arrow(self) -> Any:
        return package("pyarrow").Table.from_pylist(self.flat())

    def write(self, path: Union[str, os.PathLike[str]]) -> None:
        """JSON lines, the bytes of `sim sweep --out`."""
        Path(path).write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")

    def __len__(self) -> int:
        return len(self.lines)

    def _repr_html_(self) -> str:
        changed = {name for row in self.rows for name in row.get("set") or {}}
        rows = [{key: row.get(key) for key in row if key in SHOWN or key in changed} for row in self.flat()]
        return rows_html(repr(self)[1:-1], rows)

    def __repr__(self) -> str:
        return f"<corun.Sweep of {len(self.lines)} points, {len(self.errors)} with an error>"


class _Store:
    """Lines by hash in a folder: of sweeps that ended in a file of Parquet, of the one that runs in a journal.

    A line is in the journal as soon as its worker has answered, so that a process that is killed loses nothing that was
    done, but for a line that was being written.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]]):
        import pyarrow  # pip install corun[sweep]
        import pyarrow.parquet

        self._arrow = pyarrow
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines: dict[str, str] = {}
        for part in sorted(self.folder.glob("*.parquet")):
            table = pyarrow.parquet.read_table(part, columns=["hash", "line"])
            self.lines.update(zip(table["hash"].to_pylist(), table["line"].to_pylist()))
        self._file = self.folder / "journal.jsonl"
        journal = self._file.read_bytes() if self._file.exists() else b""
        *whole, cut = journal.split(b"\n")
        self.lines.update((json.loads(line)["hash"], line.decode()) for line in whole)
        if cut:
            os.truncate(self._file, len(journal) - len(cut))
        self._journal = self._file.open("a", encoding="utf-8")

    def add(self, line: str) -> None:
        self.lines[json.loads(line)["hash"]] = line
        self._journal.write(line + "\n")
        self._journal.flush()

    def close(self) -> None:
        self._journal.close()

    def finish(self, lines: Sequence[str]) -> None:
        """One file in the order of the grid, then what was there of other grids; the same bytes whatever the order of work."""
        ordered = {json.loads(line)["hash"]: line for line in lines}
        ordered.update({h: line for h, line in sorted(self.lines.items()) if h not in ordered})
        self._write("sweep.parquet", ordered)
        self.close()
        self._file.unlink()

    def _write(self, name: str, lines: Mapping[str, str]) -> None:
        rows = [json.loads(line) for line in lines.values()]
        results = [row.get("result") or {} for row in rows]
        columns = {
            "hash": list(lines),
            "trace": [row["trace"] for row in rows],
            "policy": [row["policy"] for row in rows],
            "set": [json.dumps(row.get("set") or {}) for row in rows],
            "seed": [result.get("seed", row.get("seed")) for row, result in zip(rows, results)],
            "gpu": [result.get("gpu", row.get("gpu")) for row, result in zip(rows, results)],
            "stp": [_float(result.get("stp")) for result in results],
            "antt": [_float(result.get("antt")) for result in results],
            "error": [(row.get("error") or {}).get("problem") for row in rows],
            "line": list(lines.values()),
        }
        pa = self._arrow
        kinds = {"seed": pa.int64(), "stp": pa.float64(), "antt": pa.float64()}
        table = pa.table({key: pa.array(values, kinds.get(key, pa.string())) for key, values in columns.items()})
        partial = self.folder / (name + ".tmp")
        pa.parquet.write_table(table, partial, compression="zstd")
        partial.replace(self.folder / name)


def _float(value: Any) -> Optional[float]:
    return None if value is None else float(value)


class _Progress:
    """On a terminal only, and only once something has taken two seconds."""

    def __init__(self, total: int):
        self._total, self._done, self._began, self._drawn = total, 0, time.monotonic(), False

    def add(self, count: int) -> None:
        self._done += count
        took = time.monotonic() - self._began
        if took < 2 or not sys.stderr.isatty():
            return
        left = took / self._done * (self._total - self._done)
        print(f"\r\033[K{self._done} of {self._total} points, {left:.0f} s left", end="", file=sys.stderr, flush=True)
        self._drawn = True

    def close(self) -> None:
        if self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _groups(points: Sequence[SweepPoint], most: int) -> Iterator[list[int]]:
    """Points in a row that differ in their policy only share each client alone: they go to one worker."""
    group: list[int] = []
    last = None
    for i, p in enumerate(points):
        key = (p.trace, p.gpu, p.changes, p.seed, p.duration)
        if group and (key != last or len(group) >= most):
            yield group
            group = []
        group.append(i)
        last = key
    if group:
        yield group


def _run(points: list[SweepPoint]) -> list[str]:
    """In a worker: a function of C++ cannot be sent there."""
    return run_points(points)


class RayExecutor(concurrent.futures.Executor):
    """Ray behind `concurrent.futures`, for `sweep(executor=...)`: on a cluster that `ray.init` joined, or on this machine.

    options: of `ray.remote`, as num_cpus=1. What Ray runs keeps running when this is shut down.
    """

    def __init__(self, **options: Any):
        self._ray = package("ray")
        self._options = {"num_cpus": 1, **options}
        self._remote: dict[Any, Any] = {}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if fn not in self._remote:
            self._remote[fn] = self._ray.remote(**self._options)(fn)
        return self._remote[fn].remote(*args, **kwargs).future()


def _own_executor(workers: Optional[int]) -> concurrent.futures.Executor:
    return concurrent.futures.ProcessPoolExecutor(
        max_workers=workers or os.cpu_count(), mp_context=multiprocessing.get_context("spawn")
    )


def _names(what: Union[str, os.PathLike[str], Iterable[Any]]) -> list[str]:
    return [os.fspath(what)] if isinstance(what, (str, os.PathLike)) else [os.fspath(one) for one in what]


def sweep(
    traces: Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]],
    policies: Union[str, Iterable[str]],
    *,
    set: Optional[Mapping[str, Iterable[Any]]] = None,
    gpus: Union[str, Iterable[str]] = (),
    seeds: Iterable[int] = (),
    duration: str = "",
    executor: Optional[Any] = None,
    workers: Optional[int] = None,
    store: Optional[Union[str, os.PathLike[str]]] = None,
) -> Sweep:
    """Run every combination of traces (files), gpus, `set` ({"cam.rate": [50, 100]}), seeds and policies.

    executor: any of `concurrent.futures`: a ProcessPoolExecutor of its own by default (`workers` processes, one a core),
    `dask.distributed.Client().get_executor()`, `mpi4py.futures.MPIPoolExecutor()`, `corun.RayExecutor()`, or one with `submit`.
    Its workers need corun and the traces' files. store: a folder with the results in Parquet; what is known there by its hash
    is not run again.
    The lines do not depend on the executor. Bad input of a point is a line with its error; of the grid, an InputError.
    """
    changes = [(name, [str(value) for value in values]) for name, values in (set or {}).items()]
    points = sweep_points(_names(traces), _names(gpus), changes, list(seeds), duration, _names(policies))
    lines: list[Optional[str]] = [None] * len(points)
    kept = _Store(store) if store is not None else None
    if kept is not None and kept.lines:
        for i, known in enumerate(hash_points(points)):
            if known in kept.lines:
                lines[i] = line_again(points[i], kept.lines[known])
    todo = [i for i, line in enumerate(lines) if line is None]
    progress = _Progress(len(todo))
    own = _own_executor(workers) if executor is None and todo else None
    pool = executor or own
    waiting: dict[Any, list[int]] = {}
    try:
        for group in _groups([points[i] for i in todo], most=32):
            indices = [todo[i] for i in group]
            waiting[pool.submit(_run, [points[i] for i in indices])] = indices
        for future in concurrent.futures.as_completed(waiting):
            for i, line in zip(waiting[future], future.result()):
                lines[i] = line
                if kept is not None:
                    kept.add(line)
            progress.add(len(waiting[future]))
    except BaseException:
        if kept is not None:
            for future, indices in waiting.items():  # what is done is not lost, whoever was asked first
                if future.done() and not future.cancelled() and future.exception() is None:
                    for i, line in zip(indices, future.result()):
                        if lines[i] is None:
                            kept.add(line)
            kept.close()
        if own is not None:
            own.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        progress.close()
    if own is not None:
        own.shutdown()
    done = [line for line in lines if line is not None]
    if kept is not None:
        kept.finish(done)
    return Sweep(done)


__all__ = ["InputError", "RayExecutor", "Sweep", "sweep"]
