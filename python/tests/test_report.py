"""Does the page show what the run was, and does each chart have its data?"""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import corun
from corun import report

EXAMPLE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"


@pytest.fixture(scope="module")
def result():
    return corun.load(EXAMPLE).run("priority", duration="20ms")


def test_parts_of_a_latency_add_up_to_its_mean(result):
    for client in result.summary["clients"]:
        parts = report.split_parts(client)
        assert set(parts) == set(report.PARTS)
        assert sum(parts.values()) == pytest.approx(client["mean_ms"], rel=1e-9)
        assert all(value >= 0 for value in parts.values())
    camera = report.split_parts(result.summary["clients"][0])
    assert camera["contention"] > 0, "ResNet-152 slows its kernels"


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
    assert names == ["runs"] + 2 * ["clients", "latency-parts", "latencies", "timeline"]
    tables = {name: base64.b64decode(packed).decode().splitlines() for name, packed in data}
    assert len(tables["timeline"]) > 100
    assert tables["latency-parts"][0].startswith("client,queue,host")
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
    assert "under priority" in page.read_text()


def test_without_plotly_the_command_says_what_to_install(tmp_path):
    import os

    (tmp_path / "plotly.py").write_text("raise ImportError('none', name='plotly')")
    environment = {**os.environ, "CORUN_PYTHON": sys.executable,
                   "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run([os.environ["CORUN_SIM"], "--report", str(tmp_path / "p.html"), EXAMPLE], env=environment,
                         capture_output=True, text=True)
    assert ran.returncode == 2
    assert "plotly is missing" in ran.stderr and "corun[report]" in ran.stderr
