"""The compiled half of `corun`; import from `corun`.

Units are in the names: `_ps` whole picoseconds, `_ns` nanoseconds.  Clients, streams, operations, kernels and
buffers are named by their index, TPCs by their number.
"""

from enum import Enum
from os import PathLike
from typing import Any, Iterable, List, Literal, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from .policy import Policy

__version__: str

class InputError(ValueError):
    """Bad input: which file, where in it, what is wrong, what to do.  Its text is that of the `sim` command."""

    file: str
    place: str
    problem: str
    remedy: str

# ---- GPUs and workloads ------------------------------------------------------------------------------------

class SmLimits:
    """What one SM holds."""

    @property
    def max_threads(self) -> int:
        """Resident threads."""

    @property
    def max_warps(self) -> int:
        """Resident warps."""

    @property
    def max_blocks(self) -> int:
        """Resident blocks."""

    @property
    def warp_size(self) -> int:
        """Threads of a warp: 32, or 64 on AMD GPUs."""

    @property
    def registers(self) -> int:
        """32-bit registers of all resident blocks together."""

    @property
    def threads_per_block(self) -> int:
        """Most that one block may have."""

    @property
    def shared_memory_bytes(self) -> int:
        """Of all resident blocks together."""

    @property
    def shared_memory_per_block_bytes(self) -> int:
        """Most that one block may ask for (opt-in)."""

class Gpu:
    """A GPU as its description has it."""

    @property
    def name(self) -> str:
        """As `sim gpus` lists it, "h200"."""

    @property
    def product(self) -> str:
        """As the vendor calls it, "NVIDIA H200"."""

    @property
    def architecture(self) -> str:
        """Lower case, "hopper"."""

    @property
    def sms(self) -> int:
        """Streaming multiprocessors, or compute units."""

    @property
    def sms_per_tpc(self) -> int:
        """SMs of a texture processing cluster, the smallest part that a mask names."""

    @property
    def tpcs(self) -> int:
        """sms / sms_per_tpc."""

    @property
    def gpc_of_tpc(self) -> List[int]:
        """Empty: unknown."""

    @property
    def sm(self) -> SmLimits:
        """What each SM holds."""

    @property
    def task_slots(self) -> int:
        """Grids that the work distribution unit holds at once."""

    @property
    def priority_levels(self) -> int:
        """Stream priorities are 0 (lowest) to -(levels - 1)."""

    @property
    def host_channels(self) -> int:
        """Hardware queues of one context; further streams share them."""

    @property
    def channel_depth(self) -> int:
        """Launches that one channel holds before a call waits."""

    @property
    def copy_engines(self) -> int:
        """Copies between host and device that go at once."""

    @property
    def dispatch_interval_ps(self) -> int:
        """Between two blocks that leave the work distribution unit, of the whole GPU."""

    @property
    def launch_call_ps(self) -> int:
        """Of the host's thread, for one launch."""

    @property
    def launch_latency_ps(self) -> int:
        """From the call until the task reaches the task management unit, by an idle channel."""

    @property
    def stream_gap_ps(self) -> int:
        """From the end of a kernel to the start of the next in its stream, which waits already."""

    @property
    def graph_gap_ps(self) -> int:
        """The same between kernels of a CUDA graph."""

    @property
    def time_slice_ps(self) -> int:
        """Of a context among others that do not share through MPS."""

    @property
    def context_switch_ps(self) -> int:
        """From one context to the next, while nothing runs."""

    @property
    def completion_notice_ps(self) -> int:
        """From the end of a kernel until its host knows."""

    @property
    def progress_read_ps(self) -> int:
        """Until a host that asks how many blocks are done has the answer."""

    @property
    def persistent_task_ps(self) -> int:
        """That a persistent worker takes for its next block."""

    @property
    def stop_flag_ps(self) -> int:
        """From a host's write until persistent workers see it."""

    @property
    def memory_bytes(self) -> int:
        """Device memory."""

    @property
    def l2_bytes(self) -> int:
        """L2 cache."""

    @property
    def clock_hz(self) -> float:
        """Highest SM clock."""

    @property
    def dram_bytes_per_second(self) -> float:
        """Device memory's, as the vendor has it."""

    @property
    def copy_bytes_per_second(self) -> float:
        """Between host and device, pinned memory, each way."""

