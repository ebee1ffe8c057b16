"""Does the page show what the run was, and does each chart have its data?"""

import base64
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import corun
from corun import report

EXAMPLE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"


def tables_of(text):
    """Name and content of each CSV on a page."""
    found = re.findall(r'download="([a-z0-9-]+)-\d+.csv" href="data:text/csv;base64,([^"]+)"', text)
    return [(name, base64.b64decode(packed).decode()) for name, packed in found]


@pytest.fixture(scope="module")
def result():
    return corun.load(EXAMPLE).run("priority", duration="20ms")


def test_parts_of_a_latency_add_up_to_its_mean(result):
    for client in result.summary["clients"]:
        parts = report.split_parts(client)
        assert list(parts)[-1] == "contention", "by resource only where it was asked for"
        assert set(parts) < set(report.PARTS)
        assert sum(parts.values()) == pytest.approx(client["mean_ms"], rel=1e-9)
        assert all(value >= 0 for value in parts.values())
    camera = report.split_parts(result.summary["clients"][0])
    assert camera["contention"] > 0, "ResNet-152 slows its kernels"


def test_contention_is_told_by_resource_and_adds_up(result):
    split = corun.load(EXAMPLE).run("priority", duration="20ms", resources=True).summary
    for client, together in zip(split["clients"], result.summary["clients"]):
        assert sum(client["running_parts_ms"].values()) == pytest.approx(client["latency_parts_ms"]["running"], rel=1e-9)
        parts = report.split_parts(client)
        assert sum(parts.values()) == pytest.approx(client["mean_ms"], rel=1e-9)
        assert "contention" not in parts
        lost = sum(parts[name] for name in ("places", "issue", "pipes", "l2", "dram", "clock"))
        assert lost == pytest.approx(report.split_parts(together)["contention"], rel=0.02)
        del client["running_parts_ms"]
    assert split == result.summary, "asking changes nothing else"


def test_a_folder_that_no_run_wrote_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="sim --out"):
        report.Run(tmp_path)
    assert report.main([str(tmp_path), "-o", str(tmp_path / "o.html")]) == 2
    assert not (tmp_path / "o.html").exists()


def test_the_page_is_whole_and_has_the_data_of_every_chart(result, tmp_path):
    pytest.importorskip("plotly")
    other = corun.load(EXAMPLE).run("timeslice", duration="20ms")
    page = tmp_path / "page.html"
    corun.write_report([result, other], page)
    text = page.read_text()
    assert "http://" not in re.sub(r"<script.*?</script>|<svg.*?</svg>", "", text, flags=re.S), "needs no network"
    data = re.findall(r'download="([a-z-]+)-\d+.csv" href="data:text/csv;base64,([^"]+)"', text)
    names = [name for name, _ in data]
    assert names == ["runs"] + 2 * ["clients", "intervals", "latency-parts", "latencies", "timeline"]
    tables = {name: base64.b64decode(packed).decode().splitlines() for name, packed in data}
    assert len(tables["timeline"]) > 100
    assert tables["latency-parts"][0].startswith("client,queue,host")
    assert re.search(r",[\d.]+ to [\d.]+,.*times", tables["intervals"][1])
    assert not list(tmp_path.glob("*.part"))


def test_the_command_makes_the_same_page(tmp_path):
    pytest.importorskip("plotly")
    import os

    page = tmp_path / "page.html"
    environment = {**os.environ, "CORUN_PYTHON": sys.executable}
    subprocess.run(
        [os.environ["CORUN_SIM"], "--policy=priority", "--duration=20ms", "--report", str(page), EXAMPLE],
        check=True, env=environment, stdout=subprocess.DEVNULL,
    )
    text = page.read_text()
    assert "under priority" in text
    data = tables_of(text)
    assert [name for name, _ in data] == ["clients", "intervals", "latency-parts", "latencies", "timeline", "occupancy"]
    assert "contention: DRAM" in text or "contention: issue slots" in text
    assert data[2][1].splitlines()[0].endswith("running,places,issue,pipes,l2,dram,clock")
    warps = list(csv.DictReader(io.StringIO(data[-1][1])))
    assert {row["client"] for row in warps} == {"camera", "batch"}
    assert all(0 < float(row["warps"]) <= 64 for row in warps)


COMPARISONS = {
    "runs": ["experiments/h200/policies", "--only", "issue,fcfs,greedy"],
    "pairs": ["--reference", "experiments/reference/h200-corun.json.gz", "--modes", "half"],
    "networks": ["experiments/h200/networks", "--only", "bert16-dlrm", "--duration", "20ms"],
}


@pytest.mark.parametrize("kind", COMPARISONS)
def test_a_comparison_with_measurements_has_a_page_from_its_json(kind, tmp_path):
    pytest.importorskip("plotly")
    import os

    page = tmp_path / "page.html"
    ran = subprocess.run(
        [os.environ["CORUN_SIM"], "validate", *COMPARISONS[kind], "--json", "--report", str(page)],
        check=True, env={**os.environ, "CORUN_PYTHON": sys.executable}, capture_output=True, text=True,
    )
    document = json.loads(ran.stdout)
    assert document["comparison"] == kind
    text = page.read_text()
    assert "http://" not in re.sub(r"<script.*?</script>", "", text, flags=re.S), "needs no network"
    tables = dict(tables_of(text))
    assert text.count('class="plotly-graph-div"') >= 1
    scatters = {"runs": ["stp", "p99"], "pairs": ["slowdowns"],
                "networks": ["mean-latency", "p99", "throughput", "stp", "alone"]}[kind]
    for name in scatters:
        points = list(csv.DictReader(io.StringIO(tables[name])))
        assert points, name
        for point in points:
            assert float(point["ratio"]) == pytest.approx(float(point["simulated"]) / float(point["measured"]))
    if kind == "pairs":
        assert len(list(csv.DictReader(io.StringIO(tables["slowdowns"])))) == 2 * len(document["rows"])
    if kind == "runs":
        stp = list(csv.DictReader(io.StringIO(tables["stp"])))
        assert [(p["name"], p["group"]) for p in stp] == [(r["mix"], r["policy"]) for r in document["runs"]]
    assert "furthest-off" in tables
    assert any(name.startswith("errors") for name in tables)


