"""Is what a part of a process does on the GPU a trace of it? CUPTI and the GPU are fakes (tests/hw/capture)."""

import ctypes
import json
import os

import pytest

import corun

FAKE = ctypes.CDLL(os.environ["CORUN_CUPTI"])


class Kernel(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("stream", ctypes.c_uint32), ("grid", ctypes.c_int32), ("block", ctypes.c_int32),
                ("ns", ctypes.c_uint64)]


def serve(requests, names=(b"_Z4gemmPf", b"_Z4biasPf")):
    for _ in range(requests):
        for name in names:
            FAKE.fake_launch(ctypes.byref(Kernel(name, 7, 64, 128, 100_000)))
        FAKE.fake_synchronize(7)
        FAKE.fake_host_works(ctypes.c_uint64(30_000))


def kernels(path):
    return [kernel["name"] for kernel in json.loads(path.read_text())["kernels"]]


def test_what_the_body_does_is_the_trace(tmp_path, capfd):
    serve(1, (b"_Z6beforev",))
    with corun.capture(tmp_path / "part.json", gpu="h200"):
        serve(10)
    serve(1, (b"_Z5afterv",))
    assert kernels(tmp_path / "part.json") == ["gemm(float*)", "bias(float*)"]
    assert "what repeats, 2 launches of the host, 10 times" in capfd.readouterr().err


def test_a_second_part_is_a_trace_of_its_own(tmp_path):
    for part in "ab":
        with corun.capture(tmp_path / f"{part}.json", gpu="h200"):
            serve(5)
    assert kernels(tmp_path / "a.json") == kernels(tmp_path / "b.json") == ["gemm(float*)", "bias(float*)"]
    assert corun.load(str(tmp_path / "b.json")).run(policy="fcfs", duration="2ms").summary["clients"][0]["finished"] > 0


def test_nothing_is_written_where_nothing_ran_or_the_body_raised(tmp_path):
    with pytest.raises(corun.InputError, match="no process"):
        with corun.capture(tmp_path / "none.json"):
            pass
    with pytest.raises(ZeroDivisionError):
        with corun.capture(tmp_path / "none.json"):
            serve(5)
            1 / 0
    assert not list(tmp_path.iterdir())
