"""One self-contained page: text, tables and Plotly's charts, each with its data as CSV."""

from __future__ import annotations

import base64
import csv
import html
import io
import os
from pathlib import Path
from typing import Any, Sequence, Union

from ._show import Row, html_table


def to_csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


class Page:
    def __init__(self, title: str):
        import plotly  # pip install corun[report]

        self._plotly = plotly
        self._parts = [f"<h1>{html.escape(title)}</h1>"]
        self._title = title
        self._count = 0
        self.figures: dict[str, Any] = {}  #: of the charts, by name

    def heading(self, text: str, level: int = 2) -> None:
        self._parts.append(f"<h{level}>{html.escape(text)}</h{level}>")

    def text(self, text: str) -> None:
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def items(self, texts: Sequence[str]) -> None:
        self._parts.append("<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in texts) + "</ul>")

    def raw(self, markup: str) -> None:
        self._parts.append(markup)

    def data(self, name: str, rows: Sequence[Row]) -> None:
        self._count += 1
        packed = base64.b64encode(to_csv(rows).encode()).decode()
        self._parts.append(
            f'<p class="data"><a download="{name}-{self._count}.csv" href="data:text/csv;base64,{packed}">'
            f"data: {name}.csv, {len(rows)} rows</a></p>"
        )

    def table(self, name: str, rows: Sequence[Row]) -> None:
        self.raw(html_table(rows))
        self.data(name, rows)

    def chart(self, figure: Any, name: str, rows: Sequence[Row], height: int = 360,
              below: int = 50) -> None:
        """`below`: pixels under the axis, for its title and a legend."""
        self.figures[name] = figure
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


def write_whole(text: str, path: Union[str, os.PathLike[str]]) -> None:
    """The file appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(target)
