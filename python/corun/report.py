"""One self-contained page of what `sim --out DIR` wrote: summary, latencies, where they went, timeline, occupancy.

    sim --policy=priority --report out.html trace.json
    python -m corun.report DIR [DIR ...] -o out.html

Every chart has its data beside it, as CSV. The page needs no network. Plotly draws it: `pip install corun[report]`.
"""

from __future__ import annotations

import argparse
import base64
import csv
import html
import io
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Union

from ._show import CLIENT, COLOURS, PARTS, TOTALS, html_table, split_parts

Row = dict[str, Any]

#: Kernels that a timeline shows at most, so that a page stays a few megabytes.
MOST_KERNELS = 4000

def _rows(file: Path) -> list[Row]:
    with open(file, newline="", encoding="utf-8", errors="replace") as text:
        return list(csv.DictReader(text))


def _number(text: str) -> float:
    return float(text) if text else math.nan


def _csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


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

    @property
    def title(self) -> str:
        return f"{self.summary['trace']} on {self.summary['gpu']} under {self.summary['policy']}"


class _Page:
    def __init__(self, title: str):
        import plotly  # pip install corun[report]

        self._plotly = plotly
        self._parts = [f"<h1>{html.escape(title)}</h1>"]
        self._title = title
        self._count = 0

    def heading(self, text: str, level: int = 2) -> None:
        self._parts.append(f"<h{level}>{html.escape(text)}</h{level}>")

    def text(self, text: str) -> None:
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def raw(self, markup: str) -> None:
        self._parts.append(markup)

    def data(self, name: str, rows: Sequence[Row]) -> None:
        self._count += 1
        packed = base64.b64encode(_csv(rows).encode()).decode()
        self._parts.append(
            f'<p class="data"><a download="{name}-{self._count}.csv" href="data:text/csv;base64,{packed}">'
            f"data: {name}.csv, {len(rows)} rows</a></p>"
        )

    def chart(self, figure: Any, name: str, rows: Sequence[Row], height: int = 360,
              below: int = 50) -> None:
        """`below`: pixels under the axis, for its title and a legend."""
        figure.update_layout(height=height, margin=dict(l=60, r=20, t=30, b=below), template="plotly_white")
        self._parts.append(
            self._plotly.io.to_html(
                figure, full_html=False, include_plotlyjs=False, div_id=f"chart-{self._count}-{name}",
                config={"displaylogo": False},
            )
        )
        self.data(name, rows)

    def html(self) -> str:
        style = (
            "body{font:15px/1.5 sans-serif;max-width:1150px;margin:2em auto;padding:0 1em}"
            "table{border-collapse:collapse;font-size:13px;margin:1em 0}td,th{border:1px solid #ccc;padding:2px 8px;text-align:right}"
            "td:first-child,th:first-child{text-align:left}.data{font-size:12px}svg{max-width:100%}"
        )
        script = self._plotly.offline.get_plotlyjs()
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self._title)}</title>'
            f"<style>{style}</style><script>{script}</script></head><body>{''.join(self._parts)}</body></html>\n"
        )


def _summary(page: _Page, run: Run) -> None:
    s = run.summary
    totals = {name: s[name] for name in TOTALS if name in s}
    page.raw(html_table([totals]))
    clients = [{key: client.get(key) for key in CLIENT} for client in s["clients"]]
    page.raw(html_table(clients))
    page.data("clients", clients)
    page.text(f"Window: {s['window']}. Alone: {s['alone']}. GPU: {s.get('gpu_basis', 'basis unknown')}.")


def _where(page: _Page, run: Run, go: Any) -> None:
    rows: list[Row] = []
    for client in run.summary["clients"]:
        if client["mean_ms"] is not None and "latency_parts_ms" in client:
            rows.append({"client": client["name"], **split_parts(client)})
    if not rows:
        return
    page.heading("Where latency goes", 3)
    figure = go.Figure()
    for (name, words), colour in zip(PARTS.items(), COLOURS):
        values = [row[name] for row in rows]
        if any(values):
            figure.add_bar(y=[row["client"] for row in rows], x=values, name=words, orientation="h", marker_color=colour)
    figure.update_layout(
        barmode="stack", xaxis_title="mean latency, ms", yaxis_autorange="reversed",
        legend=dict(orientation="h", traceorder="normal", yref="container", y=0, yanchor="bottom"),
    )
    page.chart(figure, "latency-parts", rows, height=200 + 40 * len(rows), below=110)


def _latencies(page: _Page, run: Run, go: Any) -> None:
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


def _timeline(page: _Page, run: Run, go: Any) -> None:
    kernels = [r for r in run.kernels if r["started_ns"] and r["finished_ns"]]
    if not kernels:
        return
    shown = sorted(kernels, key=lambda r: _number(r["started_ns"]))[:MOST_KERNELS]
    page.heading("Timeline of kernels", 3)
    if len(shown) < len(kernels):
        page.text(f"The first {len(shown)} of {len(kernels)} kernels; the Perfetto file has all.")
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


def page(runs: Iterable[Run], title: str = "") -> str:
    """The page as HTML text. `runs` are shown one after the other; several are compared first."""
    import plotly.graph_objects as go

    all_runs = list(runs)
    out = _Page(title or (all_runs[0].title if len(all_runs) == 1 else all_runs[0].summary["trace"]))
    if len(all_runs) > 1:
        rows = [
            {"run": run.title, "stp": run.summary["stp"], "antt": run.summary["antt"],
             **{f"{c['name']} p99_ms": c["p99_ms"] for c in run.summary["clients"]}}
            for run in all_runs
        ]
        out.raw(html_table(rows))
        out.data("runs", rows)
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
        if run.summary.get("notes"):
            out.heading("What this rests on", 3)
            out.raw("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in run.summary["notes"]) + "</ul>")
    return out.html()


def write_report(source: Any, path: Union[str, os.PathLike[str]], title: str = "") -> None:
    """Writes a page of a `Result`, of a folder that `sim --out` or `Result.write` wrote, or of a list of these.

    The file appears whole or not at all. Raises ImportError without Plotly (`pip install corun[report]`),
    FileNotFoundError for a folder that is none of these.
    """
    sources = source if isinstance(source, (list, tuple)) else [source]
    with tempfile.TemporaryDirectory() as scratch:
        runs = []
        for i, one in enumerate(sources):
            folder = one
            if hasattr(one, "write"):
                folder = Path(scratch) / str(i)
                one.write(folder)
            runs.append(Run(folder))
        text = page(runs, title)
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(target)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m corun.report", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="+", help="what `sim --out` wrote")
    parser.add_argument("-o", "--output", required=True, help="page to write")
    a = parser.parse_args(arguments)
    try:
        write_report(a.folder, a.output)
    except ModuleNotFoundError as error:
        print(f"corun.report: {error.name} is missing\n  remedy: pip install 'corun[report]'", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError) as error:
        print(f"corun.report: {error}\n  remedy: give a folder that this version of `sim --out` wrote", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
