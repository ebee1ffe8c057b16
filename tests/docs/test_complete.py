"""Pages that list all of something leave nothing out: every policy with its source, every number of a result with its formula."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import corun

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_policy_has_a_row_with_its_source_and_its_file() -> None:
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    rows = {cells[0]: cells[1:] for line in page.splitlines() if (cells := [c.strip() for c in line.split("|")[1:-1]])[1:]}
    sources = set(re.findall(r"^(\d+)\. ", page, re.M))
    for policy in corun.policies():
        source, _, file = rows[f"`{policy.name}`"]
        assert source and policy.source
        assert set(re.findall(r"\[(\d+)\](?!\()", source)) <= sources
        link = re.fullmatch(r"\[.*\]\((.*)\)", file)
        assert link and (DOCS / link[1]).is_file()
    assert {name for name in rows if name.startswith("`")} == {f"`{policy.name}`" for policy in corun.policies()}


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def test_every_number_of_a_result_is_explained() -> None:
    trace = corun.load("traces/h200/examples/realtime-resnet50-beside-resnet152.json")
    explained = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("metrics.md", "formats.md"))
    keys = {key for policy in ("priority", "reef-n") for key in keys_of(trace.run(policy, duration="100ms", resources=True).summary)}
    assert len(keys) > 60
    for key in keys:
        assert re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`|^[^|\n]*\b{key}\b[^|\n]*$", explained, re.M), key
