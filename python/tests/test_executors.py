"""A thousand points are the same bytes whatever runs them, use both cores, and lose nothing when they are killed half-way."""

from __future__ import annotations

import concurrent.futures
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import corun

sys.path.insert(0, "experiments/sweep")
import executors  # noqa: E402

HOW: Dict[str, List[str]] = {
    "two": [sys.executable],
    "dask": [sys.executable],
    "ray": [sys.executable],
    "mpi": [str(Path(sys.executable).with_name("mpiexec")), "-n", "3", sys.executable, "-m", "mpi4py.futures"],
}
NEEDS = {"dask": "distributed", "ray": "ray", "mpi": "mpi4py"}
POINTS = 1000


def started(kind: str, *options: str, home: Path) -> List[str]:
    os.environ.update(HOME=str(home), RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    return [*HOW.get(kind, [sys.executable]), "experiments/sweep/executors.py", kind, *options]


def command(out: Path) -> List[str]:
    """The same grid for `sim sweep`."""
    changes = [f"{name}={','.join(map(str, values))}" for name, values in executors.GRID["set"].items()]
    seeds = executors.GRID["seeds"]
    return [os.environ["CORUN_SIM"], "sweep", "--trace", executors.TRACE, "--policies", ",".join(executors.POLICIES),
            "--set", *changes, "--seeds", f"{seeds[0]}..{seeds[-1]}", "--duration", executors.GRID["duration"],
            "--jobs", "2", "-o", str(out)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("serial")
    subprocess.run(started("serial", "--lines", str(folder / "lines"), home=folder), check=True)
    lines = (folder / "lines").read_bytes()
    assert lines.count(b"\n") == POINTS
    return lines


@pytest.mark.parametrize("kind", sorted(HOW))
def test_the_lines_do_not_depend_on_the_executor(kind: str, expected: bytes, tmp_path: Path) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    out = tmp_path / "lines"
    told = told_on_a_terminal(started(kind, "--lines", str(out), home=tmp_path))
    assert out.read_bytes() == expected
    if kind == "two":  # others write to the terminal too
        assert re.search(rf"\d+ of {POINTS} points, \d+ s left", told)


def told_on_a_terminal(run: List[str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(run, stderr=theirs)
    os.close(theirs)
    told = b""
    try:
        while part := os.read(ours, 4096):
            told += part
    except OSError:  # the terminal has no other end any more
        pass
    os.close(ours)
    assert process.wait() == 0
    return told.decode()


def test_the_command_writes_the_same_lines_and_says_how_much_time_is_left(expected: bytes, tmp_path: Path) -> None:
    out = tmp_path / "lines"
    told = told_on_a_terminal(command(out))
    assert out.read_bytes() == expected
    assert re.search(rf" %, \d+ (s|min \d+ s) left  \d+ of {POINTS} points", told)


@pytest.fixture
def two_cores() -> Iterator[List[int]]:
    """What is started keeps to two cores, however many the machine has."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one core only")
    two = sorted(before)[:2]
    os.sched_setaffinity(0, two)
    yield two
    os.sched_setaffinity(0, before)


def idle_seconds(cores: List[int]) -> float:
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in {f"cpu{core}" for core in cores}:
            ticks += int(fields[3]) + int(fields[4])  # idle, and idle while a disk is waited for
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("what", ["two", "command", "serial"])
def test_of_the_time_that_two_cores_have_for_it_a_sweep_uses_over_nine_tenths(
    what: str, two_cores: List[int], tmp_path: Path
) -> None:
    """Time that other programs take is nobody's fault, so that on a busy machine one core may do; serial shows that it counts."""
    run = command(tmp_path / "lines") if what == "command" else started(what, home=tmp_path)
    idle, before = idle_seconds(two_cores), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(run, check=True)
    after, idle = resource.getrusage(resource.RUSAGE_CHILDREN), idle_seconds(two_cores) - idle
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what}: {own:.1f} s of processors, two cores idle for {idle:.1f} s together: {own / (own + idle):.1%}")
    if what != "serial":
        assert own / (own + idle) > 0.9
    elif idle > own / 2:  # nobody else was there
        assert own / (own + idle) < 0.9


def killed_half_way(run: List[str], file: Path) -> List[bytes]:
    """The whole lines of `file` when it has half of the points."""
    process = subprocess.Popen(run, start_new_session=True)
    try:
        while process.poll() is None and (not file.exists() or file.read_bytes().count(b"\n") < POINTS // 2):
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = file.read_bytes().split(b"\n")[:-1]
    assert POINTS // 2 <= len(lines) < POINTS
    return lines


def test_a_killed_sweep_of_the_command_runs_what_is_missing_and_no_more(expected: bytes, tmp_path: Path) -> None:
    out = tmp_path / "lines"
    done = killed_half_way(command(out), out)
    told = subprocess.run(command(out), check=True, capture_output=True, text=True).stderr
    assert f"{POINTS} points, {POINTS - len(done)} of them run" in told
    assert out.read_bytes() == expected


def test_a_killed_sweep_of_the_module_runs_what_is_missing_and_no_more(expected: bytes, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    store = tmp_path / "store"
    done = killed_half_way(started("two", "--store", str(store), home=tmp_path), store / "journal.jsonl")
    (store / "journal.jsonl").open("ab").write(b'{"hash": "cut sh')
    ran: List[Any] = []

    class Counting(concurrent.futures.ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *arguments: Any, **names: Any) -> "concurrent.futures.Future[Any]":
            ran.extend(arguments[0])
            return super().submit(fn, *arguments, **names)

    with Counting(2) as threads:
        again = corun.sweep(executors.TRACE, executors.POLICIES, store=store, executor=threads, **executors.GRID)
    assert len(ran) == POINTS - len(done)
    assert "".join(line + "\n" for line in again.lines).encode() == expected
    assert [path.name for path in store.iterdir()] == ["sweep.parquet"]
    shutil.copytree(store, tmp_path / "copy")
    once_more = corun.sweep(executors.TRACE, executors.POLICIES, store=store, workers=1, **executors.GRID)
    assert once_more.lines == again.lines
    assert (store / "sweep.parquet").read_bytes() == (tmp_path / "copy" / "sweep.parquet").read_bytes()