def test_names_are_escaped_on_the_page_of_a_comparison():
    pytest.importorskip("plotly")
    from corun._measured import comparison_page

    one = {"stp": 1.5, "antt": 1.2, "p99_ms": [2.0], "progress": [1.0]}
    errors = {"runs": 1, "stp_error_mean": 0.1, "stp_error_worst": 0.1, "antt_error_mean": 0.1, "p99_error_mean": None}
    text = comparison_page({
        "comparison": "runs", "sets": ["<b>&"], "all": errors, "order": {"pairs": 0, "right": 0, "share": None},
        "repeat_spread": None, "policies": {"<i>": errors}, "mixes": {"<u>": errors},
        "runs": [{"mix": "<u>", "policy": "<i>", "clients": ["<s>"], "measured": one, "simulated": {**one, "stp": 1.8}}],
    })
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "&lt;b&gt;&amp;" in outside and "&lt;i&gt;" in outside and "&lt;u&gt;" in outside
    for raw in ("<b>&", "<i>", "<u>", "<s>"):
        assert raw not in outside, raw
    assert "+20.0 %" in text


def test_a_file_that_is_no_comparison_is_refused(tmp_path):
    pytest.importorskip("plotly")
    for name, content in {"other.json": "{}", "list.json": "[1]", "text.json": "no"}.items():
        (tmp_path / name).write_text(content)
        assert report.main([str(tmp_path / name), "-o", str(tmp_path / "o.html")]) == 2
    assert not (tmp_path / "o.html").exists()


def test_without_plotly_the_command_says_what_to_install(tmp_path):
    import os

    (tmp_path / "plotly.py").write_text("raise ModuleNotFoundError('none', name='plotly')")
    environment = {**os.environ, "CORUN_PYTHON": sys.executable,
                   "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run([os.environ["CORUN_SIM"], "--report", str(tmp_path / "p.html"), EXAMPLE], env=environment,
                         capture_output=True, text=True)
    assert ran.returncode == 2
    assert "plotly is missing" in ran.stderr and "corun[report]" in ran.stderr


def test_an_advice_has_a_page_that_says_which_setting_and_shows_all(tmp_path):
    pytest.importorskip("plotly")
    import os

    page = tmp_path / "page.html"
    ran = subprocess.run(
        [os.environ["CORUN_SIM"], "advise", "--slo", "camera:p99=2ms", "--maximize", "batch:throughput", "--duration=20ms",
         "--modes", "streams,priority,time-slicing", "--json", "--report", str(page), EXAMPLE],
        check=True, env={**os.environ, "CORUN_PYTHON": sys.executable}, capture_output=True, text=True,
    )
    document = json.loads(ran.stdout)
    text = page.read_text()
    best = document["tried"][document["best"]]
    assert best["setting"] in text and best["do"] in text and f"--policy={best['policy']}" in text
    tables = dict(tables_of(text))
    settings = list(csv.DictReader(io.StringIO(tables["settings"])))
    assert [s["setting"] for s in settings] == [t["setting"] for t in document["tried"]]
    assert [s["verdict"] for s in settings].count("advised") == 1
    assert set(tables) == {"settings", "progress", "p99"}


@pytest.mark.parametrize("clients, give", [(1, "Give it a lower rate"), (2, "Give each client a GPU of its own, a lower rate")])
def test_an_advice_that_nothing_holds_has_a_page_too(clients, give):
    pytest.importorskip("plotly")
    from corun._advice import advice_page

    client = {"name": "<b>", "finished": 1, "dropped": 0, "throughput_per_s": 1.0, "mean_ms": 1.0, "p99_ms": None, "progress": 0.5}
    one = {"gpu": "h200", "mode": "streams", "setting": "streams", "policy": "fcfs", "do": "nothing"}
    text = advice_page({
        "trace": "t", "goal": "stp", "promised": [], "best": None, "next": None,
        "tried": [{**one, "holds": False, "surely": False, "use": None, "worst_use": None, "stp": 1.0, "clients": clients * [client]},
                  {**one, "refused": "it has <i>"}],
    })
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert f"No setting holds. {give}" in outside and "it has &lt;i&gt;" in outside
    assert "<i>" not in outside


def test_the_charts_of_the_page_are_had_as_figures(result):
    pytest.importorskip("plotly")
    figures = corun.figures(result)
    assert list(figures) == ["latency-parts", "latencies", "timeline"]
    parts = figures["latency-parts"].data
    camera = sum(bar.x[list(bar.y).index("camera")] for bar in parts)
    assert camera == pytest.approx(result.summary["clients"][0]["mean_ms"], rel=1e-9)
    assert {bar.name for bar in figures["timeline"].data} == {"camera", "batch"}