class Topology:
    """The GPU, and what the backend can do on it."""

    @property
    def gpu(self) -> Gpu:
        """The one that is simulated or measured."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the backend can do; a policy that needs more is refused before the run."""

class Kernel:
    """A kernel as a launch sees it."""

    @property
    def name(self) -> str:
        """Demangled, as the profiler printed it."""

    @property
    def grid(self) -> Tuple[int, int, int]:
        """Blocks, by x, y and z."""

    @property
    def block(self) -> Tuple[int, int, int]:
        """Threads of a block, by x, y and z."""

    @property
    def cluster(self) -> Tuple[int, int, int]:
        """Blocks of a cluster, by x, y and z; (1, 1, 1): none."""

    @property
    def blocks(self) -> int:
        """Of the grid."""

    @property
    def threads_per_block(self) -> int:
        """x times y times z."""

    @property
    def registers_per_thread(self) -> int:
        """32-bit registers."""

    @property
    def shared_memory_bytes(self) -> int:
        """Of a block, static and dynamic."""

    @property
    def idempotent(self) -> bool:
        """May be killed and run again from its inputs."""

    @property
    def ptx(self) -> bool:
        """Its program brings its PTX, by which a service can make it persistent."""

    @property
    def solo_time_ps(self) -> Optional[int]:
        """First block's start to last block's end, alone on the whole GPU."""

class ServiceClass(Enum):
    """What a client is promised."""

    real_time = ...
    """Each request soon after it comes."""
    best_effort = ...
    """What is left."""

class ClientStream:
    """A client's stream; None: as the client."""

    @property
    def priority(self) -> Optional[int]:
        """0 lowest, as low as -(priority_levels - 1) highest."""

    @property
    def tpc_mask(self) -> Optional[frozenset[int]]:
        """TPCs that its kernels may use."""

class Client:
    """A client as the trace describes it."""

    @property
    def name(self) -> str:
        """Unique in the trace."""

    @property
    def process(self) -> str:
        """Clients of one process share a context."""

    @property
    def service_class(self) -> ServiceClass:
        """Real-time or best effort."""

    @property
    def priority(self) -> int:
        """0 lowest, as low as -(priority_levels - 1) highest."""

    @property
    def tpc_mask(self) -> Optional[frozenset[int]]:
        """TPCs that its kernels may use; None: all."""

    @property
    def streams(self) -> List[ClientStream]:
        """By their index."""

    @property
    def memory_bytes(self) -> int:
        """Device memory that it holds from its first request on."""

    @property
    def quota(self) -> Optional[float]:
        """Most of the GPU that it may hold, as a fraction."""

    @property
    def reservation(self) -> Optional[float]:
        """Least of the GPU that it is promised, as a fraction."""

    @property
    def deadline_ps(self) -> Optional[int]:
        """From the intended arrival."""

def blocks_per_sm(kernel: Kernel, gpu: Gpu) -> int:
    """How many blocks of the kernel an empty SM holds."""

def gpus() -> List[str]:
    """Names of the built-in GPU descriptions, sorted."""

# ---- what a policy sees ------------------------------------------------------------------------------------

class LaunchState(Enum):
    """How far a launch is, as far as the host knows."""

    pending = ...
    """Called, not yet launched."""
    submitted = ...
    draining = ...
    """Its last block has started."""
    stopping = ...
    """Asked to come off the GPU."""
    finished = ...

class LaunchId:
    """One execution of one operation; `serial` is unique in a run."""

    def __init__(self, slot: int, serial: int) -> None: ...
    @property
    def slot(self) -> int:
        """Where its view is; used again once the launch has ended."""

    @property
    def serial(self) -> int:
        """Rises with each launch of the run."""

    def __hash__(self) -> int: ...

