"""The page of what `sim advise --json` printed: the setting that is advised, and beside it all that were simulated."""

from __future__ import annotations

from typing import Any, Optional

from ._page import Page
from ._show import Row

def _goal(document: Row, tried: Row) -> tuple[str, Optional[float]]:
    """Its name with the unit, and its value."""
    unit = {"/s": ", a second", "tokens/s": ", tokens a second", "ms": ", ms"}.get(document["goal_unit"], "")
    return ("STP" if document["goal"] == "stp" else f"{document['goal']}{unit}"), tried["goal"]


def _verdict(page: Page, document: Row) -> None:
    promised = ", ".join(document["promised"]) or "nothing"
    page.text(f"Promised: {promised}. Wanted most: {document['goal']}.")
    if document["best"] is None:
        alone = {len(tried["clients"]) for tried in document["tried"] if "clients" in tried} == {1}
        page.text(f"No setting holds. Give {'it' if alone else 'each client a GPU of its own,'} a lower rate, a longer limit, "
                  "or try other GPUs.")
        return
    best = document["tried"][document["best"]]
    page.heading(f"{best['setting']} on {best['gpu']}", 3)
    page.text(f"To do: {best['do']}.")
    if best["use"] is not None and document["promised"]:
        surely = "so it holds surely" if best["surely"] else "so it does not hold surely"
        worst = f"up to {100 * best['worst_use']:.0f} %, {surely}" if best["worst_use"] is not None else "more than was promised"
        page.text(f"It uses {100 * best['use']:.0f} % of what was promised; in nine of ten measured cases {worst}.")
    page.text(f"Its run as a page of its own: the same trace with --policy={best['policy']} --report run.html.")
    if document["next"] is not None:
        page.text(f"Next best: {document['tried'][document['next']]['setting']}.")


def _what_if(page: Page, document: Row) -> None:
    rows = []
    for what in document["what_if"]:
        instead = what.get("instead")
        then = (what["refused"] if "refused" in what else "the same" if not what["changes"] else
                "none of the settings asked again holds" if instead is None else instead["setting"])
        rows.append({"assumed": what["assumed"], "advice": then, "apart_pct": 100 * what["apart"] if what.get("apart") else None})
    if rows:
        page.heading("What would change it", 3)
        page.table("what_if", rows)


def _choice(page: Page, document: Row, ran: list[Any]) -> None:
    import plotly.graph_objects as go

    points = []
    name = "STP"
    for i, tried in ran:
        name, value = _goal(document, tried)
        verdict = ("advised" if i == document["best"] else "holds" if tried["surely"] else
                   "holds, not surely" if tried["holds"] else "does not hold")
        points.append({"setting": tried["setting"], "gpu": tried["gpu"], "policy": tried["policy"], "verdict": verdict,
                       "use_pct": None if tried["use"] is None else 100 * tried["use"], "goal": value, "stp": tried["stp"]})
    shown = [p for p in points if p["use_pct"] is not None and p["goal"] is not None]
    if document["promised"] and shown:
        page.heading("What each setting promises and gives", 3)
        figure = go.Figure()
        for verdict, colour in (("advised", "#2ca02c"), ("holds", "#1f77b4"), ("holds, not surely", "#ff7f0e"),
                                ("does not hold", "#d62728")):
            mine = [p for p in shown if p["verdict"] == verdict]
            if mine:
                figure.add_scatter(
                    x=[p["use_pct"] for p in mine], y=[p["goal"] for p in mine], mode="markers", name=verdict,
                    marker=dict(size=14 if verdict == "advised" else 9, color=colour), text=[p["setting"] for p in mine],
                    hovertemplate="%{text}<br>%{x:.0f} % of the promise, %{y:.4g}<extra></extra>",
                )
        figure.add_vline(x=100, line_dash="dot", line_color="#999")
        figure.update_layout(xaxis_title="use of the promise that is nearest to its limit, %", yaxis_title=name)
        if max(p["use_pct"] for p in shown) > 1000:
            figure.update_xaxes(type="log")
        page.chart(figure, "settings", points, height=420)
    else:
        page.heading("What each setting gives", 3)
        page.table("settings", points)


def _reach(ran: list[Any], name: str) -> dict[str, Any]:
    """Between what nine of ten measured p99 lie, as whiskers of the bars of one client."""
    below, above = [], []
    for _, tried in ran:
        client: Row = next((c for c in tried["clients"] if c["name"] == name), {})
        value = client.get("p99_ms")
        low, high = client.get("p99_interval_ms") or (value, value)
        below.append(None if value is None else value - low)
        above.append(None if value is None else high - value)
    return dict(type="data", symmetric=False, array=above, arrayminus=below, color="#999", thickness=1)


def _clients(page: Page, ran: list[Any]) -> None:
    import plotly.graph_objects as go

    names = list(dict.fromkeys(client["name"] for _, tried in ran for client in tried["clients"]))
    labels = [tried["setting"] if len({t["gpu"] for _, t in ran}) == 1 else f"{tried['setting']}, {tried['gpu']}"
              for _, tried in ran]
    for key, title, unit in (("progress", "What each client keeps of its throughput alone", "progress, 1 is as alone"),
                             ("p99_ms", "p99 of each client", "p99, ms")):
        rows = [{"setting": label, **{c["name"]: c[key] for c in tried["clients"]}} for label, (_, tried) in zip(labels, ran)]
        page.heading(title, 3)
        figure = go.Figure()
        for name in names:
            figure.add_bar(y=labels, x=[row.get(name) for row in rows], name=name, orientation="h",
                           error_x=_reach(ran, name) if key == "p99_ms" else None)
        figure.update_layout(barmode="group", xaxis_title=unit, yaxis_autorange="reversed", yaxis_automargin=True)
        page.chart(figure, key.replace("_ms", ""), rows, height=160 + 16 * len(rows) * len(names))


def advice_page(document: Row, title: str = "") -> str:
    page = Page(title or f"How to share the GPU: {document['trace']}")
    _verdict(page, document)
    _what_if(page, document)
    tried = document.get("tried", [])
    ran = [(i, one) for i, one in enumerate(tried) if "refused" not in one]
    if ran:
        _choice(page, document, ran)
        _clients(page, ran)
    refused = [{"setting": one["setting"], "gpu": one["gpu"], "refused": one["refused"]} for one in tried if "refused" in one]
    if refused:
        page.heading("What cannot run this trace", 3)
        page.table("refused", refused)
    return page.html()
