#!/usr/bin/env python3
"""What the pages show is what the commands print.

Runs the `console` blocks of each page in order, in a folder where the repository's own are found, and compares what
follows each command. A block's commands share a shell. On a page

    $, >               begin a command, and its further lines
    ...                stands for any lines, or for any text within one
    1.23 s             is a time that the simulation took, and may be another
    needs: plotly      in a comment before the block: run only where that package is there
    needs: CORUN_WHEEL the same, where this variable of the environment names a file: it is found beside the page
    each is run        in a comment before an indented list: each line begins with a command, which is run (each is run; needs: plotly)
    is run             in a comment before a block of Python: it is run
    run by FILE        in a comment before an indented block: its scripts and goals of make stand in that file, which runs them

Blocks within comments are run and not shown. What needs a GPU is in a `{code-block} console`, whose caption says when it was run
and that the tests do not run it, or in an indented list below a line that says so.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ("CONTRIBUTING.md", "experiments", "python", "tests", "traces")
PAGES = ("README.md", "CONTRIBUTING.md", "hw/README.md", "python/README.md", "traces/FORMAT.md")  # and all of docs/
TIMEOUT_S = 120  # of a command

FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=ticks)[ ]*$", re.M | re.S)
INDENTED = re.compile(r"(?P<before>^[^\n]*\n)(?P<gap>\n*)(?P<body>(?:^ {4}[^\n]*\n)+)", re.M)
COMMAND = re.compile(r"^(\$ |(sim|ncu|nsys|python3?|pip|make|cmake|docker) |[A-Z_]+=\S+ |[\w./]+\.(sh|py)\b)", re.M)
NEEDS = re.compile(r"<!-- needs: (\w+) -->\n+\Z")
EACH = re.compile(r"<!-- each is run(?:; needs: (\w+))? -->")
RUN_BY = re.compile(r"<!-- run by (\S+) -->")
NOT_RUN = re.compile(r"\d{4}-\d{2}-\d{2}.*not run by the tests")
TOOK = re.compile(r"\b\d[\d.]* s\b")


class Step(NamedTuple):
    line: int
    command: str
    shown: list[str]


def steps_of(body: str, line: int) -> Iterator[Step]:
    """The commands of a block that begins at `line`, each with the lines shown below it."""
    lines = body.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            raise ValueError(f"line {line + at}: a console block begins with a command")
        begin, command = at, lines[at][2:]
        at += 1
        while at < len(lines) and lines[at].startswith("> "):
            command += "\n" + lines[at][2:]
            at += 1
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at])
            at += 1
        yield Step(line + begin, command, shown)


class Block(NamedTuple):
    line: int
    steps: list[Step]
    needs: Optional[str]


def listed(body: str, line: int) -> Iterator[Step]:
    """The commands of a list, each up to its description."""
    for at, text in enumerate(body.splitlines()):
        if not text.startswith("     "):
            yield Step(line + at, re.split(r"  +", text.strip())[0], [])


def blocks_of(page: str) -> tuple[list[Block], list[str]]:
    """What is run, in the order of the page, and the commands that stand where nothing runs them."""
    blocks, faults = [], []
    for fence in FENCE.finditer(page):
        line = page.count("\n", 0, fence.start()) + 1
        info = fence["info"].strip()
        if info == "console":
            needs = NEEDS.search(page, 0, fence.start())
            blocks.append(Block(line, list(steps_of(fence["body"], line + 1)), needs and needs[1]))
        elif info == "python" and page[: fence.start()].endswith("<!-- is run -->\n"):
            blocks.append(Block(line, [Step(line + 1, f"python3 - <<'END'\n{fence['body']}END", [])], None))
        elif info == "{code-block} console":
            if not re.search(r"^:caption: .*" + NOT_RUN.pattern, fence["body"], re.M):
                faults.append(f"line {line}: the caption does not say when it was run, and that the tests do not run it")
        elif re.search(r"^(\$ |sim )", fence["body"], re.M):
            faults.append(f"line {line}: a command outside of a console block")
    prose = FENCE.sub(lambda fence: re.sub(r"[^\n]", "-", fence[0]), page)
    for code in INDENTED.finditer(prose):
        before, line = code["before"].strip(), page.count("\n", 0, code.start("body")) + 1
        if not (code["gap"] or before.startswith(("#", "<!--"))) or not COMMAND.search(re.sub(r"^ {4}", "", code["body"], flags=re.M)):
            continue
        each, run_by = EACH.fullmatch(before), RUN_BY.fullmatch(before)
        if each:
            blocks.append(Block(line, list(listed(code["body"], line)), each[1]))
        elif run_by:
            text = (ROOT / run_by[1]).read_text(encoding="utf-8")
            for step in listed(code["body"], line):
                program = step.command.split()[0]
                if (step.command if program == "make" else program if (ROOT / program).is_file() else "") not in text:
                    faults.append(f"line {step.line}: {run_by[1]} does not run {step.command}")
        elif not NOT_RUN.search(before):
            faults.append(f"line {line}: a command outside of a console block")
    return sorted(blocks), faults


def comparable(line: str) -> str:
    return re.sub(r"  +", " ", TOOK.sub("1 s", line)).rstrip()


def matches(shown: list[str], printed: list[str]) -> bool:
    pattern = ""
    for line in shown:
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*?".join(re.escape(part) for part in comparable(line).split("...")) + "\n"
    return re.fullmatch(pattern, "".join(comparable(line) + "\n" for line in printed)) is not None


def search_path(folder: Path, sim: Path) -> str:
    """With `sim`, and this Python as `python3`, however it was started."""
    programs = folder / ".bin"
    programs.mkdir()
    for name, program in (("sim", str(sim)), ("python3", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n')
        (programs / name).chmod(0o755)
    return f"{programs}{os.pathsep}{os.environ['PATH']}"


def run(steps: list[Step], folder: Path, environment: dict[str, str]) -> Iterator[tuple[Step, list[str], int]]:
    """Each command with what it printed and its exit code; all in one shell, so that what one sets holds for the next."""
    script = "".join(f"{{\n{step.command}\n}}\nprintf '\\1%d\\1' $?\n" for step in steps)
    ran = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=TIMEOUT_S * len(steps))
    parts = ran.stdout.decode(errors="replace").split("\1")
    for i, step in enumerate(steps):
        ended = 2 * i + 1 < len(parts)
        yield step, parts[2 * i].splitlines(), int(parts[2 * i + 1]) if ended else ran.returncode
        if not ended:
            return  # the command ended the shell


def have(needed: str, folder: Path) -> bool:
    if not needed.isupper():
        return importlib.util.find_spec(needed) is not None
    file = os.environ.get(needed)
    if file is not None:
        (folder / Path(file).name).symlink_to(Path(file).resolve())
    return file is not None


def check(page: Path, sim: Path) -> list[str]:
    """What is wrong with a page; prints what it runs."""
    blocks, faults = blocks_of(page.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for known in KNOWN:
            (folder / known).symlink_to(ROOT / known)
        environment = {**os.environ, "PATH": search_path(folder, sim), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        for block in blocks:
            if block.needs and not have(block.needs, folder):
                print(f"{page.name}: without {block.needs}, not run: {block.steps[0].command}")
                continue
            began = time.monotonic()
            for step, printed, code in run(block.steps, folder, environment):
                print(f"{page.name}:{step.line}: {step.command}", flush=True)
                if code != 0:
                    faults.append(f"line {step.line}: exit code {code}\n" + "\n".join(printed))
                elif step.shown and not matches(step.shown, printed):
                    difference = difflib.unified_diff(step.shown, printed, "shown", "printed", lineterm="", n=1)
                    faults.append(f"line {step.line}: {step.command}\n" + "\n".join(difference))
            print(f"    {time.monotonic() - began:.1f} s")
    return [f"{os.path.relpath(page, ROOT)}: {fault}" for fault in faults]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sim", type=Path, help="the command under test")
    parser.add_argument("pages", type=Path, nargs="*", help="default: those of the site, but for the experiments'")
    arguments = parser.parse_args()
    pages = arguments.pages or [*(ROOT / page for page in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
    faults = [fault for page in pages for fault in check(page.resolve(), arguments.sim.resolve())]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
