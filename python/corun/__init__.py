"""If these programs share this GPU under this policy, how fast does each run?

>>> import corun
>>> result = corun.load("trace.json").run(policy="greedy", seed=1)
>>> result.summary["stp"]
>>> result.kernels["finished_ns"] - result.kernels["started_ns"]

Times of results are nanoseconds (`_ns`, float64, NaN where there is none); times that policies see are whole
picoseconds (`_ps`, int), because decisions must be exact.
"""

from __future__ import annotations

from typing import Any, Iterable, Union

from ._native import (
    Allocate,
    AllocationReady,
    BufferMoved,
    BufferWanted,
    BufferView,
    Capability,
    Checkpoint,
    Client,
    ClientLost,
    ClientStream,
    ClientView,
    Columns,
    Contexts,
    CopyFinished,
    Gpu,
    InputError,
    Kernel,
    KernelFinished,
    LastBlockStarted,
    Launch,
    LaunchId,
    LaunchPadded,
    LaunchReady,
    LaunchState,
    LaunchView,
    Parameter,
    Place,
    PolicyInfo,
    Preempt,
    Preempted,
    ProfilePoint,
    ProgressReported,
    Query,
    RequestArrived,
    RequestFinished,
    Requirements,
    Resize,
    Restore,
    Result,
    ServiceClass,
    SmLimits,
    Snapshot,
    Stop,
    SweepPoint,
    Topology,
    Trace,
    TraceClient,
    WakeAt,
    WokeUp,
    __version__,
    advise,
    blocks_per_sm,
    compose,
    gpus,
    hash_points,
    line_again,
    load,
    policies,
    run_points,
    sweep_points,
)
from ._capture import capture
from ._show import client_rows, comparison_html, rows_to_pandas
from ._sweep import RayExecutor, Sweep, sweep
from ._table import Table, read_gavel, table
from .policy import Decision, Policy
from .report import figures, write_report


class Comparison(list[dict[str, Any]]):
    """The summary of each run; a notebook shows a row a run."""

    def to_pandas(self) -> Any:
        """A row a client of a run."""
        return rows_to_pandas([{"policy": s["policy"], "stp": s["stp"], **row} for s in self for row in client_rows(s)])

    def _repr_html_(self) -> str:
        return comparison_html(self)


def compare(trace: Trace, policies: Iterable[Union[str, Policy]], **options: Any) -> Comparison:
    """The summary of the trace under each policy; `options` are those of `Trace.run`."""
    options.setdefault("timeline", None)
    return Comparison(trace.run(policy, **options).summary for policy in policies)


__all__ = [
    "advise",
    "capture",
    "compose",
    "figures",
    "hash_points",
    "line_again",
    "RayExecutor",
    "read_gavel",
    "run_points",
    "Sweep",
    "sweep",
    "SweepPoint",
    "sweep_points",
    "Table",
    "table",
    "TraceClient",
    "write_report",
    "__version__",
    "Allocate",
    "AllocationReady",
    "blocks_per_sm",
    "BufferMoved",
    "BufferWanted",
    "BufferView",
    "Capability",
    "Checkpoint",
    "Client",
    "ClientLost",
    "ClientStream",
    "ClientView",
    "Columns",
    "compare",
    "Comparison",
    "Contexts",
    "CopyFinished",
    "Decision",
    "Gpu",
    "gpus",
    "InputError",
    "Kernel",
    "KernelFinished",
    "LastBlockStarted",
    "Launch",
    "LaunchId",
    "LaunchPadded",
    "LaunchReady",
    "LaunchState",
    "LaunchView",
    "load",
    "Parameter",
    "Place",
    "policies",
    "Policy",
    "PolicyInfo",
    "Preempt",
    "Preempted",
    "ProfilePoint",
    "ProgressReported",
    "Query",
    "RequestArrived",
    "RequestFinished",
    "Requirements",
    "Resize",
    "Restore",
    "Result",
    "ServiceClass",
    "SmLimits",
    "Snapshot",
    "Stop",
    "Topology",
    "Trace",
    "WakeAt",
    "WokeUp",
]
