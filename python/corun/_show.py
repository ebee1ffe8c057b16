"""Results as a notebook shows them, and as data frames."""

from __future__ import annotations

import html
import importlib
import math
from typing import Any, Mapping, Sequence

Row = Mapping[str, Any]

#: LatencyParts in the order of a request's way, with what a reader calls them.
PARTS = {
    "queue": "queue (its earlier requests)",
    "host": "host",
    "held": "held by the policy",
    "launching": "launch, until the TMU",
    "waiting": "wait for an SM",
    "off_turn": "another context's turn, switch",
    "copying": "copies",
    "preempted": "kernels that were preempted",
    "running": "kernels, as alone",
    "contention": "contention with others",
    "places": "fewer places on SMs",
    "issue": "contention: issue slots",
    "pipes": "contention: pipes of an SM",
    "l2": "contention: L2",
    "dram": "contention: DRAM",
    "clock": "a lower clock",
}
COLOURS = ["#7f7f7f", "#bcbd22", "#9467bd", "#8c564b", "#ff7f0e", "#17becf", "#e377c2", "#d62728", "#2ca02c", "#1f77b4",
           "#ffbb78", "#1f77b4", "#9edae5", "#aec7e8", "#08519c", "#e6550d"]

#: What is said of a run, and of a client of it.
TOTALS = ["stp", "antt", "fairness", "jain", "sm_busy", "occupancy"]
CLIENT = ["name", "class", "finished", "dropped", "throughput_per_s", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms",
          "deadline_misses", "slowdown", "progress"]

#: What is said of a server's sequences, by its name in `vllm bench serve`.
SERVED = {
    "sequences_per_s": "Request throughput (req/s)", "goodput_per_s": "Request goodput (req/s)",
    "tokens_per_s": "Output token throughput (tok/s)",
    **{f"{key}_{q}_ms": f"{words} {name} (ms)"
       for key, name in (("first_token", "TTFT"), ("per_token", "TPOT"), ("between_tokens", "ITL"), ("end_to_end", "E2EL"))
       for q, words in (("mean", "Mean"), ("p50", "Median"), ("p99", "P99"))},
}

#: Rows that a notebook shows at most, of any table.
MOST_ROWS = 20


