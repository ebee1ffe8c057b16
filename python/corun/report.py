"""One self-contained page of a run (summary, latencies, where they went, timeline, occupancy), of an advice,
or of a comparison with measurements.

    sim --policy=priority --report out.html trace.json
    sim validate experiments/h200/policies --report out.html
    python -m corun.report DIR [DIR ...] -o out.html         of what `sim --out DIR` wrote
    sim advise --slo cam:p99=20ms --report out.html trace.json
    python -m corun.report FILE.json -o out.html             of what `sim validate --json` or `sim advise --json` printed

Every chart has its data beside it, as CSV. The page needs no network. Plotly draws it: `pip install corun[report]`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Union

from ._advice import advice_page
from ._measured import comparison_page
from ._page import Page, write_whole
from ._show import CLIENT, COLOURS, PARTS, TOTALS, html_table, served_rows, split_parts

Row = dict[str, Any]

#: Kernels that a timeline shows at most, so that a page stays a few megabytes.
MOST_KERNELS = 4000

def _rows(file: Path) -> list[Row]:
    with open(file, newline="", encoding="utf-8", errors="replace") as text:
        return list(csv.DictReader(text))


def _number(text: str) -> float:
    return float(text) if text else math.nan


class Run:
    """What one `sim --out` folder holds."""

    def __init__(self, folder: Union[str, os.PathLike[str]]):
        self.folder = Path(folder)
        try:
            self.summary: Row = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
            self.requests = _rows(self.folder / "requests.csv")
            self.kernels = _rows(self.folder / "kernels.csv")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{error.filename}: not there; give a folder that `sim --out` or Result.write wrote"
            ) from None
        picture = self.folder / "occupancy.svg"
        self.occupancy: Optional[str] = picture.read_text(encoding="utf-8") if picture.exists() else None
        warps = self.folder / "occupancy.csv"
        self.warps: list[Row] = _rows(warps) if warps.exists() else []

    @property
    def title(self) -> str:
        return f"{self.summary['trace']} on {self.summary['gpu']} under {self.summary['policy']}"


def _from_to(value: Any) -> Any:
    """[1.58, 2.11] as "1.58 to 2.11"; words stay."""
    return f"{value[0]:.4g} to {value[1]:.4g}" if isinstance(value, list) else value


def _summary(page: Page, run: Run) -> None:
    s = run.summary
    totals = {name: s[name] for name in TOTALS if name in s}
    page.raw(html_table([totals]))
    clients = [{key: client.get(key) for key in CLIENT} for client in s["clients"]]
    page.table("clients", clients)
    for rows in served_rows([s]).values():
        page.table("sequences", rows)
    intervals = [{"client": client["name"], **{key: _from_to(value) for key, value in client["intervals"].items()}}
                 for client in s["clients"] if "intervals" in client]
    if intervals:
        page.heading("Between what nine of ten measured values lie", 3)
        page.table("intervals", intervals)
    page.text(f"Window: {s['window']}. Alone: {s['alone']}. GPU: {s.get('gpu_basis', 'basis unknown')}.")


def _where(page: Page, run: Run, go: Any) -> None:
    rows: list[Row] = []
    for client in run.summary["clients"]:
        if client["mean_ms"] is not None and "latency_parts_ms" in client:
            rows.append({"client": client["name"], **split_parts(client)})
    if not rows:
        return
    page.heading("Where latency goes", 3)
    figure = go.Figure()
    for (name, words), colour in zip(PARTS.items(), COLOURS):
        values = [row.get(name, 0.0) for row in rows]
        if any(values):
            figure.add_bar(y=[row["client"] for row in rows], x=values, name=words, orientation="h", marker_color=colour)
    figure.update_layout(
        barmode="stack", xaxis_title="mean latency, ms", yaxis_autorange="reversed",
        legend=dict(orientation="h", traceorder="normal", yref="container", y=0, yanchor="bottom"),
    )
    page.chart(figure, "latency-parts", rows, height=200 + 40 * len(rows), below=110)


def _latencies(page: Page, run: Run, go: Any) -> None:
    rows: list[Row] = []
    figure = go.Figure()
    for client in run.summary["clients"]:
        latencies = sorted(
            _number(r["latency_ns"]) / 1e6
            for r in run.requests
            if r["client"] == client["name"] and r["dropped"] == "0" and r["latency_ns"]
        )
        if not latencies:
            continue
        share = [(i + 1) / len(latencies) for i in range(len(latencies))]
        figure.add_scatter(x=latencies, y=share, name=client["name"], line_shape="hv")
        rows += [{"client": client["name"], "latency_ms": x, "share": y} for x, y in zip(latencies, share)]
    if not rows:
        return
    page.heading("Latencies", 3)
    figure.update_layout(xaxis_title="latency from the intended arrival, ms", yaxis_title="share of requests",
                         yaxis_range=[0, 1.03])
    page.chart(figure, "latencies", rows)


def _timeline(page: Page, run: Run, go: Any) -> None:
    kernels = [r for r in run.kernels if r["started_ns"] and r["finished_ns"]]
    if not kernels:
        return
    shown = sorted(kernels, key=lambda r: _number(r["started_ns"]))[:MOST_KERNELS]
    page.heading("Timeline of kernels", 3)
    if len(shown) < len(kernels):
        page.text(f"The first {len(shown)} of {len(kernels)} kernels; `sim --out` writes all.")
    figure = go.Figure()
    rows: list[Row] = []
    for client in dict.fromkeys(r["client"] for r in shown):
        mine = [r for r in shown if r["client"] == client]
        start = [_number(r["started_ns"]) / 1e6 for r in mine]
        length = [(_number(r["finished_ns"]) - _number(r["started_ns"])) / 1e6 for r in mine]
        lane = [f"{client}, stream {r['stream']}" for r in mine]
        figure.add_bar(
            y=lane, x=length, base=start, orientation="h", name=client, marker_line_width=0,
            hovertext=[f"{r['kernel']}<br>request {r['request']}, {r['blocks']} blocks" for r in mine],
        )
        rows += [
            {"client": client, "stream": r["stream"], "kernel": r["kernel"], "started_ms": s, "took_ms": n}
            for r, s, n in zip(mine, start, length)
        ]
    figure.update_layout(barmode="overlay", xaxis_title="ms", yaxis_autorange="reversed", bargap=0.2)
    page.chart(figure, "timeline", rows, height=200 + 40 * len({row["client"] for row in rows}))


def page(runs: Iterable[Run], title: str = "") -> Page:
    """`runs` are shown one after the other; several are compared first."""
    import plotly.graph_objects as go

    all_runs = list(runs)
    out = Page(title or (all_runs[0].title if len(all_runs) == 1 else all_runs[0].summary["trace"]))
    if len(all_runs) > 1:
        rows = [
            {"run": run.title, "stp": run.summary["stp"], "antt": run.summary["antt"],
             **{f"{c['name']} p99_ms": c["p99_ms"] for c in run.summary["clients"]}}
            for run in all_runs
        ]
        out.table("runs", rows)
        for served in served_rows([run.summary for run in all_runs], [run.title for run in all_runs]).values():
            out.table("sequences", served)
    for run in all_runs:
        if len(all_runs) > 1:
            out.heading(run.title)
        _summary(out, run)
        _where(out, run, go)
        _latencies(out, run, go)
        _timeline(out, run, go)
        if run.occupancy:
            out.heading("Whose blocks are on which SM", 3)
            out.raw(run.occupancy[run.occupancy.index("<svg"):])
            if run.warps:
                out.data("occupancy", run.warps)
        if run.summary.get("notes"):
            out.heading("What this rests on", 3)
            out.items(run.summary["notes"])
    return out


def _document(source: Any) -> Optional[Row]:
    """What `sim validate --json` or `sim advise --json` printed into this file; None: it is no file."""
    if hasattr(source, "write") or not Path(source).is_file():
        return None
    document = json.loads(Path(source).read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError(f"{source}: this is not what `sim validate --json` or `sim advise --json` prints")
    return document


def _run_of(source: Any) -> Run:
    if not hasattr(source, "write"):
        return Run(source)
    with tempfile.TemporaryDirectory() as scratch:
        source.write(scratch)
        return Run(scratch)


def figures(source: Any) -> dict[str, Any]:
    """The charts of a `Result`'s page as Plotly figures, to show in a notebook or to change: `latency-parts`, `latencies`, `timeline`.

    source: a `Result`, or a folder that `sim --out` or `Result.write` wrote. Raises ImportError without Plotly.
    """
    return page([_run_of(source)]).figures


def write_report(source: Any, path: Union[str, os.PathLike[str]], title: str = "") -> None:
    """Writes a page of a `Result`, of a folder that `sim --out` or `Result.write` wrote, or of a list of these; or of a
    file with what `sim validate --json` or `sim advise --json` printed.

    The file appears whole or not at all. Raises ImportError without Plotly (`pip install corun[report]`),
    FileNotFoundError for a folder that is none of these, ValueError for another file. What kernels lose to each other is shown
    by resource if the run was made with resources=True.
    """
    sources = source if isinstance(source, (list, tuple)) else [source]
    document = _document(sources[0]) if len(sources) == 1 else None
    if document is not None:
        make = advice_page if "promised" in document else comparison_page
        write_whole(make(document, title), path)
        return
    write_whole(page(map(_run_of, sources), title).html(), path)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m corun.report", description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("source", nargs="+", help="folders that `sim --out` wrote, or a file with what `--json` of `sim validate` or `sim advise` printed")
    parser.add_argument("-o", "--output", required=True, help="page to write")
    a = parser.parse_args(arguments)
    try:
        write_report(a.source, a.output)
    except ModuleNotFoundError as error:
        print(f"corun.report: {error.name} is missing\n  remedy: pip install 'corun[report]'", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError) as error:
        print(f"corun.report: {error}\n  remedy: give what this version of `sim --out`, `sim validate --json` or `sim advise --json` wrote",
              file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
