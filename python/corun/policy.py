"""The base of policies written in Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Iterable, Sequence, Union

from ._native import (
    Allocate,
    Checkpoint,
    ClientView,
    Launch,
    LaunchPadded,
    Preempt,
    Query,
    Requirements,
    Resize,
    Restore,
    Snapshot,
    Topology,
    WakeAt,
)

Decision = Union[Launch, Resize, Query, WakeAt, LaunchPadded, Preempt, Allocate, Checkpoint, Restore]


class Policy(ABC):
    """A pure decider: it sees snapshots and gives decisions, and reads no clock, file or simulator state.

    Set `name` and `requirements` on the class or the object.  One object may be run several times; `start` is
    called once before each run and must reset what it keeps.
    """

    name: str
    requirements: Requirements

    def start(self, topology: Topology, clients: Sequence[ClientView]) -> None:
        """Called once, before the first `decide` of a run."""

    @abstractmethod
    def decide(self, snapshot: Snapshot) -> Iterable[Decision]:
        """Decisions in the order in which they are to be applied.

        A pending launch that is not launched now stays pending.  Any decision may be refused: the next
        snapshot tells.  The snapshot can be read during this call only, a generator's included, and raises
        RuntimeError afterwards; the views in it are copies.  What this raises ends the run, and `run` raises it.
        """
