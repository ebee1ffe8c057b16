"""The package `corun`: what a run gives, what is refused, what Python policies can do."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List, Sequence

import numpy as np
import pytest

import corun

ROOT = Path(__file__).parents[2]
SIM = os.environ["CORUN_SIM"]
SIX = ROOT / "traces/h200/examples/six-clients.json"
sys.path.insert(0, str(ROOT / "python/examples"))

from equal_shares import EqualShares  # noqa: E402
from fcfs import Fcfs  # noqa: E402
from shortest_first import ShortestFirst  # noqa: E402


def document(**changes: Any) -> dict[str, Any]:
    """Two clients with a kernel each, on the H200."""
    kernel = {"grid": [400, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "solo_time_ns": 30000}
    trace: dict[str, Any] = {
        "corun_trace": 1,
        "name": "two",
        "gpu": "h200",
        "kernels": [{"name": "a", **kernel}, {"name": "b", **kernel}],
        "programs": [
            {"name": "p", "ops": [{"launch": "a"}, {"launch": "b"}]},
            {"name": "q", "ops": [{"launch": "b"}]},
        ],
        "clients": [
            {"name": "one", "program": "p", "arrivals": {"type": "closed_loop"}},
            {"name": "two", "program": "q", "arrivals": {"type": "periodic", "period_ns": 70000}},
        ],
        "run": {"duration_ns": 1000000},
    }
    trace.update(changes)
    return trace


@pytest.fixture
def two(tmp_path: Path) -> corun.Trace:
    path = tmp_path / "two.json"
    path.write_text(json.dumps(document()))
    return corun.load(path)


def test_counters_join_a_profiler_trace(tmp_path: Path) -> None:
    recording, counters = tmp_path / "profile.json", tmp_path / "ncu.csv"
    recording.write_text('[{"name": "k", "ts": 1, "dur": 5, "grid": [8, 1, 1], "block": [128, 1, 1]}]')
    counters.write_text(
        '"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
        '"0","k","(128, 1, 1)","(8, 1, 1)","lts__t_bytes.sum","Mbyte","1.5"\n'
    )
    notes = corun.load(recording, gpu="h200", counters=counters).notes
    assert any("Counters of 1 of 1 launch" in note for note in notes)
    with pytest.raises(corun.InputError, match="no PyTorch profiler trace"):
        corun.load(SIX, counters=counters)


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SIM, *map(str, arguments)], capture_output=True, text=True)


# ---- results -----------------------------------------------------------------------------------------------


def test_summary_is_what_the_command_prints() -> None:
    summary = corun.load(SIX).run("greedy", duration="2ms", seed=3).summary
    assert summary == json.loads(
        command("--json", "--policy=greedy", "--duration=2ms", "--seed=3", SIX).stdout
    )


@pytest.mark.parametrize("policy", ["fcfs", Fcfs()], ids=["c++", "python"])
def test_fcfs_in_either_language_writes_the_bytes_of_the_command(policy: Any, tmp_path: Path) -> None:
    assert command("--policy=fcfs", "--duration=2ms", "--out", tmp_path / "command", SIX).returncode == 0
    corun.load(SIX).run(policy, duration="2ms", counters=True).write(tmp_path / "module")
    files = ["summary.json", "requests.csv", "kernels.csv", "timeline.pftrace"]
    assert sorted(p.name for p in (tmp_path / "module").iterdir()) == sorted(files)
    for name in files:
        assert (tmp_path / "module" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name


def test_the_python_fcfs_has_at_most_30_lines() -> None:
    assert len((ROOT / "python/examples/fcfs.py").read_text().splitlines()) <= 30


def test_arrays_hold_the_rows_of_the_csv_files(tmp_path: Path) -> None:
    result = corun.load(SIX).run("priority", duration="2ms")
    result.write(tmp_path)
    for array, name in [(result.requests, "requests.csv"), (result.kernels, "kernels.csv")]:
        with (tmp_path / name).open(newline="") as file:
            lines = list(csv.reader(file))
        assert list(array.dtype.names or ()) == lines[0]
        assert len(array) == len(lines) - 1 > 0
        for row, line in zip(array, lines[1:]):
            for field, text in zip(lines[0], line):
                if field == "client":
                    assert result.client_names[row[field]] == text
                elif field == "kernel":
                    assert result.kernel_names[row[field]] == text
                elif text == "":
                    assert np.isnan(row[field])
                else:
                    assert row[field] == float(text)


def test_blocks_are_kept_on_request_and_lie_within_their_kernel(two: corun.Trace) -> None:
    result = two.run(timeline="cta")
    ends = {k["launch"]: k for k in result.kernels}
    blocks = result.blocks
    assert len(blocks) == result.summary["blocks"]
    finished = blocks[np.isin(blocks["launch"], [k for k in ends if not np.isnan(ends[k]["finished_ns"])])]
    assert all(ends[b["launch"]]["started_ns"] <= b["start_ns"] < b["end_ns"] for b in finished)
    assert all(b["end_ns"] <= ends[b["launch"]]["finished_ns"] for b in finished)
    with pytest.raises(corun.InputError, match="timeline='cta'"):
        two.run().blocks


def test_the_timeline_is_a_file_that_says_what_ran(two: corun.Trace, tmp_path: Path) -> None:
    two.run().perfetto(tmp_path / "t.pftrace")
    assert b"resident_blocks" not in (tmp_path / "t.pftrace").read_bytes()
    assert b"one" in (tmp_path / "t.pftrace").read_bytes()
    with pytest.raises(corun.InputError, match="kept no timeline"):
        two.run(timeline=None).perfetto(tmp_path / "none.pftrace")
    with pytest.raises(corun.InputError, match="cannot be written"):
        two.run().perfetto(tmp_path / "missing" / "t.pftrace")


def test_options_take_the_place_of_what_the_trace_says(two: corun.Trace) -> None:
    summary = two.run(seed=7, duration="500us", gpu="a100", issue="graph").summary
    assert (summary["seed"], summary["duration_ns"], summary["gpu"]) == (7, 500000, "a100")
    assert two.run().summary["gpu"] == "h200"


def test_compare_gives_a_summary_per_policy(two: corun.Trace) -> None:
    summaries = corun.compare(two, ["fcfs", "timeslice", ShortestFirst()], duration="500us")
    assert [s["policy"] for s in summaries] == ["fcfs", "timeslice", "shortest-first"]
    assert all(s["duration_ns"] == 500000 for s in summaries)


def test_policies_are_those_of_the_command() -> None:
    help_text = command("--policy=help").stdout
    assert [p.name for p in corun.policies()] == [
        line.split()[0] for line in help_text.splitlines() if line and not line.startswith(" ")
    ]
    assert {p.name for p in corun.policies()} >= {"fcfs", "greedy", "priority", "timeslice", "tpc-mask"}
    assert all(p.summary and p.source for p in corun.policies())
    assert {p.name for p in corun.policies() if p.unverified} == {"mig", "mps-static", "token-bucket"}
    assert [p.name for p in corun.policies() if "gpucores" in p.also_called] == ["token-bucket"]


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "python/README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(text, {"__name__": "readme"})
    assert (tmp_path / "timeline.pftrace").stat().st_size > 0


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, act",
    [
        (["--policy=greedi", SIX], lambda: corun.load(SIX).run("greedi")),
        (["--policy=tpc-mask:split=odd", SIX], lambda: corun.load(SIX).run("tpc-mask:split=odd")),
        (["--duration=5", SIX], lambda: corun.load(SIX).run(duration="5")),
        (["--gpu=h201", SIX], lambda: corun.load(SIX).run(gpu="h201")),
        (["missing.json"], lambda: corun.load("missing.json")),
        (["CONTRIBUTING.md"], lambda: corun.load("CONTRIBUTING.md")),
    ],
)
def test_bad_input_raises_the_text_of_the_command(arguments: List[object], act: Callable[[], object]) -> None:
    run = command(*arguments)
    assert run.returncode == 2
    with pytest.raises(corun.InputError) as error:
        act()
    assert f"sim: {error.value}\n" == run.stderr
    assert error.value.problem and error.value.remedy
    assert isinstance(error.value, ValueError)


def test_a_broken_trace_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document(run={"duration_ns": -1})))
    with pytest.raises(corun.InputError) as error:
        corun.load(path)
    assert (error.value.file, error.value.place) == (str(path), "/run/duration_ns")


def test_a_trace_without_a_gpu_can_be_given_one(tmp_path: Path) -> None:
    trace = document()
    del trace["gpu"]
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(trace))
    with pytest.raises(corun.InputError, match="names no GPU"):
        corun.load(path).run()
    assert corun.load(path).run(gpu="v100").summary["gpu"] == "v100"


# ---- policies in Python ------------------------------------------------------------------------------------


class Scripted(corun.Policy):
    """First come, first served, with something else done on the way."""

    name = "scripted"
    requirements = corun.Requirements({corun.Capability.order})

    def __init__(self, act: Callable[[corun.Snapshot], Any]) -> None:
        self.act = act

    def decide(self, snapshot: corun.Snapshot) -> Any:
        return self.act(snapshot)


def launch_all(snapshot: corun.Snapshot) -> List[corun.Decision]:
    return [corun.Launch(launch) for launch in snapshot.pending]


@pytest.mark.parametrize("policy", [Fcfs, ShortestFirst, EqualShares])
def test_one_object_run_twice_gives_the_same(two: corun.Trace, policy: Callable[[], corun.Policy]) -> None:
    one = policy()
    first, second = two.run(one, audit=True), two.run(one, audit=True)
    assert first.summary == second.summary
    for field in first.kernels.dtype.names or ():
        np.testing.assert_array_equal(first.kernels[field], second.kernels[field])


def test_equal_shares_resizes_what_runs_when_another_arrives(tmp_path: Path) -> None:
    kernel = {"grid": [50000, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "solo_time_ns": 900000}
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(
            document(
                kernels=[{"name": "a", **kernel}],
                programs=[{"name": "p", "ops": [{"launch": "a"}]}],
                clients=[
                    {"name": "first", "program": "p", "arrivals": {"type": "once", "at_ns": 0}},
                    {"name": "second", "program": "p", "arrivals": {"type": "once", "at_ns": 100000}},
                ],
                run={},
            )
        )
    )
    seen: List[tuple[int, ...]] = []

    class Watched(EqualShares):
        def decide(self, snapshot: corun.Snapshot) -> List[corun.Decision]:
            seen.append(tuple(launch.ctas for launch in snapshot.running))
            return super().decide(snapshot)

    corun.load(path).run(Watched(), audit=True)
    places = 132 * 8
    assert (places,) in seen and (places // 2, places // 2) in seen


def test_an_exception_of_a_policy_ends_the_run_and_is_raised(two: corun.Trace) -> None:
    def fail(snapshot: corun.Snapshot) -> Any:
        raise ZeroDivisionError("at the third")

    with pytest.raises(ZeroDivisionError, match="at the third"):
        two.run(Scripted(fail))


@pytest.mark.parametrize(
    "nonsense, told", [(None, "instead of a list"), ([3], "no decision"), (["x"], "'x'")]
)
def test_what_is_no_decision_is_a_type_error(two: corun.Trace, nonsense: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        two.run(Scripted(lambda snapshot: nonsense))


def test_a_policy_that_launches_nothing_is_an_input_error_that_says_who_waits(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    once = [{"name": "one", "program": "q", "arrivals": {"type": "once", "at_ns": 0}}]
    path.write_text(json.dumps(document(clients=once, run={})))
    with pytest.raises(corun.InputError, match="client one waits for the policy to launch b"):
        corun.load(path).run(Scripted(lambda snapshot: []))


def test_a_class_or_something_else_is_no_policy(two: corun.Trace) -> None:
    with pytest.raises(TypeError, match=r"write policy=Fcfs\(\)"):
        two.run(Fcfs)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no 'name'"):
        two.run(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        corun.Policy()  # type: ignore[abstract]


def test_a_capability_that_the_backend_lacks_is_refused_at_the_start(two: corun.Trace) -> None:
    policy = Scripted(launch_all)
    missing: set[corun.Capability] = set()

    class Look(Scripted):
        def start(self, topology: corun.Topology, clients: Sequence[corun.ClientView]) -> None:
            missing.update(set(corun.Capability) - topology.capabilities)

    two.run(Look(launch_all))
    for capability in missing:
        policy.requirements = corun.Requirements({capability})
        with pytest.raises(corun.InputError, match=capability.name):
            two.run(policy)


def test_a_snapshot_can_be_read_during_decide_only_and_its_views_for_ever(two: corun.Trace) -> None:
    kept: List[Any] = []

    def keep(snapshot: corun.Snapshot) -> List[corun.Decision]:
        if snapshot.pending:
            kept.append((snapshot, snapshot.pending[0], snapshot.clients[0]))
        return launch_all(snapshot)

    two.run(Scripted(keep))
    snapshot, launch, client = kept[0]
    with pytest.raises(RuntimeError, match="only be read during"):
        snapshot.now_ps
    with pytest.raises(RuntimeError, match="only be read during"):
        snapshot.launch(launch.id)
    del two
    assert (launch.kernel.name, launch.kernel.grid, client.client.name) == ("a", (400, 1, 1), "one")
    assert launch.state is corun.LaunchState.pending


def test_a_launch_that_has_ended_is_a_key_error(two: corun.Trace) -> None:
    first: List[corun.LaunchId] = []
    outcome: List[str] = []

    def look(snapshot: corun.Snapshot) -> List[corun.Decision]:
        if snapshot.pending and not first:
            first.append(snapshot.pending[0].id)
        try:
            outcome.append(snapshot.launch(first[0]).state.name if first else "none")
        except KeyError:
            outcome.append("ended")
        return launch_all(snapshot)

    two.run(Scripted(look))
    assert outcome[-1] == "ended" and {"pending", "submitted"} <= set(outcome)


def test_ctas_per_sm_add_up_to_ctas() -> None:
    launch = corun.LaunchId(0, 0)
    assert corun.Launch(launch, ctas_per_sm=[2, 0, 1]).ctas == 3
    assert corun.Resize(launch, ctas_per_sm=[1, 1]) == corun.Resize(launch, 2, ctas_per_sm=[1, 1])
    with pytest.raises(ValueError, match="adds up to 3"):
        corun.Launch(launch, ctas=4, ctas_per_sm=[2, 0, 1])


@pytest.mark.parametrize("tpc, fits", [(-1, False), (0, True), (383, True), (384, False)])
def test_a_mask_holds_tpcs_0_to_383(tpc: int, fits: bool) -> None:
    launch = corun.LaunchId(0, 0)
    if fits:
        assert corun.Launch(launch, tpc_mask=[tpc]).tpc_mask == {tpc}
    else:
        with pytest.raises(ValueError, match="0 to 383"):
            corun.Launch(launch, tpc_mask=[tpc])


def test_a_mask_of_anything_but_integers_is_a_type_error() -> None:
    launch = corun.LaunchId(0, 0)
    for wrong in (["0"], [0.5], [2**70], "01", 3):
        with pytest.raises(TypeError, match="tpc_mask"):
            corun.Launch(launch, tpc_mask=wrong)  # type: ignore[arg-type]
    assert corun.Launch(launch, tpc_mask=np.arange(2)).tpc_mask == {0, 1}  # type: ignore[arg-type]


# ---- threads -----------------------------------------------------------------------------------------------


def test_other_threads_run_while_a_simulation_does() -> None:
    trace = corun.load(SIX)
    seen: List[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.001):
            seen.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    trace.run(duration="10ms", timeline=None)
    end = time.monotonic()
    stop.set()
    thread.join()
    # With the GIL held throughout there would be no tick within.
    assert sum(begin + 0.1 * (end - begin) < t < end - 0.1 * (end - begin) for t in seen) >= 3


def test_runs_in_threads_give_what_runs_in_turn_give() -> None:
    trace = corun.load(SIX)
    expected = trace.run(Fcfs(), duration="1ms").summary
    got: List[dict[str, Any]] = []
    threads = [
        threading.Thread(target=lambda p=p: got.append(trace.run(p, duration="1ms").summary))  # type: ignore[misc]
        for p in ("fcfs", Fcfs(), "fcfs", Fcfs())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected] * 4


def test_ctrl_c_ends_a_run() -> None:
    code = (
        "import corun, sys, threading, _thread\n"
        "threading.Timer(1.0, _thread.interrupt_main).start()\n"
        f"corun.load({str(SIX)!r}).run(duration='100s', timeline=None)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode != 0 and "KeyboardInterrupt" in run.stderr