class LaunchView:
    """A launch as it was when the snapshot was taken."""

    @property
    def id(self) -> LaunchId:
        """For decisions."""

    @property
    def client(self) -> int:
        """Index into Snapshot.clients."""

    @property
    def stream(self) -> int:
        """Index into the client's streams."""

    @property
    def op(self) -> int:
        """Index into the operations of the client's program."""

    @property
    def request(self) -> int:
        """Number of the request, from 0."""

    @property
    def kernel_id(self) -> int:
        """Index of the kernel, for Snapshot.profile."""

    @property
    def kernel(self) -> Kernel:
        """None for an allocation."""

    @property
    def tpc_mask(self) -> Optional[frozenset[int]]:
        """Of this launch, as the trace has it."""

    @property
    def bytes(self) -> int:
        """What an allocation takes."""

    @property
    def solo_time_ps(self) -> int:
        """Of this launch alone on the whole GPU, as the trace has it; 0: not known."""

    @property
    def state(self) -> LaunchState:
        """When the snapshot was taken."""

    @property
    def waits_for(self) -> int:
        """Unfinished operations that it follows directly (stream order, events)."""

    @property
    def ready_at_ps(self) -> int:
        """When the client's host called it."""

    @property
    def submitted_at_ps(self) -> int:
        """When a Launch was decided; 0: not yet."""

    @property
    def ctas(self) -> int:
        """0: a plain launch."""

    @property
    def blocks_done(self) -> int:
        """As last reported; of a preempted launch: for good."""

    @property
    def reported_at_ps(self) -> int:
        """When `blocks_done` was so."""

class ClientView:
    """A client as it was when the snapshot was taken."""

    @property
    def id(self) -> int:
        """Index into Snapshot.clients."""

    @property
    def client(self) -> Client:
        """What the trace says of it."""

    @property
    def requests_waiting(self) -> int:
        """Arrived, none of their operations issued."""

    @property
    def busy(self) -> bool:
        """A request is being served."""

class Place(Enum):
    """Of a buffer's contents."""

    asked = ...
    """Wanted, and not yet granted."""
    device = ...
    to_host = ...
    """Under way, and taking device memory, as to_device."""
    host = ...
    to_device = ...

class BufferView:
    """An allocation in device memory, from grant to release."""

    @property
    def id(self) -> int:
        """Index into Snapshot.buffers, for decisions."""

    @property
    def client(self) -> int:
        """Whose it is."""

    @property
    def bytes(self) -> int:
        """Its size."""

    @property
    def place(self) -> Place:
        """Where its contents are, or are going."""

    @property
    def free(self) -> bool:
        """The slot holds no buffer."""

    @property
    def in_use(self) -> int:
        """Launches and copies on the GPU that use it."""

    @property
    def copies_wait(self) -> int:
        """Copies that wait for it to be on the device."""

    @property
    def uses(self) -> int:
        """Launches so far."""

    @property
    def last_used_ps(self) -> int:
        """When the last launch that uses it was decided."""

class ProfilePoint:
    """Solo time as a persistent kernel of `ctas` CTAs."""

    @property
    def ctas(self) -> int:
        """Of the whole GPU."""

    @property
    def time_ps(self) -> int:
        """From the first block to the last."""

    @property
    def sms(self) -> int:
        """That have CTAs; the last may have fewer."""

    @property
    def ctas_per_sm(self) -> int:
        """Of each of these."""

class RequestArrived:
    """A request of the client has come."""

    @property
    def client(self) -> int:
        """Index."""

    @property
    def request(self) -> int:
        """Number, from 0."""

class RequestFinished:
    """All of its operations have ended."""

    @property
    def client(self) -> int:
        """Index."""

    @property
    def request(self) -> int:
        """Number, from 0."""

class LaunchReady:
    """The client's host has called the launch; it waits for a Launch."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

class LastBlockStarted:
    """From here on a change of its size has no effect.  Told of persistent, stoppable and padded launches."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

class KernelFinished:
    """The host knows that the kernel has ended."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

class CopyFinished:
    """The host knows that the copy has ended."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

class Preempted:
    """The launch is off the GPU and pending again."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

    @property
    def blocks_done(self) -> int:
        """For good."""

class ProgressReported:
    """The answer to a Query."""

    @property
    def launch(self) -> LaunchId:
        """Which one."""

    @property
    def blocks_done(self) -> int:
        """At `as_of_ps`."""

    @property
    def as_of_ps(self) -> int:
        """Earlier than the notice by what the read costs."""

class AllocationReady:
    """The client's host has called an allocation; it waits for an Allocate."""

    @property
    def allocation(self) -> LaunchId:
        """To be granted."""

class BufferMoved:
    """A Checkpoint or Restore is complete."""

    @property
    def buffer(self) -> int:
        """Index."""

