#!/usr/bin/env python3
"""What the pages show is what the commands print.

Runs the `console` blocks of each page in order, in a folder where the repository's own are found, and compares what
follows each command. On a page

    $, >           begin a command, and its further lines
    ...            stands for any lines, or for any text within one
    1.23 s         is a time that the simulation took, and may be another
    needs: plotly  in a comment before the block: run only where that package is there

What needs a GPU is in a `{code-block} console`, whose caption says when it was run and that the tests do not run it.
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
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
KNOWN = ("CONTRIBUTING.md", "experiments", "python", "traces")
TIMEOUT_S = 120

FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=ticks)[ ]*$", re.M | re.S)
NEEDS = re.compile(r"<!-- needs: (\w+) -->\n+\Z")
NOT_RUN = re.compile(r"^:caption: .*\d{4}-\d{2}-\d{2}.*not run by the tests", re.M)
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


def faults_of(page: str) -> list[str]:
    """Commands that stand where nothing runs them."""
    faults = []
    for fence in FENCE.finditer(page):
        line = page.count("\n", 0, fence.start()) + 1
        info = fence["info"].strip()
        if info == "{code-block} console":
            if not NOT_RUN.search(fence["body"]):
                faults.append(f"line {line}: the caption does not say when it was run, and that the tests do not run it")
        elif info != "console" and re.search(r"^(\$ |sim )", fence["body"], re.M):
            faults.append(f"line {line}: a command outside of a console block")
    return faults


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


def check(page: Path, sim: Path) -> list[str]:
    """What is wrong with a page; prints what it runs."""
    text = page.read_text(encoding="utf-8")
    faults = faults_of(text)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for known in KNOWN:
            (folder / known).symlink_to(ROOT / known)
        environment = {**os.environ, "PATH": search_path(folder, sim), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        for fence in FENCE.finditer(text):
            if fence["info"].strip() != "console":
                continue
            needs = NEEDS.search(text, 0, fence.start())
            if needs and importlib.util.find_spec(needs[1]) is None:
                print(f"{page.name}: without {needs[1]}, not run: {fence['body'].splitlines()[0]}")
                continue
            for step in steps_of(fence["body"], text.count("\n", 0, fence.start()) + 2):
                print(f"{page.name}:{step.line}: {step.command}", flush=True)
                ran = subprocess.run(
                    ["bash", "-c", step.command],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    timeout=TIMEOUT_S,
                )
                printed = ran.stdout.decode(errors="replace").splitlines()
                if ran.returncode != 0:
                    faults.append(f"line {step.line}: exit code {ran.returncode}\n" + "\n".join(printed))
                elif step.shown and not matches(step.shown, printed):
                    difference = difflib.unified_diff(step.shown, printed, "shown", "printed", lineterm="", n=1)
                    faults.append(f"line {step.line}: {step.command}\n" + "\n".join(difference))
    return [f"{os.path.relpath(page, ROOT)}: {fault}" for fault in faults]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sim", type=Path, help="the command under test")
    parser.add_argument("pages", type=Path, nargs="*", help="default: README.md and docs/**/*.md")
    arguments = parser.parse_args()
    pages = arguments.pages or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    faults = [fault for page in pages for fault in check(page.resolve(), arguments.sim.resolve())]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
