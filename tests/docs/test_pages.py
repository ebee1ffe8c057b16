"""What the check of the pages lets pass, and what not."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest


@pytest.mark.parametrize(
    "shown, printed, same",
    [
        (["p99 1.5 ms"], ["p99 1.5 ms"], True),
        (["p99 1.5 ms"], ["p99 1.6 ms"], False),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a"], True),
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "b", "c"], False),
        (["policy mps:perc...  1.5"], ["policy mps:percentages=1  1.5"], True),
        (["took 0.5 s (3 M blocks)"], ["took  12.25 s (3 M blocks)"], True),
        (["took 0.5 s (3 M blocks)"], ["took 0.5 s (4 M blocks)"], False),
        (["", "a"], ["a"], False),
    ],
)
def test_a_page_shows_what_is_printed_but_for_what_it_leaves_out_and_times(
    shown: list[str], printed: list[str], same: bool
) -> None:
    assert pages.matches(shown, printed) is same


def test_a_command_goes_on_in_lines_that_begin_with_an_angle_bracket() -> None:
    first, second = pages.steps_of("$ echo \\\n> a\na\n$ ls\n", 10)
    assert first == pages.Step(10, "echo \\\na", ["a"]) and second == pages.Step(13, "ls", [])


@pytest.mark.parametrize(
    "page, faults",
    [
        ("```console\n$ sim trace.json\n```\n", 0),
        ("```bash\nsim trace.json\n```\n", 1),
        ("```\n$ sim trace.json\n```\n", 1),
        ("```{code-block} console\n$ sim calibrate\n```\n", 1),
        ("```{code-block} console\n:caption: On an H200, 2026-11-23; not run by the tests\n\n$ sim calibrate\n```\n", 0),
        ("```{code-block} console\n:caption: On an H200, some day; not run by the tests\n\n$ sim calibrate\n```\n", 1),
    ],
)
def test_a_command_is_run_or_says_that_it_is_not(page: str, faults: int) -> None:
    assert len(pages.faults_of(page)) == faults


def test_a_page_fails_where_its_command_fails_or_prints_something_else(tmp_path: Path) -> None:
    def faults(text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text)
        return pages.check(page, Path("/bin/true"))

    assert faults("```console\n$ sim\n$ echo a\na\n```\n") == []
    assert "exit code 3" in "".join(faults("```console\n$ exit 3\n```\n"))
    assert "-b\n+a" in "".join(faults("```console\n$ echo a\nb\n```\n"))