class BufferWanted:
    """A copy of the client waits for a buffer that is not on the device."""

    @property
    def buffer(self) -> int:
        """Index."""

class ClientLost:
    """The client's process has failed or was killed; nothing that it has on the GPU will be told of."""

    @property
    def client(self) -> int:
        """Index."""

class WokeUp:
    """The time asked for by WakeAt has come."""

Notice = Union[
    RequestArrived,
    LaunchReady,
    LastBlockStarted,
    KernelFinished,
    CopyFinished,
    ProgressReported,
    RequestFinished,
    WokeUp,
    Preempted,
    AllocationReady,
    BufferMoved,
    BufferWanted,
    ClientLost,
]

class Snapshot:
    """What a host can see at one instant.  Readable during `decide` only; the views in it are copies."""

    @property
    def now_ps(self) -> int:
        """The host's time, from the beginning of the run."""

    @property
    def notices(self) -> List[Notice]:
        """What happened since the policy was last asked."""

    @property
    def clients(self) -> List[ClientView]:
        """By index."""

    @property
    def pending(self) -> List[LaunchView]:
        """Ready, not yet launched; in order of readiness."""

    @property
    def running(self) -> List[LaunchView]:
        """Launched, not finished; in order of launching."""

    @property
    def allocating(self) -> List[LaunchView]:
        """Allocations that wait for Allocate; in order of readiness."""

    @property
    def buffers(self) -> List[BufferView]:
        """By index; some slots may be free."""

    @property
    def memory_used_bytes(self) -> int:
        """Device memory of all clients."""

    def launch(self, id: Union[LaunchId, LaunchView]) -> LaunchView:
        """As it is now.  KeyError: it has ended."""

    def profile(self, kernel_id: int) -> List[ProfilePoint]:
        """Fewest CTAs first; there only if the policy requires profiles."""

# ---- what a policy says ------------------------------------------------------------------------------------

class Capability(Enum):
    """What a backend can do."""

    order = ...
    priority = ...
    tpc_mask = ...
    cta_quota = ...
    sm_quota = ...
    progress = ...
    preempt_at_block = ...
    preempt_reset = ...
    padding = ...
    time_slice = ...
    memory_swap = ...

class Contexts(Enum):
    """Which clients share a hardware context."""

    one = ...
    per_process = ...

class Requirements:
    """What a policy needs; refused at the start where it is missing."""

    capabilities: frozenset[Capability]
    contexts: Contexts
    profiles: bool
    memory: bool
    deferred_memory: bool
    thread_percentages: List[float]
    def __init__(
        self,
        capabilities: Iterable[Capability],
        contexts: Contexts = ...,
        *,
        profiles: bool = False,
        memory: bool = False,
        deferred_memory: bool = False,
        thread_percentages: Sequence[float] = ...,
    ) -> None: ...

class Launch:
    """Hand a pending launch to the GPU, behind what was launched before it in its stream."""

    launch: LaunchId
    priority: int
    tpc_mask: Optional[frozenset[int]]
    ctas: int
    ctas_per_sm: List[int]
    def __init__(
        self,
        launch: Union[LaunchId, LaunchView],
        *,
        priority: int = 0,
        tpc_mask: Optional[Iterable[int]] = None,
        ctas: int = 0,
        ctas_per_sm: Sequence[int] = ...,
    ) -> None:
        """priority: CUDA's, 0 lowest.  ctas: those of a persistent kernel; 0: a plain kernel.
        ctas_per_sm: by SM; `ctas` is then their sum."""

class Resize:
    """Give a persistent launch another number of CTAs."""

    launch: LaunchId
    ctas: int
    ctas_per_sm: List[int]
    def __init__(
        self, launch: Union[LaunchId, LaunchView], ctas: int = 0, *, ctas_per_sm: Sequence[int] = ...
    ) -> None: ...

class LaunchPadded:
    """Launch, as one grid, a launch confined to some SMs and blocks of another client's on the others."""

    launch: LaunchId
    priority: int
    sms: int
    padding: LaunchId
    padding_blocks: int
    def __init__(
        self,
        launch: Union[LaunchId, LaunchView],
        *,
        sms: int,
        padding: Union[LaunchId, LaunchView],
        padding_blocks: int,
        priority: int = 0,
    ) -> None: ...