def package(name: str) -> Any:
    """The module `name`, or a ModuleNotFoundError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(f"{name} is missing\n  remedy: pip install {name}", name=name) from None


def split_parts(client: Row) -> dict[str, float]:
    """Parts of a client's mean latency in ms, with `running` split into what it is alone and what others cost it.

    The latter by resource if the run told it (resources=True, `--resources`, `--report`), else together as `contention`.
    They add up to `mean_ms`.
    """
    parts = {name: float(value or 0) for name, value in client["latency_parts_ms"].items()}
    by_resource = client.get("running_parts_ms")
    if by_resource is not None:
        parts["running"] = float(by_resource["alone"] or 0)
        parts.update({name: float(value or 0) for name, value in by_resource.items() if name != "alone"})
        return parts
    alone = float((client.get("alone_latency_parts_ms") or {}).get("running") or parts["running"])
    parts["contention"] = max(0.0, parts["running"] - alone)
    parts["running"] -= parts["contention"]
    return parts


def shown(value: Any) -> str:
    if value is None or value != value:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def html_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>No rows.</p>"
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(shown(value))}</td>" for value in row.values()) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _first(rows: Sequence[Row], most: int = MOST_ROWS) -> str:
    rest = f"<p>The first {most} of {len(rows)} rows.</p>" if len(rows) > most else ""
    return html_table(rows[:most]) + rest


def _titled(title: str, *parts: str) -> str:
    return f"<div><p><b>{html.escape(title)}</b></p>{''.join(parts)}</div>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<details><summary>What this rests on ({len(notes)})</summary><ul>{items}</ul></details>"


def _bars(clients: Sequence[Row]) -> str:
    """A bar for each client, as long as its mean latency, in the colours of its parts."""
    with_parts = [c for c in clients if c.get("mean_ms") and "latency_parts_ms" in c]
    if not with_parts:
        return ""
    longest = max(c["mean_ms"] for c in with_parts)
    seen: dict[str, str] = {}
    rows = []
    for client in with_parts:
        pieces = []
        for (name, value), colour in zip(((n, split_parts(client).get(n, 0.0)) for n in PARTS), COLOURS):
            if value / longest < 0.001:
                continue
            seen[name] = colour
            title = html.escape(f"{PARTS[name]}: {value:.4g} ms")
            pieces.append(
                f'<span title="{title}" style="display:inline-block;height:12px;width:{300 * value / longest:.1f}px;'
                f'background:{colour}"></span>'
            )
        rows.append(
            f'<tr><td>{html.escape(str(client["name"]))}</td><td style="text-align:left;white-space:nowrap">'
            f'<span style="font-size:0">{"".join(pieces)}</span> {client["mean_ms"]:.4g} ms</td></tr>'
        )
    legend = ", ".join(
        f'<span style="color:{seen[name]}">&#9632;</span> {html.escape(words)}' for name, words in PARTS.items() if name in seen
    )
    return f"<p>Where the mean latency goes: {legend}.</p><table>{''.join(rows)}</table>"


def _limits(served: Row) -> str:
    """"TTFT 200 ms, TPOT 50 ms"; empty: nothing was promised."""
    return ", ".join(f"{name} {served[key]:.4g} ms" for key, name in (
        ("first_token_limit_ms", "TTFT"), ("per_token_limit_ms", "TPOT"), ("end_to_end_limit_ms", "E2EL")) if key in served)


def _served_value(served: Row, key: str) -> Any:
    value, infinite = served[key], served.get(key.rsplit("_", 2)[0] + "_infinite", 0)
    if infinite and key.endswith("_mean_ms"):
        return f">{shown(value)}"  # their time so far counts
    return math.inf if infinite and value is None else value


def served_rows(summaries: Sequence[Row], names: Sequence[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """Of each server by name, what its sequences met: a row a number, a column a run, as the command prints it.

    names: of the runs, else their policies.
    """
    out: dict[str, list[dict[str, Any]]] = {}
    for server in summaries[0]["clients"] if summaries else []:
        if "served" not in server:
            continue
        runs = {}
        for summary, name in zip(summaries, names or [s["policy"] for s in summaries]):
            for client in summary["clients"]:
                if client["name"] == server["name"] and "served" in client:
                    runs[name] = {"seconds": summary["duration_ns"] / 1e9, **client["served"]}
        lines: dict[str, Any] = {
            "Successful requests": lambda r: f"{r['finished']} of {r['sequences']}",
            f"Late: {_limits(server['served']) or 'nothing promised'}":
                lambda r: f"{r['late']} of {r['sequences']}" if _limits(r) else None,
            "Under way at the end, not late": lambda r: r["pending"],
            "Benchmark duration (s)": lambda r: r["seconds"],
            **{words: (lambda r, key=key: _served_value(r, key)) for key, words in SERVED.items()},
        }
        if "prompt_tokens" in server["served"]:
            lines["Prompt tokens from the prefix cache"] = \
                lambda r: f"{100 * r['cached_tokens'] / r['prompt_tokens']:.1f} %" if "prompt_tokens" in r else None
        out[server["name"]] = [{f"sequences of {server['name']}": words, **{name: of(r) for name, r in runs.items()}}
                               for words, of in lines.items()]
    return out


def _served(summaries: Sequence[Row]) -> str:
    return "".join(html_table(rows) for rows in served_rows(summaries).values())


def result_html(result: Any) -> str:
    s = result.summary
    totals = {name: s[name] for name in TOTALS if name in s}
    clients = [{key: client.get(key) for key in CLIENT} for client in s["clients"]]
    return _titled(
        f"{s['trace']} on {s['gpu']} under {s['policy']}, seed {s['seed']}",
        html_table([totals]), html_table(clients), _served([s]), _bars(s["clients"]),
        f"<p>Window: {html.escape(s['window'])}. Alone: {html.escape(s['alone'])}.</p>", _notes(s.get("notes") or []),
    )


def trace_html(trace: Any) -> str:
    clients = []
    for name in trace.client_names:
        client = trace.client(name)
        deadline = client.deadline_ns
        clients.append({
            "client": name, "class": "real_time" if client.real_time else "best_effort",
            "rate_per_s": "one after the other" if client.rate is None else client.rate, "priority": client.priority,
            "deadline_ms": None if deadline is None else deadline / 1e6,
            "quota": client.quota, "reservation": client.reservation, "memory_bytes": client.memory_bytes,
        })
    length = "until every client has finished once" if trace.duration_ns is None else f"{trace.duration_ns / 1e6:g} ms"
    about = f"<p>{html.escape(trace.about)}</p>" if trace.about else ""
    return _titled(
        f"{trace.name or trace.file} on {trace.gpu}", about, _first(clients),
        f"<p>Kernels: {len(trace.kernel_names)}. Duration: {html.escape(length)}. Seed: {trace.seed}.</p>",
        _notes(trace.notes),
    )


def compared(summaries: Sequence[Row]) -> list[dict[str, Any]]:
    """A row a run: what it gives in total, and the p99 of each client."""
    return [
        {"policy": s["policy"], **{name: s[name] for name in TOTALS[:3] if name in s},
         **{f"{c['name']} p99_ms": c["p99_ms"] for c in s["clients"]}}
        for s in summaries
    ]


def comparison_html(summaries: Sequence[Row]) -> str:
    title = f"{summaries[0]['trace']} on {summaries[0]['gpu']}" if summaries else "No runs"
    return _titled(title, _first(compared(summaries)), _served(summaries))


def rows_html(title: str, rows: Sequence[Row]) -> str:
    return _titled(title, _first(rows))


def client_rows(summary: Row) -> list[dict[str, Any]]:
    """A row a client, with its latency's parts as `<part>_part_ms`, which add up to `mean_ms`, and of a server `served_<name>`."""
    out = []
    for client in summary["clients"]:
        row = {key: value for key, value in client.items() if not isinstance(value, dict)}
        if client["mean_ms"] is not None and "latency_parts_ms" in client:
            row.update({f"{name}_part_ms": value for name, value in split_parts(client).items()})
        row.update({f"served_{name}": value for name, value in client.get("served", {}).items()})
        out.append(row)
    return out


def rows_to_pandas(rows: Sequence[Row]) -> Any:
    return package("pandas").DataFrame(list(rows))


def columns_to_pandas(columns: Any) -> Any:
    pandas = package("pandas")
    data = {}
    for name in columns.names:
        words = columns.words(name)
        data[name] = columns[name] if words is None else pandas.Categorical.from_codes(columns[name], words)
    return pandas.DataFrame(data)


def columns_html(columns: Any) -> str:
    rows: list[dict[str, Any]] = [{} for _ in range(min(len(columns), MOST_ROWS))]
    for name in columns.names:
        words = columns.words(name)
        for row, value in zip(rows, columns[name][:MOST_ROWS].tolist()):  # of a time all digits, to the picosecond
            row[name] = words[value] if words is not None else f"{value:.15g}" if isinstance(value, float) else value
    rest = f"<p>The first {MOST_ROWS} of {len(columns)} rows.</p>" if len(columns) > MOST_ROWS else ""
    return f"<div>{html_table(rows)}{rest}</div>"


def result_to_pandas(result: Any, which: str = "requests") -> Any:
    if which == "clients":
        return rows_to_pandas(client_rows(result.summary))
    package("pandas")  # before the columns are made
    return columns_to_pandas(result.columns(which))
