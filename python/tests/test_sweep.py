"""Are sweeps the same whatever runs them, and is a changed trace another one?"""

import concurrent.futures
import json
import os
import subprocess
from pathlib import Path

import pytest

import corun

KERNEL = {"name": "k", "grid": [264, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "solo_time_ns": 50000}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "two.json"
    path.write_text(json.dumps({
        "corun_trace": 1, "name": "two", "gpu": "h200", "kernels": [KERNEL],
        "programs": [{"name": "p", "ops": [{"launch": "k"}]}],
        "clients": [
            {"name": "cam", "program": "p", "class": "real_time", "arrivals": {"type": "poisson", "rate_per_s": 2000}},
            {"name": "llm", "program": "p"},
        ],
        "run": {"duration_ns": 5000000},
    }))
    return str(path)


GRID = dict(set={"cam.rate": [1000, 3000]}, seeds=range(1, 5), duration="4ms")
POLICIES = ["fcfs", "timeslice"]


class Here(concurrent.futures.Executor):
    """Runs at once, in the order of a stack: the last submitted ends first."""

    def submit(self, fn, *args):  # type: ignore[override]
        future = concurrent.futures.Future()
        future.set_result(fn(*args))
        return future


def test_lines_are_those_of_the_command_whatever_the_executor(file, tmp_path):
    out = tmp_path / "command.jsonl"
    subprocess.run([os.environ["CORUN_SIM"], "sweep", "--trace", file, "--policies", ",".join(POLICIES), "--set",
                    "cam.rate=1000,3000", "--seeds", "1..4", "--duration", "4ms", "-o", str(out)], check=True,
                   stderr=subprocess.DEVNULL)
    expected = out.read_text().splitlines()
    assert len(expected) == 16
    assert corun.sweep(file, POLICIES, executor=Here(), **GRID).lines == expected
    assert corun.sweep(file, POLICIES, workers=2, **GRID).lines == expected
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        assert corun.sweep(file, POLICIES, executor=threads, **GRID).lines == expected


def test_rows_are_a_table_of_clients(file):
    result = corun.sweep(file, ["fcfs", "mig:profile=9g"], executor=Here())
    assert len(result) == 2 and len(result.errors) == 1
    flat = result.flat()
    assert [row["client"] for row in flat] == ["cam", "llm", None]
    assert flat[0]["p99_ms"] > 0 and "9g" in flat[2]["error"]


def test_a_store_keeps_what_was_done_before_an_interruption(file, tmp_path):
    pytest.importorskip("pyarrow")

    class Broken(Here):
        left = 3

        def submit(self, fn, *args):
            Broken.left -= 1
            future = concurrent.futures.Future()
            if Broken.left < 0:
                future.set_exception(KeyboardInterrupt())
            else:
                future.set_result(fn(*args))
            return future

    store = tmp_path / "store"
    with pytest.raises(KeyboardInterrupt):
        corun.sweep(file, POLICIES, executor=Broken(), store=store, **GRID)
    assert (store / "journal.jsonl").read_bytes().count(b"\n") > 0
    ran = []

    class Counting(Here):
        def submit(self, fn, *args):
            ran.extend(args[0])
            return super().submit(fn, *args)

    resumed = corun.sweep(file, POLICIES, executor=Counting(), store=store, **GRID)
    assert 0 < len(ran) < 16
    assert [path.name for path in store.iterdir()] == ["sweep.parquet"]
    whole = tmp_path / "whole"
    assert corun.sweep(file, POLICIES, executor=Here(), store=whole, **GRID).lines == resumed.lines
    assert (whole / "sweep.parquet").read_bytes() == (store / "sweep.parquet").read_bytes()


def test_dask_gives_the_same_lines(file):
    distributed = pytest.importorskip("dask.distributed")
    expected = corun.sweep(file, POLICIES, executor=Here(), **GRID).lines
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
        assert corun.sweep(file, POLICIES, executor=client.get_executor(), **GRID).lines == expected


def test_a_grid_that_cannot_be_is_refused_at_once(file):
    for wrong in (dict(policies=["fcsf"]), dict(policies=[]), dict(policies="fcfs", set={"rate": [1]})):
        with pytest.raises(corun.InputError):
            corun.sweep(file, executor=Here(), **wrong)


def test_a_line_that_no_sweep_wrote_is_an_input_error(file):
    (point,) = corun.sweep_points([str(file)], [], [], [], "5ms", ["fcfs"])
    for wrong in ("", "{", "[]", '{"hash": 1, "result": {}}', '{"hash": "a"}'):
        with pytest.raises(corun.InputError, match="line of a sweep"):
            corun.line_again(point, wrong)


def test_a_trace_saved_elsewhere_finds_the_gpu_description_beside_the_first(file, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    (here / "mine.json").write_text(Path("traces/gpus/h200.json").read_text())
    trace = json.loads(Path(file).read_text())
    trace["gpu"] = "mine.json"
    (here / "trace.json").write_text(json.dumps(trace))
    first = corun.load(here / "trace.json")
    first.save(there / "trace.json")
    assert json.loads((there / "trace.json").read_text())["gpu"] == "../here/mine.json"
    assert corun.load(there / "trace.json").run("fcfs").summary == first.run("fcfs").summary


def test_a_trace_can_be_changed_copied_and_saved(file, tmp_path):
    trace = corun.load(file)
    before = trace.copy()
    cam = trace.client("cam")
    assert cam.rate == 2000 and cam.real_time
    cam.rate = 1000
    cam.deadline_ns = "2ms"
    trace.client("llm").set(think="1ms", priority=-1)
    trace.set_duration("8ms")
    trace.seed = 7
    assert (cam.rate, cam.deadline_ns, trace.seed, trace.duration_ns) == (1000, 2e6, 7, 8e6)
    assert before.client("cam").rate == 2000 and before.seed == 1
    trace.save(tmp_path / "saved.json")
    again = corun.load(tmp_path / "saved.json")
    assert again.run("fcfs").summary["clients"] == trace.run("fcfs").summary["clients"]
    assert before.run("fcfs").summary["clients"] != trace.run("fcfs").summary["clients"]
    for change in (lambda: setattr(cam, "rate", -1), lambda: cam.set(rats=5), lambda: trace.client("can"),
                   lambda: setattr(trace, "gpu", "h300"), lambda: trace.set_duration("soon")):
        with pytest.raises(corun.InputError):
            change()


def test_a_client_says_when_its_host_stood_still_and_can_be_steady(file, tmp_path):
    document = json.loads(Path(file).read_text())
    assert corun.load(file).client("cam").host_stalls is None
    cam = next(client for client in document["clients"] if client["name"] == "cam")
    cam["host_stalls"] = {"observed_ns": 1e6, "stalls": [[1000, 2000.5], [400000, 300000]]}
    stalled = tmp_path / "stalled.json"
    stalled.write_text(json.dumps(document))
    trace = corun.load(stalled)
    assert trace.client("cam").host_stalls == (1e6, [(1000, 2000.5), (400000, 300000)])
    slow = trace.run("fcfs").summary["clients"]
    trace.client("cam").set(steady=True)
    assert trace.client("cam").host_stalls is None
    assert trace.run("fcfs").summary["clients"] != slow


def test_advice_is_that_of_the_command(file):
    trace = corun.load(file)
    advice = corun.advise(trace, slo=["cam:p99=1ms"], maximize="llm:throughput")
    told = subprocess.run([os.environ["CORUN_SIM"], "advise", "--json", "--slo", "cam:p99=1ms", "--maximize", "llm:throughput",
                           file], check=True, capture_output=True, text=True).stdout
    assert advice == json.loads(told)
    assert advice["tried"][advice["best"]]["holds"]


def test_a_table_has_gavels_layout_whatever_a_program_is_called(file, tmp_path):
    """Two levels of "('NAME', 1)", whose quotes in a name stay as they are; alone under "null"."""
    programs = {"cam": f"{file},client=cam", "LLM (batch 8), o'night": f"{file},client=llm"}
    table = corun.table(programs, {"mps": "mps", "turns": "timeslice"}, duration="4ms", executor=Here())
    table.write_gavel(tmp_path / "gavel.json")
    written = json.loads((tmp_path / "gavel.json").read_text())
    keys = {"('cam', 1)": "cam", "('LLM (batch 8), o'night', 1)": "LLM (batch 8), o'night"}
    assert set(written) == set(table.throughput)
    for kind, rows in written.items():
        assert set(rows) == set(keys)
        for key, row in rows.items():
            assert set(row) == {"null", *keys}
            assert row["null"] == table.of(kind, keys[key])[0] > 0
            for other in keys:
                assert tuple(row[other]) == table.of(kind, keys[key], keys[other])
    assert corun.read_gavel(tmp_path / "gavel.json") == {
        kind: {(keys[key], 1): {(keys[other], 1) if other in keys else None: tuple(value) if other in keys else value
                                for other, value in row.items()} for key, row in rows.items()} for kind, rows in written.items()}


def test_a_table_reads_back_in_gavels_layout(file, tmp_path):
    programs = {"cam": f"{file},client=cam", "llm": f"{file},client=llm"}
    table = corun.table(programs, {"mps": "mps", "turns": "timeslice"}, duration="4ms", triples=True, executor=Here())
    table.write_gavel(tmp_path / "gavel.json")
    read = corun.read_gavel(tmp_path / "gavel.json")
    assert set(read) == {"h200/mps", "h200/turns"}
    own, other = read["h200/mps"]["cam", 1]["llm", 1]
    assert (own, other) == table.of("h200/mps", "cam", "llm") == tuple(reversed(table.of("h200/mps", "llm", "cam")))
    assert read["h200/mps"]["cam", 1][None] > own
    table.write_csv(tmp_path / "all.csv")
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * (2 * 1 + 3 * 2 + 4 * 3)
    (tmp_path / "other.json").write_text('{"a": [1]}')
    with pytest.raises(corun.InputError, match="Gavel"):
        corun.read_gavel(tmp_path / "other.json")