class Stop(Enum):
    """How a launch comes off the GPU."""

    at_block = ...
    reset = ...

class Preempt:
    """Take a launch off the GPU, with whatever was launched behind it in its stream."""

    launch: LaunchId
    how: Stop
    def __init__(self, launch: Union[LaunchId, LaunchView], how: Stop = ...) -> None: ...

class Allocate:
    """Grant a pending allocation."""

    allocation: LaunchId
    def __init__(self, allocation: Union[LaunchId, LaunchView]) -> None: ...

class Checkpoint:
    """Copy a buffer that no launch on the GPU uses to the host and free its device memory."""

    buffer: int
    def __init__(self, buffer: int) -> None: ...

class Restore:
    """Bring a buffer back to the device."""

    buffer: int
    def __init__(self, buffer: int) -> None: ...

class Query:
    """Ask how many blocks are done; answered by ProgressReported."""

    launch: LaunchId
    def __init__(self, launch: Union[LaunchId, LaunchView]) -> None: ...

class WakeAt:
    """Ask again at this time, whatever happens (the earliest wish counts)."""

    at_ps: int
    def __init__(self, at_ps: int) -> None: ...

# ---- runs --------------------------------------------------------------------------------------------------

class Parameter:
    """A parameter of a registered policy."""

    @property
    def name(self) -> str:
        """Before the "="."""

    @property
    def meaning(self) -> str:
        """A sentence, with the values that it takes."""

    @property
    def default_value(self) -> str:
        """As text; empty: it must be given."""

class PolicyInfo:
    """A registered policy."""

    @property
    def name(self) -> str:
        """For `policy=`."""

    @property
    def summary(self) -> str:
        """A line."""

    @property
    def source(self) -> str:
        """Paper and section, or documentation."""

    @property
    def parameters(self) -> List[Parameter]:
        """In the order in which `--policy=help` prints them."""

    @property
    def also_called(self) -> List[str]:
        """Other names that are taken for it."""

    @property
    def unverified(self) -> str:
        """Why no GPU was compared with it; empty: one was, or a paper."""

def policies() -> List[PolicyInfo]:
    """The registered policies, by name."""

class Columns:
    """Rows of a result by column, for pandas, pyarrow, polars and whatever reads Arrow's C data interface.

    NumPy and Arrow look at the same memory; nothing is copied, and it lives as long as one of them does.  `client`,
    `kernel` and `counter` are words, by number.  A time that there is not is NaN in NumPy and null in Arrow.
    """

    @property
    def names(self) -> Tuple[str, ...]:
        """In the order of the columns."""

    def words(self, name: str) -> Optional[Tuple[str, ...]]:
        """What the numbers of a column of words stand for; None: it is a column of numbers."""

    def to_pandas(self) -> Any:
        """A DataFrame, words as categories.  ModuleNotFoundError without pandas."""

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A view, not to be written to.  KeyError: there is no such column."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...

