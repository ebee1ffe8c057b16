"""Throughputs of programs alone, in pairs and in triples, by GPU and mode, in the layout of Gavel's oracle."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from ._native import InputError, compose
from ._show import rows_html, rows_to_pandas
from ._sweep import sweep

Names = tuple[str, ...]

#: Of write_csv
ROW = ["kind", "company", "program", "throughput_per_s", "p99_ms"]


class Table:
    """Requests a second of each program of each company, by "gpu/mode"."""

    def __init__(self) -> None:
        self.throughput: dict[str, dict[Names, Optional[tuple[float, ...]]]] = {}
        self.p99_ms: dict[str, dict[Names, Optional[tuple[float, ...]]]] = {}

    def of(self, kind: str, *programs: str) -> Optional[tuple[float, ...]]:
        """Of `programs` side by side, in the order asked for; None where the mode cannot run them."""
        known = self.throughput[kind]
        for order in itertools.permutations(range(len(programs))):
            company = tuple(programs[i] for i in order)
            if company in known:
                values = known[company]
                return None if values is None else tuple(values[order.index(i)] for i in range(len(programs)))
        raise KeyError(f"{programs} under {kind}")

    def write_gavel(self, path: Union[str, os.PathLike[str]]) -> None:
        """As Gavel's simulation_throughputs.json: {kind: {"('a', 1)": {"null": x, "('b', 1)": [y, z]}}}.

        A pair that a mode cannot run has throughputs 0. Triples are left out: the layout has none.
        """
        document: dict[str, Any] = {}
        for kind, companies in self.throughput.items():
            programs = [company[0] for company in companies if len(company) == 1]
            document[kind] = {}
            for a in programs:
                alone = self.of(kind, a)
                row: dict[str, Any] = {"null": alone[0] if alone else 0.0}
                for b in programs:
                    try:
                        row[_key(b)] = list(self.of(kind, a, b) or (0.0, 0.0))
                    except KeyError:
                        continue
                document[kind][_key(a)] = row
        _write(path, json.dumps(document, indent=1, sort_keys=True) + "\n")

    def write_csv(self, path: Union[str, os.PathLike[str]]) -> None:
        """A row a program of a company: kind, company, program, throughput_per_s, p99_ms; triples too."""
        rows = [tuple(ROW)] + [
            tuple("" if value is None else repr(value) if isinstance(value, float) else value for value in row.values())
            for row in self.rows()
        ]
        partial = Path(str(path) + ".part")
        with open(partial, "w", newline="", encoding="utf-8") as out:
            csv.writer(out, lineterminator="\n").writerows(rows)
        partial.replace(path)

    def rows(self) -> list[dict[str, Any]]:
        """What `write_csv` writes, as dicts; None where the mode cannot run a company."""
        out = []
        for kind, companies in self.throughput.items():
            for company, values in companies.items():
                latencies = self.p99_ms[kind][company]
                for i, program in enumerate(company):
                    numbers = (values[i] if values else None, latencies[i] if latencies else None)
                    out.append(dict(zip(ROW, (kind, "+".join(company), program, *numbers))))
        return out

    def to_pandas(self) -> Any:
        return rows_to_pandas(self.rows())

    def _repr_html_(self) -> str:
        return rows_html(repr(self)[1:-1], self.rows())

    def __repr__(self) -> str:
        companies = {company for kind in self.throughput.values() for company in kind}
        return f"<corun.Table of {len(companies)} companies in {len(self.throughput)} modes>"


def _key(program: str) -> str:
    return f"('{program}', 1)"


def _parsed(key: str) -> tuple[str, int]:
    """As Gavel reads a key: whatever stands between the quotes is the name."""
    match = re.fullmatch(r"\('(.*)', (\d+)\)", key)
    if match is None:
        raise ValueError(f"{key!r} is no pair of a name and a number")
    return match[1], int(match[2])


def _write(path: Union[str, os.PathLike[str]], text: str) -> None:
    partial = Path(str(path) + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read_gavel(path: Union[str, os.PathLike[str]]) -> dict[str, dict[tuple[str, int], dict[Any, Any]]]:
    """Gavel's layout with its keys parsed: {kind: {(program, gpus): {None: alone, (other, gpus): (own, other's)}}}.

    Raises InputError for a file of another layout.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        out: dict[str, dict[tuple[str, int], dict[Any, Any]]] = {}
        for kind, rows in document.items():
            out[kind] = {}
            for key, row in rows.items():
                parsed: dict[Any, Any] = {}
                for other, value in row.items():
                    if other == "null":
                        parsed[None] = float(value)
                    else:
                        own, others = value
                        parsed[_parsed(other)] = (float(own), float(others))
                out[kind][_parsed(key)] = parsed
        return out
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: is no table of throughputs in Gavel's layout: {error}") from error


def table(
    programs: Mapping[str, Union[str, os.PathLike[str]]],
    modes: Mapping[str, str],
    *,
    gpus: Sequence[str] = ("h200",),
    triples: bool = False,
    duration: str = "500ms",
    settings: str = "closed",
    **options: Any,
) -> Table:
    """Run each program alone, with itself, with each other, and (`triples`) each three, under each mode on each GPU.

    programs: names and files (traces or recordings). modes: names and policies, as {"mps": "mps", "turns": "timeslice"}.
    settings: of every client, as `sim --client` takes them. options: `executor`, `workers`, `store` of corun.sweep.
    Throughputs are requests a second of each client; files recorded on another GPU are carried over.
    """
    names = sorted(programs)
    companies: list[Names] = [(name,) for name in names]
    companies += itertools.combinations_with_replacement(names, 2)
    if triples:
        companies += itertools.combinations_with_replacement(names, 3)
    out = Table()
    with tempfile.TemporaryDirectory() as scratch:
        files: dict[tuple[str, Names], str] = {}
        for gpu in gpus:
            for i, company in enumerate(companies):
                clients = [f"c{n}={programs[name]},{settings}" for n, name in enumerate(company)]
                trace = compose(clients, gpu=gpu)
                trace.set_duration(duration)
                files[gpu, company] = os.path.join(scratch, f"{gpu}-{i}.json")
                trace.save(files[gpu, company])
        rows = iter(sweep(list(files.values()), list(modes.values()), **options).rows)
        for gpu, company in files:
            for mode in modes:
                result = next(rows).get("result")
                kind = f"{gpu}/{mode}"
                values = latencies = None
                if result is not None:
                    clients_of = {client["name"]: client for client in result["clients"]}
                    mine = [clients_of[f"c{n}"] for n in range(len(company))]
                    values = tuple(client["throughput_per_s"] for client in mine)
                    latencies = tuple(client["p99_ms"] for client in mine)
                out.throughput.setdefault(kind, {})[company] = values
                out.p99_ms.setdefault(kind, {})[company] = latencies
    return out


__all__ = ["Table", "read_gavel", "table"]
