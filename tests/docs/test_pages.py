"""What the check of the pages lets pass, and what not."""

from __future__ import annotations

import re
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
        ("Do:\n\n    sim trace.json\n", 1),
        ("# Head\n    python3 -m corun\n", 1),
        ("Do:\n\n    $ anything\n", 1),
        ("- a point\n    sim goes on\n", 0),
        ("The file:\n\n    {\"sim\": 1}\n", 0),
        ("<!-- each is run -->\n    sim trace.json   one run\n", 0),
        ("On an H200, 2026-11-23; not run by the tests:\n\n    sim calibrate\n", 0),
        ("On an H200, some day; not run by the tests:\n\n    sim calibrate\n", 1),
        ("<!-- run by tests/fresh_machine.sh -->\n    make demo   # all\n", 0),
        ("<!-- run by tests/fresh_machine.sh -->\n    make dome   # all\n", 1),
        ("<!-- run by tests/fresh_machine.sh -->\n    docs/build.sh\n", 1),
    ],
)
def test_a_command_is_run_or_says_that_it_is_not(page: str, faults: int) -> None:
    assert len(pages.blocks_of(page)[1]) == faults


def test_a_page_fails_where_its_command_fails_or_prints_something_else(tmp_path: Path) -> None:
    def faults(text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text)
        return pages.check(page, Path("/bin/true"))

    assert faults("```console\n$ sim\n$ echo a\na\n```\n") == []
    assert "exit code 3" in "".join(faults("```console\n$ exit 3\n```\n"))
    assert "-b\n+a" in "".join(faults("```console\n$ echo a\nb\n```\n"))


def test_each_line_of_a_list_is_run_up_to_its_description(tmp_path: Path) -> None:
    page = "<!-- each is run -->\n    true      says nothing;\n              goes on\n    echo a b  says a b\n    exit 3\n"
    blocks, faults = pages.blocks_of("sim\n\n" + page.replace("    true", "    sim", 1))
    assert not faults and [step.command for step in blocks[0].steps] == ["sim", "echo a b", "exit 3"]
    (tmp_path / "page.md").write_text(page.replace("    true", "    sim x", 1))
    assert "line 5: exit code 3" in "".join(pages.check(tmp_path / "page.md", Path("/bin/true")))
    (tmp_path / "page.md").write_text(page.replace("    true", "    sim x", 1))
    assert "line 2: exit code 1" in "".join(pages.check(tmp_path / "page.md", Path("/bin/false")))


def test_the_commands_of_a_block_share_a_shell_and_blocks_a_folder(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ a=1; touch file\n$ echo $a\n1\n```\n<!--\n```console\n$ echo [$a]; ls file\n[]\nfile\n```\n-->\n")
    assert pages.check(page, Path("/bin/true")) == []


def test_a_block_that_needs_a_file_finds_it_or_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: CORUN_WHEEL -->\n```console\n$ cat *.whl\nwheel\n```\n")
    monkeypatch.delenv("CORUN_WHEEL", raising=False)
    assert pages.check(page, Path("/bin/true")) == []
    for content, faults in (("wheel\n", 0), ("other\n", 1)):
        (tmp_path / "a.whl").write_text(content)
        monkeypatch.setenv("CORUN_WHEEL", str(tmp_path / "a.whl"))
        assert len(pages.check(page, Path("/bin/true"))) == faults


def test_python_is_run_where_the_page_says_so(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for before, body, faults in (("<!-- is run -->\n", "1 / 0", 1), ("<!-- is run -->\n", "print(1)", 0), ("", "1 / 0", 0)):
        page.write_text(f"{before}```python\n{body}\n```\n")
        assert len(pages.check(page, Path("/bin/true"))) == faults


def test_factors_in_the_readmes_first_reading_are_printed_above_it() -> None:
    page = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    shown = [line for step in pages.blocks_of(page)[0][0].steps for line in step.shown]
    reading = page[page.index("Read it as:") :].split("\n\n")[0]
    factors = re.findall(r"\d+\.\d+(?= times)", reading)
    assert len(factors) == 3
    assert not [f for f in factors if not any(f"×{f}" in line for line in shown)]