class Result:
    """What a run gave.  Arrays are in the order of the records; each access makes a new one."""

    @property
    def summary(self) -> dict[str, Any]:
        """As `sim --json` prints it; a new dict at each access."""

    @property
    def requests(self) -> npt.NDArray[np.void]:
        """client u4, request u8, arrival_ns f8 (intended), started_ns f8, finished_ns f8, latency_ns f8 (from
        the intended arrival), dropped bool (replaced by a newer one), work_done_ns f8 (solo time of its
        finished kernels)."""

    @property
    def kernels(self) -> npt.NDArray[np.void]:
        """launch u4, client u4, request u8, stream u4, op u4, kernel u4, priority i4, ctas u4 (0: plain),
        blocks u8, evictions u4, preemptions u4, redone_blocks u8, ready_ns f8 (the host's call), submitted_ns f8 (decided), queued_ns f8
        (reached the TMU), slotted_ns f8 (entered a task slot), started_ns f8, last_block_ns f8 (last block
        started), finished_ns f8."""

    @property
    def copies(self) -> npt.NDArray[np.void]:
        """launch u4, client u4, request u8, stream u4, op u4, bytes u8, engine u4, started_ns f8,
        finished_ns f8."""

    @property
    def blocks(self) -> npt.NDArray[np.void]:
        """launch u4, client u4, kernel u4, block u4, sm u4, lane u4, start_ns f8, end_ns f8.  InputError
        unless the run was made with timeline='cta'."""

    def columns(self, which: Literal["requests", "kernels", "copies", "blocks", "counters"]) -> Columns:
        """The same rows by column, as pa.table(result.columns("kernels")).

        counters: counter, at_ns, value, a row a change.  InputError for blocks unless the run was made with
        timeline='cta', for counters unless with counters=True.
        """

    def to_pandas(
        self, which: Literal["requests", "kernels", "copies", "blocks", "counters", "clients"] = "requests"
    ) -> Any:
        """A DataFrame of columns(which); of clients: of what the summary says of each, with the parts of its latency.

        ModuleNotFoundError without pandas.
        """

    def _repr_html_(self) -> str:
        """A table of the clients, for a notebook."""

    @property
    def client_names(self) -> Tuple[str, ...]:
        """By index."""

    @property
    def kernel_names(self) -> Tuple[str, ...]:
        """By index."""

    @property
    def policy(self) -> str:
        """As it was given, with its parameters."""

    @property
    def wall_s(self) -> float:
        """Time that the simulation took."""

    def perfetto(self, path: Union[str, PathLike[str]]) -> None:
        """Write the timeline for ui.perfetto.dev."""

    def write(self, directory: Union[str, PathLike[str]]) -> None:
        """Write summary.json, requests.csv, kernels.csv and timeline.pftrace, as `sim --out` does."""

class TraceClient:
    """A client of a Trace; what is set here holds for later runs of that trace, and of no copy."""

    @property
    def name(self) -> str:
        """Unique in the trace."""

    @property
    def real_time(self) -> bool:
        """False: best effort."""

    @property
    def rate(self) -> Optional[float]:
        """Requests a second; None for one whose requests follow each other.

        Set, it keeps the kind of arrivals (periodic, random, recorded), and makes a closed loop periodic.
        """

    @rate.setter
    def rate(self, value: float) -> None: ...
    @property
    def priority(self) -> int:
        """0 lowest, -5 highest."""

    @priority.setter
    def priority(self, value: int) -> None: ...
    @property
    def quota(self) -> Optional[float]:
        """Most of the GPU it may hold, 0 to 1."""

    @quota.setter
    def quota(self, value: float) -> None: ...
    @property
    def reservation(self) -> Optional[float]:
        """Least of the GPU it is promised, 0 to 1."""

    @reservation.setter
    def reservation(self, value: float) -> None: ...
    @property
    def memory_bytes(self) -> int:
        """Device memory it holds; set as bytes or as text, "4GB"."""

    @memory_bytes.setter
    def memory_bytes(self, value: Union[int, str]) -> None: ...
    @property
    def deadline_ns(self) -> Optional[float]:
        """From the intended arrival, nanoseconds; set as text with its unit, "20ms"."""

    @deadline_ns.setter
    def deadline_ns(self, value: str) -> None: ...
    @property
    def host_stalls(self) -> Optional[Tuple[float, List[Tuple[float, float]]]]:
        """How long its host was watched and when it stood still, (ns, [(at, lasting), ...]); None: it never does.  set(steady=True)
        leaves that out."""

    def set(self, **settings: Any) -> None:
        """The settings of `sim --client`: set(rt=True, poisson=80, slo="20ms", queue=True).  Throws InputError."""

