"""The notebooks run, show what they say, and their pictures are there."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

import corun

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


class Expected(NamedTuple):
    pictures: int
    check: str  # run in the notebook, after its last cell
    lines: tuple[str, ...] = ()  # printed lines begin so


EXPECTED = {
    "disb_a": Expected(
        4,
        """
assert set(results) | set(refused) == {policy.name for policy in corun.policies()}
kernels, since = waits_of(results["fcfs"])
waited_ms = np.maximum(kernels["started_ns"] - since, 0).sum() / 1e6
fcfs, priority = waiting["fcfs"], waiting["priority"]
# Whatever a kernel waits, it waits for somebody or for nobody.
assert fcfs.sum() >= waited_ms * 0.999999 and (fcfs >= 0).all()
# The real-time client waits for the other's blocks, and less so with priority.
assert fcfs[0, 1] > priority[0, 1] > 0, (fcfs, priority)
""",
        tuple(f"{policy.name} " for policy in corun.policies()),
    ),
    "two_programs": Expected(
        1,
        """
assert set(results) == set(ways)
for result in results.values():
    parts = result.summary["clients"][0]["latency_parts_ms"]
    assert np.isclose(sum(parts.values()), result.summary["clients"][0]["mean_ms"])
""",
        ("streams, MPS ", "MPS, offline on 40 % "),
    ),
    "sweep": Expected(
        1,
        """
assert len(sweep) == len(policies) * len(rates) * 3 and not sweep.errors
assert all(mean("p99_ms", "camera", "priority", rate) < mean("p99_ms", "camera", "fcfs", rate) for rate in rates)
""",
        ("       100 ", "       400 "),
    ),
    "policy_in_python": Expected(
        1,
        """
p99 = {summary["policy"]: summary["clients"][0]["p99_ms"] for summary in summaries}
assert p99["hold back, 1 ahead"] < p99["hold back, 16 ahead"], p99
""",
        ("fcfs ", "priority ", "hold back, 1 ahead "),
    ),
    "simulated_and_measured": Expected(
        2,
        """
assert {row[0] for row in rows} == set(mixes) and len(rows) >= len(mixes) * len(modes)
assert np.mean(errors) < 0.1, errors
""",
        ("NVIDIA H200 driver", "mean latency off by"),
    ),
}


def test_every_notebook_is_expected() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_notebook_runs(name: str) -> None:
    expected = EXPECTED[name]
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert all(
        not cell.outputs for cell in notebook.cells if cell.cell_type == "code"
    ), "commit it without outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(expected.check))
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "\n" + "".join(output.text for output in outputs if output.output_type == "stream")
    for line in expected.lines:
        assert f"\n{line}" in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == expected.pictures
    print(text)
