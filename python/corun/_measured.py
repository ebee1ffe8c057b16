"""The page of what `sim validate --json` printed: simulated beside measured, by pairs, recorded runs or networks."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence

from ._page import Page
from ._show import Row

#: Rows shown of those that are furthest off.
MOST_WORST = 25

#: The band that is drawn.
BAND = 0.1

#: Plotly's colours come again after ten groups: another symbol tells them apart.
COLOURS_OF_PLOTLY = 10
SYMBOLS = ("circle", "diamond", "square", "cross")


def _finite(value: Optional[float]) -> bool:
    return value is not None and math.isfinite(value)


def _percent(fraction: Optional[float]) -> str:
    return f"{100 * fraction:.1f} %" if fraction is not None and math.isfinite(fraction) else "-"


def _point(name: str, group: str, what: str, measured: Optional[float], simulated: Optional[float],
           spread: Optional[float] = None, why: str = "") -> Optional[dict[str, Any]]:
    """None: one of the two is not known."""
    if measured is None or simulated is None or not (_finite(measured) and _finite(simulated)) or measured <= 0:
        return None
    return {"name": name, "group": group, "what": what, "measured": measured, "simulated": simulated,
            "ratio": simulated / measured, "spread": spread, "why": why}


def _known(points: Sequence[Optional[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [point for point in points if point is not None]


def scatter(page: Page, title: str, name: str, unit: str, points: Sequence[Row], logarithmic: bool) -> None:
    """Simulated over measured, a colour a group, with the line of equals and a band of ten per cent."""
    import plotly.graph_objects as go

    if not points:
        return
    page.heading(title, 3)
    figure = go.Figure()
    values = [p[key] for p in points for key in ("measured", "simulated") if p[key] > 0]
    least, most = min(values) * 0.95, max(values) * 1.05
    for factor, dash in ((1 - BAND, "dot"), (1.0, "solid"), (1 + BAND, "dot")):
        figure.add_scatter(x=[least, most], y=[least * factor, most * factor], mode="lines", showlegend=False,
                           hoverinfo="skip", line=dict(color="#999", width=1, dash=dash))
    for i, group in enumerate(dict.fromkeys(p["group"] for p in points)):
        mine = [p for p in points if p["group"] == group]
        figure.add_scatter(
            x=[p["measured"] for p in mine], y=[p["simulated"] for p in mine], mode="markers", name=group,
            marker=dict(size=7, opacity=0.65, symbol=SYMBOLS[i // COLOURS_OF_PLOTLY % len(SYMBOLS)]),
            text=[f"{p['name']}, {p['what']}: {100 * (p['ratio'] - 1):+.1f} %" for p in mine],
            hovertemplate="%{text}<br>measured %{x:.4g}, simulated %{y:.4g}<extra></extra>",
        )
    kind = "log" if logarithmic else "linear"
    figure.update_layout(xaxis_title=f"measured {unit}", yaxis_title=f"simulated {unit}", xaxis_type=kind, yaxis_type=kind)
    page.chart(figure, name, points, height=640)
    page.text("A point on the line is as measured; the dotted lines are 10 % off. Hover over a point for its row.")


def _worst(page: Page, points: Sequence[Row]) -> None:
    rows = sorted(points, key=lambda p: abs(p["ratio"] - 1), reverse=True)[:MOST_WORST]
    if rows:
        page.heading(f"The {len(rows)} furthest off", 3)
        page.table("furthest-off", rows)


def _error_rows(groups: Sequence[tuple[str, Row]], columns: dict[str, Callable[[Row], Optional[float]]]) -> list[Row]:
    return [{"of": name, **{column: _percent(get(errors)) for column, get in columns.items()}} for name, errors in groups]


def _pairs(page: Page, document: Row) -> None:
    inputs = ("solo times on any number of SMs, counters" if document["inputs"] == "curve"
              else "the solo time on the whole GPU, counters")
    page.text(f"{document['reference']}, measured on {document['measured_on'] or 'an unknown GPU'}; simulated on "
              f"{document['gpu']} from {inputs}.")
    points = _known([
        _point(row["pair"], row["mode"], client.upper(), row["measured"][client], row["simulated"][client],
               row["spread"], row["why"])
        for row in document["rows"] for client in ("a", "b")
    ])
    scatter(page, "Slowdown of each client", "slowdowns", "slowdown", points, True)
    if points:
        page.heading("Errors", 3)
        groups = [*document["modes"].items(), ("all", document["all"])]
        page.table("errors", [
            {**row, "rows": errors["rows"]}
            for row, (_, errors) in zip(_error_rows(groups, {
                "slowdown: mean": lambda e: e["slowdown_error_mean"],
                "median": lambda e: e["slowdown_error_median"],
                "p95": lambda e: e["slowdown_error_p95"],
                "worst": lambda e: e["slowdown_error_worst"],
                "STP: mean": lambda e: e["stp_error_mean"],
            }), groups)
        ])
        tau = document["kendall_tau"]
        page.text(
            f"Error: |simulated / measured - 1|. Order of the modes of a pair by STP: Kendall's tau-b "
            f"{'-' if not _finite(tau) else format(tau, '.3f')}, mean of {document['pairs']} pairs. The mode that is best when "
            f"simulated is as good as the best measured one in {_percent(document['best_mode_picked'])} of them."
        )
    _worst(page, points)
    if document["solo"]:
        page.heading("Alone on a part of the GPU", 3)
        page.table("alone", [
            {"SMs": sms, "times": e["times"], "mean": _percent(e["error_mean"]), "worst": _percent(e["error_worst"]),
             "at": e["worst_kernel"]}
            for sms, e in document["solo"].items()
        ])
    page.heading("What the simulator was given", 3)
    page.items(document["notes"])


def _runs(page: Page, document: Row) -> None:
    for measured in document["sets"]:
        page.text(f"Measured: {measured}")
    runs = document["runs"]
    stp = _known([_point(r["mix"], r["policy"], "STP", r["measured"]["stp"], r["simulated"]["stp"]) for r in runs])
    p99 = _known([
        _point(f"{r['mix']}, {client}", r["policy"], "p99, ms", r["measured"]["p99_ms"][i], r["simulated"]["p99_ms"][i])
        for r in runs for i, client in enumerate(r["clients"])
    ])
    order = document["order"]
    page.text(
        f"{document['all']['runs']} runs: mean STP error {_percent(document['all']['stp_error_mean'])}, worst "
        f"{_percent(document['all']['stp_error_worst'])}. Order of two policies of a mix: right in {order['right']} of "
        f"{order['pairs']}. Repeats of a run differ by {_percent(document['repeat_spread'])} in the mean."
    )
    scatter(page, "System throughput", "stp", "STP", stp, False)
    scatter(page, "p99 of each client", "p99", "p99, ms", p99, True)
    columns: dict[str, Callable[[Row], Optional[float]]] = {
        "STP: mean": lambda e: e["stp_error_mean"], "worst": lambda e: e["stp_error_worst"],
        "ANTT: mean": lambda e: e["antt_error_mean"], "p99: mean": lambda e: e["p99_error_mean"],
    }
    page.heading("Errors", 3)
    page.table("errors-by-policy", _error_rows([*document.get("policies", {}).items(), ("all", document["all"])], columns))
    page.table("errors-by-mix", [
        {**row, "order of policies": f"{errors['order']['right']} of {errors['order']['pairs']}" if "order" in errors else "-"}
        for row, (_, errors) in zip(_error_rows(list(document.get("mixes", {}).items()), columns),
                                    document.get("mixes", {}).items())
    ])
    _worst(page, stp)


def _networks(page: Page, document: Row) -> None:
    page.text(f"{document['file']}, measured on {document['device']}.")
    alone = _known([
        _point(n["network"], kind, "alone, ms", n["measured_ms"], n["simulated_ms"])
        for key, kind in (("alone", "as a graph"), ("alone_eagerly", "eagerly")) for n in document[key]
    ])
    points: dict[str, list[dict[str, Any]]] = {}
    for what in ("mean_us", "p50_us", "p99_us", "per_s"):
        points[what] = _known([
            _point(f"{run['mix']}, {c['client']}", run["mode"] + ("" if c["counted"] else ", not counted"), what,
                   c["measured"][what], c["simulated"][what], c["spread"])
            for run in document["runs"] for c in run["clients"]
        ])
    stp = _known([_point(r["mix"], r["mode"], "STP", r["measured_stp"], r["simulated_stp"]) for r in document["runs"]])
    scatter(page, "Mean latency of real-time clients", "mean-latency", "mean latency, us", points["mean_us"], True)
    scatter(page, "p99 of real-time clients", "p99", "p99, us", points["p99_us"], True)
    scatter(page, "Throughput of best-effort clients", "throughput", "requests a second", points["per_s"], True)
    scatter(page, "System throughput", "stp", "STP", stp, False)
    scatter(page, "Each network alone", "alone", "time alone, ms", alone, True)
    for key, title in (("others", "Errors"), ("set_aside", "Errors of mixes with a network set aside")):
        part = document[key]
        if "modes" not in part:
            continue
        page.heading(title, 3)
        groups = [*part["modes"].items(), ("all modes", part["all"]), *part.get("mixes", {}).items()]
        page.table(f"errors-{key.replace('_', '-')}", [
            {"of": name, **{f"{what}: {how}": _percent(errors[what][how])
                            for what in ("mean_latency", "p50", "p99", "throughput", "stp") for how in ("mean", "worst")}}
            for name, errors in groups
        ])
        choices = [
            {"choice of mode by": by, "who chooses": who, "right": c["right"], "of": c["mixes"],
             "mean regret": _percent(c["regret"]), "worst regret": _percent(c["worst_regret"])}
            for by, choice in (("mean slowdown", part["choice_by_slowdown"]), ("p99, throughput kept", part["choice_by_p99"]))
            for who, c in (("what is simulated", choice["simulated"]), (f"always {choice['usual_mode']}", choice["usual"]))
            if c["mixes"]
        ]
        if choices:
            page.table(f"choices-{key.replace('_', '-')}", choices)
    rows = document["rows"]
    page.text(f"Left out: {rows['left_out']} of {rows['all']} rows, with the widest spread of their repeats.")
    _worst(page, points["mean_us"] + points["per_s"])


_KINDS: dict[str, tuple[str, Callable[[Page, Row], None]]] = {
    "pairs": ("Pairs of kernels, simulated and measured", _pairs),
    "runs": ("Recorded runs, simulated and measured", _runs),
    "networks": ("Networks that share a GPU, simulated and measured", _networks),
}


def comparison_page(document: Row, title: str = "") -> str:
    kind = document.get("comparison")
    if kind not in _KINDS:
        raise ValueError("this is not what `sim validate --json` prints: it says nothing of its comparison")
    usual, write = _KINDS[kind]
    page = Page(title or usual)
    write(page, document)
    return page.html()
