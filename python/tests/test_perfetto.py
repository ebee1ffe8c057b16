"""The timeline, read with Perfetto's own schema by protobuf's own library: neither is the one that writes it."""

from __future__ import annotations

import csv
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

SIX = "traces/h200/examples/six-clients.json"


@dataclass
class Slice:
    track: int
    name: str
    begin_ns: int
    annotations: Dict[str, Any]
    depth: int
    end_ns: int = -1
    inside: List["Slice"] = field(default_factory=list)


@dataclass
class Timeline:
    tracks: Dict[int, Any]
    slices: List[Slice]


def decode(file: Path) -> Timeline:
    trace = schema.Trace.FromString(file.read_bytes())
    tracks: Dict[int, Any] = {}
    names: Dict[int, str] = {}
    keys: Dict[int, str] = {}
    open_slices: Dict[int, List[Slice]] = {}
    slices: List[Slice] = []
    for packet in trace.packet:
        names.update((one.iid, one.name) for one in packet.interned_data.event_names)
        keys.update((one.iid, one.name) for one in packet.interned_data.debug_annotation_names)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            notes = {keys[a.name_iid]: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations}
            slices.append(Slice(event.track_uuid, names[event.name_iid], packet.timestamp, notes, len(stack)))
            if stack:
                stack[-1].inside.append(slices[-1])
            stack.append(slices[-1])
        elif event.type == event.TYPE_SLICE_END:
            stack.pop().end_ns = packet.timestamp
    assert not any(open_slices.values()), "each slice that begins ends"
    return Timeline(tracks, slices)


def floor_ns(text: str) -> int:
    return int(text.split(".")[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Timeline, List[Dict[str, str]]]:
    folder = tmp_path_factory.mktemp("run")
    subprocess.run([os.environ["CORUN_SIM"], "--policy=priority", "--duration=20ms", "--out", folder, SIX], check=True,
                   stdout=subprocess.DEVNULL)
    with (folder / "kernels.csv").open(newline="") as file:
        return decode(folder / "timeline.pftrace"), list(csv.DictReader(file))


def test_every_kernel_is_a_slice_with_its_times(run: Tuple[Timeline, List[Dict[str, str]]]) -> None:
    timeline, kernels = run
    slices = {s.annotations["launch"]: s for s in timeline.slices if "launch" in s.annotations}
    finished = [kernel for kernel in kernels if kernel["finished_ns"]]
    assert len(finished) > 100
    for kernel in finished:
        s = slices[int(kernel["launch"])]
        assert s.name == kernel["kernel"]
        assert s.annotations["request"] == int(kernel["request"]) and s.annotations["blocks"] == int(kernel["blocks"])
        assert (s.begin_ns, s.end_ns) == (floor_ns(kernel["queued_ns"]), floor_ns(kernel["finished_ns"]))
        running = [part for part in s.inside if part.name == "running"]
        assert [(part.begin_ns, part.end_ns) for part in running] == [(floor_ns(kernel["started_ns"]), s.end_ns)]


def test_no_kernel_is_in_the_timeline_alone(run: Tuple[Timeline, List[Dict[str, str]]]) -> None:
    timeline, kernels = run
    known = {int(kernel["launch"]) for kernel in kernels}
    assert {s.annotations["launch"] for s in timeline.slices if "launch" in s.annotations} <= known


def test_tracks_are_named_after_the_clients_and_hold_their_kernels(run: Tuple[Timeline, List[Dict[str, str]]]) -> None:
    timeline, kernels = run
    of = {int(kernel["launch"]): kernel for kernel in kernels}
    seen = set()
    for s in timeline.slices:
        if "launch" not in s.annotations:
            continue
        stream = timeline.tracks[s.track]
        process = timeline.tracks[stream.parent_uuid].process.process_name
        kernel = of[s.annotations["launch"]]
        assert process in (f"{kernel['client']} (real time)", f"{kernel['client']} (best effort)")
        assert stream.name.split(":")[0] == f"stream {kernel['stream']}"
        seen.add(kernel["client"])
    assert seen == {kernel["client"] for kernel in kernels} and len(seen) > 2


def test_what_follows_on_a_track_does_not_overlap(run: Tuple[Timeline, List[Dict[str, str]]]) -> None:
    ends: Dict[int, int] = {}
    for s in run[0].slices:
        assert s.begin_ns <= s.end_ns
        assert all(s.begin_ns <= part.begin_ns and part.end_ns <= s.end_ns for part in s.inside)
        if s.depth == 0:
            assert ends.get(s.track, 0) <= s.begin_ns
            ends[s.track] = s.end_ns
