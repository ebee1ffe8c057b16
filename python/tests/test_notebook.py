"""The notebook runs, shows every policy, and its pictures are there."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

import corun

NOTEBOOK = Path(__file__).parents[1] / "notebooks/disb_a.ipynb"
CHECK = """
assert set(results) | set(refused) == {policy.name for policy in corun.policies()}
kernels, since = waits_of(results["fcfs"])
waited_ms = np.maximum(kernels["started_ns"] - since, 0).sum() / 1e6
fcfs, priority = waiting["fcfs"], waiting["priority"]
# Whatever a kernel waits, it waits for somebody or for nobody.
assert fcfs.sum() >= waited_ms * 0.999999 and (fcfs >= 0).all()
# The real-time client waits for the other's blocks, and less so with priority.
assert fcfs[0, 1] > priority[0, 1] > 0, (fcfs, priority)
"""


def test_the_notebook_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(
        not cell.outputs for cell in notebook.cells if cell.cell_type == "code"
    ), "commit it without outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(CHECK))
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    for policy in corun.policies():
        assert f"\n{policy.name} " in text
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
