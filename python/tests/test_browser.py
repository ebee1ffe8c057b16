"""The page of a run, opened in Chromium without a window: nothing fails, and every chart is drawn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import List, Tuple

import pytest

pytest.importorskip("plotly")
import corun  # noqa: E402

EXAMPLE = "traces/h200/examples/realtime-resnet50-beside-resnet152.json"
BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium")


def opened(page: Path, profile: Path) -> Tuple[str, List[str]]:
    """The document once its scripts have run, and what it wrote to the console."""
    ran = subprocess.run(
        [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1280,3000",
         "--virtual-time-budget=20000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=240, check=True,
    )
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


def test_the_page_draws_every_chart_and_no_script_fails(tmp_path: Path) -> None:
    runs = [corun.load(EXAMPLE).run(policy, duration="20ms") for policy in ("priority", "timeslice")]
    page = tmp_path / "page.html"
    corun.write_report(runs, page)
    charts = re.findall(r'id="(chart-\d+-[a-z-]+)"', page.read_text())
    assert len(charts) == 2 * len(["latency-parts", "latencies", "timeline"])
    document, console = opened(page, tmp_path / "profile")
    assert not console
    for chart, drawn in zip(charts, re.split(r'id="chart-\d+-[a-z-]+"', document)[1:]):
        assert 'class="main-svg"' in drawn, chart
        assert re.search(r'class="(bars|lines|points|trace)', drawn), f"{chart} shows data"


def test_a_script_that_fails_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><script>nothing.there()</script>")
    _, console = opened(page, tmp_path / "profile")
    assert any("nothing is not defined" in line for line in console)