class Trace:
    """A workload that can be run, and changed."""

    @property
    def file(self) -> str:
        """That it was read from."""

    @property
    def name(self) -> str:
        """As results call it."""

    @property
    def about(self) -> str:
        """What it is and where it comes from."""

    @property
    def gpu(self) -> str:
        """A name of gpus(), or a path.  Set, the kernels' times are taken as times of that GPU."""

    @gpu.setter
    def gpu(self, value: str) -> None: ...
    @property
    def seed(self) -> int:
        """Of random arrivals and policies."""

    @seed.setter
    def seed(self, value: int) -> None: ...
    def client(self, name: str) -> TraceClient:
        """A client, to be read and changed.  InputError if there is none of that name."""

    def _repr_html_(self) -> str:
        """Its clients, for a notebook."""

    def set_duration(self, duration: str) -> None:
        """Length of a run, as "200ms"."""

    def copy(self) -> Trace:
        """A trace that can be changed apart from this one."""

    def save(self, path: Union[str, PathLike[str]]) -> None:
        """Write it as a trace (traces/FORMAT.md), whole or not at all."""

    @property
    def duration_ns(self) -> Optional[float]:
        """None: until every client has finished once."""

    @property
    def client_names(self) -> Tuple[str, ...]:
        """By index."""

    @property
    def kernel_names(self) -> Tuple[str, ...]:
        """By index."""

    @property
    def notes(self) -> List[str]:
        """What an import assumed or missed, a sentence or two each."""

    def run(
        self,
        policy: Union[str, Policy] = "fcfs",
        *,
        seed: Optional[int] = None,
        duration: Optional[str] = None,
        gpu: Optional[str] = None,
        issue: Optional[Literal["eager", "graph"]] = None,
        timeline: Optional[Literal["request", "kernel", "cta"]] = "kernel",
        counters: bool = False,
        resources: bool = False,
        audit: bool = False,
        shortcuts: bool = True,
    ) -> Result:
        """Simulate, and each client alone for what it is compared with.

        policy: a name, "name:key=value,...", or an object of a class derived from Policy.
        seed, duration ("200ms"), gpu (a name or a description's path), issue: in place of the trace's.
        Times that were recorded on another card are carried over to `gpu`, with a note.
        timeline: what `Result.perfetto` shows; "cta" also keeps every block, which takes time and memory.
        counters: also the counters of the timeline (queues, residents), which take as long as the simulation.
        resources: also which resource running kernels lacked, as `sim --resources` and `--report` tell it (slower).
        audit: check the invariants after every event (slow).  shortcuts=False: block by block (slow, same
        result).  Bad input is an InputError; what a policy raises is raised here.
        """

def load(
    path: Union[str, PathLike[str]],
    *,
    gpu: Optional[str] = None,
    counters: Optional[Union[str, PathLike[str]]] = None,
) -> Trace:
    """Read a trace (traces/FORMAT.md) or a PyTorch profiler trace, plain or gzip; `counters`: what
    `ncu --csv` printed of the program that the profiler recorded.  Times that were recorded on another card
    than `gpu` are carried over to it, with a note.
    """

class SweepPoint:
    """One run of a sweep; it can be sent to another process."""

    @property
    def trace(self) -> str:
        """Its file."""

    @property
    def gpu(self) -> str:
        """A name or path; empty: the trace's."""

    @property
    def changes(self) -> List[Tuple[str, str]]:
        """Settings of clients, ("cam.rate", "50")."""

    @property
    def seed(self) -> Optional[int]:
        """None: the trace's."""

    @property
    def duration(self) -> str:
        """As "200ms"; empty: the trace's."""

    @property
    def policy(self) -> str:
        """With its parameters."""

def sweep_points(
    traces: List[str],
    gpus: List[str],
    changes: List[Tuple[str, List[str]]],
    seeds: List[int],
    duration: str,
    policies: List[str],
) -> List[SweepPoint]:
    """The points of a grid, policies changing fastest; `corun.sweep` is what most want."""

def run_points(points: List[SweepPoint]) -> List[str]:
    """The JSON line of each point, run in this process one after the other."""

def hash_points(points: List[SweepPoint]) -> List[str]:
    """What each point's line is known by: a hash of all that decides its result."""

def line_again(point: SweepPoint, known: str) -> str:
    """A line that was written before, under what the point is called now."""

def compose(clients: List[str], *, gpu: Optional[str] = None) -> Trace:
    """Clients side by side, each as `sim --client` takes it: "cam=resnet.json,rt,rate=50,slo=20ms".

    gpu: the one to simulate, where files were recorded on several; kernels are then carried over, with a note.
    """

def advise(
    trace: Trace, *, slo: List[str] = ..., maximize: str = "stp", gpus: List[str] = ..., modes: List[str] = ...,
    highest_rate: str = ""
) -> Dict[str, Any]:
    """Which setting keeps what was promised: the document of `sim advise --json`.

    slo: "cam:p99=20ms", "llm:throughput=30"; none: p99 within each client's deadline.  gpus: in the order in which they
    are wanted.  modes: "mps", "priority", "streams", "time-slicing", "percentages", "green-contexts", "mig"; none: all.
    `best` is an index into `tried`, None if no setting holds.
    """
