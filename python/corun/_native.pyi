"""The compiled half of `corun`; import from `corun`.

Units are in the names: `_ps` whole picoseconds, `_ns` nanoseconds, `_bytes` bytes.  Times are counted from
the beginning of the run.  Clients, streams, operations, kernels and buffers are named by their index, TPCs by
their number.

An argument of the wrong type is a TypeError, and so is a negative number where an index or a count is wanted.
Classes without a constructor here are made by corun only.  Lists, sets and dicts that a property gives are
copies.
"""

from enum import Enum
from os import PathLike
from typing import Any, Iterable, List, Literal, Optional, Sequence, Tuple, Union, overload

import numpy as np
import numpy.typing as npt

from .policy import Policy

__version__: str
"""Of the package, "0.1.0"."""

class InputError(ValueError):
    """Bad input: which file, where in it, what is wrong, what to do.  Its text is that of the `sim` command."""

    file: str
    """The path or name of what was read; empty: it is about an argument."""
    place: str
    """A JSON pointer ("/kernels/3/grid"), "line 7, column 2", or the argument; empty: all of it."""
    problem: str
    """What is wrong."""
    remedy: str
    """What to do."""

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
        """SMs of a texture processing cluster (TPC), the smallest part that a mask names."""

    @property
    def tpcs(self) -> int:
        """sms / sms_per_tpc."""

    @property
    def gpc_of_tpc(self) -> List[int]:
        """By TPC, the number of its graphics processing cluster; empty: unknown."""

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
    """The GPU, and what the backend can do on it.  It may be kept: it does not change."""

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
        """Of a block, static and dynamic, without what the system reserves."""

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
    """How many blocks of the kernel an empty SM holds; 0: not one fits."""

def gpus() -> List[str]:
    """Names of the built-in GPU descriptions, sorted."""

# ---- what a policy sees ------------------------------------------------------------------------------------

class LaunchState(Enum):
    """How far a launch is, as far as the host knows."""

    pending = ...
    """Called, not yet launched; an allocation that waits for Allocate."""
    submitted = ...
    """Launched; not known to have started its last block."""
    draining = ...
    """Its last block has started."""
    stopping = ...
    """Asked to come off the GPU, or the padding of a LaunchPadded."""
    finished = ...
    """Known to have ended, or dropped because its client failed."""

class LaunchId:
    """One execution of one operation; `serial` is unique in a run."""

    @overload
    def __init__(self, slot: int, serial: int) -> None:
        """As a LaunchView or a notice has them."""

    @overload
    def __init__(self, launch: LaunchView) -> None:
        """`launch.id`.  Wherever a LaunchId is wanted a LaunchView does."""

    @property
    def slot(self) -> int:
        """Where its view is; used again once the launch has ended."""

    @property
    def serial(self) -> int:
        """Rises with each launch of the run."""

    def __hash__(self) -> int:
        """The serial."""

class LaunchView:
    """A launch, copy or allocation as it was when the snapshot was taken.  It may be kept, as ClientView."""

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
        """Index of the kernel, for Snapshot.profile; 0 where `kernel` is None."""

    @property
    def kernel(self) -> Optional[Kernel]:
        """None for a copy, as `running` has them, and for an allocation."""

    @property
    def nodes(self) -> int:
        """Kernels and copies of a graph, which `kernel` stands for with a block for each kernel.

        0: it is no graph, or the policy requires kernels.
        """

    @property
    def tpc_mask(self) -> Optional[frozenset[int]]:
        """Of this launch, as the trace has it; None: it has none of its own."""

    @property
    def bytes(self) -> int:
        """What a copy moves, or an allocation of the program takes.

        0 for a kernel.
        """

    @property
    def solo_time_ps(self) -> int:
        """Of this launch alone on the whole GPU, as the trace has it; 0: not known.

        Of a graph the sum over its kernels, without the gaps between them.
        """

    @property
    def state(self) -> LaunchState:
        """When the snapshot was taken."""

    @property
    def waits_for(self) -> int:
        """Number of unfinished operations that it follows directly (stream order, events)."""

    @property
    def ready_at_ps(self) -> int:
        """When the client's host called it."""

    @property
    def submitted_at_ps(self) -> int:
        """When a Launch was last decided; 0: not yet."""

    @property
    def ctas(self) -> int:
        """CTAs that Launch or Resize gave it; 0: a plain launch, or it is pending."""

    @property
    def blocks_done(self) -> int:
        """As last reported by ProgressReported; of a preempted launch: for good."""

    @property
    def reported_at_ps(self) -> int:
        """When blocks done were last counted for ProgressReported; 0: never."""

class ClientView:
    """A client as it was when the snapshot was taken.  It may be kept, also after the run."""

    @property
    def id(self) -> int:
        """Index into Snapshot.clients."""

    @property
    def client(self) -> Client:
        """What the trace says of it."""

    @property
    def requests_waiting(self) -> int:
        """Number of requests that have arrived and of which no operation was issued."""

    @property
    def busy(self) -> bool:
        """A request is being served."""

class Place(Enum):
    """Of a buffer's contents."""

    asked = ...
    """Wanted, and not yet granted: it takes no device memory."""
    device = ...
    """In device memory, where launches can use it."""
    to_host = ...
    """A Checkpoint is under way; it takes device memory until that is complete."""
    host = ...
    """In host memory: it takes no device memory."""
    to_device = ...
    """A Restore is under way; it takes device memory since that began."""

class BufferView:
    """An allocation in device memory, from the client's call to its release.  A copy, which may be kept."""

    @property
    def id(self) -> int:
        """Index into Snapshot.buffers, for decisions; given to another buffer after the release."""

    @property
    def client(self) -> int:
        """Index of the client whose it is."""

    @property
    def bytes(self) -> int:
        """Its size, bytes."""

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
        """Launches of kernels that used it so far."""

    @property
    def last_used_ps(self) -> int:
        """When the last launch or copy that uses it went to the GPU, at first when it was asked for."""

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
        """SMs that have CTAs; the last may have fewer."""

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
    """The host knows that the kernel, or the whole graph, has ended."""

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
        """For good: a further Launch goes on with the others."""

class ProgressReported:
    """The answer to a Query.  The launch may have ended meanwhile."""

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
"""What `Snapshot.notices` has.  Notices may be kept."""

class Snapshot:
    """What a host can see at one instant.

    It is valid during the `decide` that it is given to; a generator that `decide` returns runs within it.
    Afterwards each property and method raises RuntimeError.  The views, notices and lists that were taken
    from it are copies: they may be kept and stay as they are.
    """

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
        """Launched, not finished, copies too; in order of launching."""

    @property
    def allocating(self) -> List[LaunchView]:
        """Allocations that wait for Allocate; in order of readiness."""

    @property
    def buffers(self) -> List[BufferView]:
        """By index; some slots may be free."""

    @property
    def memory_used_bytes(self) -> int:
        """Device memory of all clients, bytes."""

    def launch(self, id: Union[LaunchId, LaunchView]) -> LaunchView:
        """As it is now.  KeyError: there is no such launch, or it has ended.

        One that has ended can still be asked for in the `decide` whose notices tell so.
        """

    def profile(self, kernel_id: int) -> List[ProfilePoint]:
        """Fewest CTAs first.  IndexError: there is no such kernel.

        Empty unless the policy requires profiles and a launch of the kernel was called.
        """

# ---- what a policy says ------------------------------------------------------------------------------------

class Capability(Enum):
    """What a backend can do.  The simulator can do all of it."""

    order = ...
    """Launches reach the GPU in the order decided."""
    priority = ...
    """Stream priorities: Launch.priority."""
    tpc_mask = ...
    """A launch can be kept to a set of TPCs: Launch.tpc_mask."""
    cta_quota = ...
    """A launch can run as a persistent kernel of a number of CTAs, and be resized: Launch.ctas, Resize."""
    sm_quota = ...
    """The same with a number for each SM: `ctas_per_sm`.  Profiles are then by SMs and CTAs on each."""
    progress = ...
    """The number of finished blocks can be asked for: Query."""
    preempt_at_block = ...
    """A launch can be stopped at its next block and go on later: Preempt, Stop.at_block."""
    preempt_reset = ...
    """Running blocks can be killed and run again: Stop.reset."""
    padding = ...
    """Two kernels can be launched as one: LaunchPadded."""
    time_slice = ...
    """Separate contexts take turns: Contexts.per_process."""
    memory_swap = ...
    """Device memory can be moved to the host and back: Checkpoint, Restore."""

class Contexts(Enum):
    """Which clients share a hardware context."""

    one = ...
    """All of them, as under MPS or as streams of one process: their kernels run side by side."""
    per_process = ...
    """Those of one process (Client.process); the GPU gives contexts turns."""

class Requirements:
    """What a policy needs.  `run` raises InputError before the first `decide` if a capability is missing."""

    capabilities: frozenset[Capability]
    """What its decisions use.  A decision that uses another one is an InputError.

    Without `preempt_at_block` no kernel has the cost of being stoppable.
    """
    contexts: Contexts
    """Contexts.one: all clients share one."""
    profiles: bool
    """True: Snapshot.profile has the times of kernels that were called; the simulator makes them."""
    memory: bool
    """True: allocations wait for Allocate.  False: they are granted at once, or fail if they do not fit."""
    deferred_memory: bool
    """True, beside `memory`: a call that allocates returns at once, and what uses the memory waits."""
    thread_percentages: List[float]
    """MPS active thread percentages, above 0 to 100, by client; the last is that of all further clients.

    Empty: no MPS.  InputError from `run` on a GPU without MPS or, below 100, without percentages.
    """
    kernels: bool
    """True: graphs are shown and launched kernel by kernel.

    Profiles and capabilities that a whole graph has not (quotas, progress, preemption, padding) bring it too.
    """
    def __init__(
        self,
        capabilities: Iterable[Capability],
        contexts: Contexts = ...,
        *,
        profiles: bool = False,
        memory: bool = False,
        deferred_memory: bool = False,
        thread_percentages: Sequence[float] = ...,
        kernels: bool = False,
    ) -> None:
        """contexts: Contexts.one unless given.  thread_percentages: none unless given."""

# A refused decision changes nothing and raises nothing: the next snapshot shows what is.

class Launch:
    """Hand a pending launch to the GPU, behind what was launched before it in its stream.

    A launch that was preempted goes on with the blocks that are not done.  Refused, and it stays pending:
    while an earlier operation of its stream or one that it waits for is not launched or is coming off the
    GPU, a buffer that it uses is not on the device, or its hardware channel is full; and for a priority, mask
    or size that the GPU does not have.
    """

    launch: LaunchId
    """A pending launch."""
    priority: int
    """CUDA's: 0 lowest, 1 - Gpu.priority_levels highest."""
    tpc_mask: Optional[frozenset[int]]
    """TPCs that it may use, by number; None: all.  ValueError for numbers below 0 or above 383."""
    ctas: int
    """CTAs of a persistent kernel, on all SMs together; 0: a plain kernel."""
    ctas_per_sm: List[int]
    """CTAs of a persistent kernel by SM, Gpu.sms numbers up to 65535; empty: they go where there is room.

    Set the whole list, as reading gives a copy.  `ctas` does not follow: it must be 0 or the sum.
    """
    def __init__(
        self,
        launch: Union[LaunchId, LaunchView],
        *,
        priority: int = 0,
        tpc_mask: Optional[Iterable[int]] = None,
        ctas: int = 0,
        ctas_per_sm: Sequence[int] = ...,
    ) -> None:
        """priority: the client's is `Client.priority`.  ctas: left out, it is the sum of ctas_per_sm.

        ValueError: `ctas` is neither 0 nor that sum, or a number of tpc_mask is out of range.
        """

class Resize:
    """Give a persistent launch another number of CTAs.

    Fewer: the surplus exits at its next block.  More: a further instance joins.  Refused for a plain launch,
    for no CTA at all, and with ctas_per_sm where the launch has none, or the other way round.
    """

    launch: LaunchId
    """A persistent launch on the GPU."""
    ctas: int
    """CTAs on all SMs together, at least 1."""
    ctas_per_sm: List[int]
    """CTAs by SM, where the launch was launched so; as in Launch."""
    def __init__(
        self, launch: Union[LaunchId, LaunchView], ctas: int = 0, *, ctas_per_sm: Sequence[int] = ...
    ) -> None:
        """One of ctas and ctas_per_sm.  ValueError: both are given, and `ctas` is not the sum."""

class LaunchPadded:
    """Launch, as one grid, a launch confined to some SMs and blocks of another client's on the others.

    Both are pending, and the padding waits for nothing.  Each block has what the larger of the two kernels
    needs of an SM.  The padding is told of by Preempted if it has blocks left, else by KernelFinished.
    """

    launch: LaunchId
    """The launch that is padded."""
    priority: int
    """Of the grid; as in Launch."""
    sms: int
    """SMs of `launch`, 1 to Gpu.sms - 1; the padding has the others."""
    padding: LaunchId
    """A launch of another client, in the same context."""
    padding_blocks: int
    """Blocks of the padding, at least 1; no more run than it has left."""
    def __init__(
        self,
        launch: Union[LaunchId, LaunchView],
        *,
        sms: int,
        padding: Union[LaunchId, LaunchView],
        padding_blocks: int,
        priority: int = 0,
    ) -> None:
        """sms, padding and padding_blocks must be given."""

class Stop(Enum):
    """How a launch comes off the GPU."""

    at_block = ...
    """No further block starts; those that run end."""
    reset = ...
    """Running blocks are killed, and a further Launch starts anew.  Refused unless Kernel.idempotent."""

class Preempt:
    """Take a launch off the GPU, with whatever was launched behind it in its stream or waits for any of that.

    For each there follows Preempted, or KernelFinished if it was too late.  Refused for a copy, for what is
    not on the GPU or is stopping already, and for a padded launch.
    """

    launch: LaunchId
    """A launch on the GPU."""
    how: Stop
    """Stop.at_block or Stop.reset."""
    def __init__(self, launch: Union[LaunchId, LaunchView], how: Stop = ...) -> None:
        """how: Stop.at_block unless given."""

class Allocate:
    """Grant a pending allocation.  Refused while it does not fit the free device memory."""

    allocation: LaunchId
    """One of Snapshot.allocating."""
    def __init__(self, allocation: Union[LaunchId, LaunchView]) -> None:
        """allocation: one of Snapshot.allocating."""

class Checkpoint:
    """Copy a buffer to the host and free its device memory; answered by BufferMoved.

    Refused if it is not on the device or something on the GPU uses it, and unless the requirements have
    Capability.memory_swap.
    """

    buffer: int
    """BufferView.id."""
    def __init__(self, buffer: int) -> None:
        """buffer: BufferView.id."""

class Restore:
    """Bring a buffer back to the device; answered by BufferMoved.

    Refused if it is not on the host or does not fit the free device memory, and unless the requirements have
    Capability.memory_swap.
    """

    buffer: int
    """BufferView.id."""
    def __init__(self, buffer: int) -> None:
        """buffer: BufferView.id."""

class Query:
    """Ask how many blocks are done; answered by ProgressReported.  Refused unless it is on the GPU."""

    launch: LaunchId
    """A launch on the GPU."""
    def __init__(self, launch: Union[LaunchId, LaunchView]) -> None:
        """launch: one that is on the GPU."""

class WakeAt:
    """Ask again at this time, whatever happens (the earliest wish counts).  Refused if it has come."""

    at_ps: int
    """From the beginning of the run, as Snapshot.now_ps."""
    def __init__(self, at_ps: int) -> None:
        """at_ps: as Snapshot.now_ps, and later."""

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
        """As text; empty: there is none."""

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
        """What the numbers of a column of words stand for; None: it is a column of numbers.

        KeyError: there is no such column.
        """

    def to_pandas(self) -> Any:
        """A DataFrame, words as categories.  ModuleNotFoundError without pandas."""

    def _repr_html_(self) -> str:
        """The first rows, for a notebook."""

    def __len__(self) -> int:
        """Rows."""

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A view of shape (rows,), which is read-only.  KeyError: there is no such column."""

    def __arrow_c_schema__(self) -> object:
        """A capsule "arrow_schema"."""

    def __arrow_c_array__(self, requested_schema: Optional[object] = None) -> Tuple[object, object]:
        """Capsules "arrow_schema" and "arrow_array", of a struct of the columns, whatever is requested."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """A capsule "arrow_array_stream", of one such array, whatever is requested."""

class Result:
    """What a run gave.  It holds all that it gives: the trace and the policy need not be kept.

    Arrays have the shape (rows,), a row a record in the order of the records, and a dtype of named fields.
    Each access makes a new array.  A time that there is not is NaN.
    """

    @property
    def summary(self) -> dict[str, Any]:
        """As `sim --json` prints it; a new dict at each access."""

    @property
    def requests(self) -> npt.NDArray[np.void]:
        """A row a request: client u4, request u8, arrival_ns f8 (intended), started_ns f8 (the host began it),
        finished_ns f8, latency_ns f8 (from the intended arrival), dropped bool (replaced by a newer one), work_done_ns f8
        (solo time of its finished kernels)."""

    @property
    def kernels(self) -> npt.NDArray[np.void]:
        """A row a kernel, also of a graph, whose id its first operation has: launch u4 (LaunchId.serial),
        client u4, request u8, stream u4, op u4, kernel u4, priority i4, ctas u4 (0: plain), blocks u8 (of its grid), evictions u4 (from a task slot),
        preemptions u4, redone_blocks u8, ready_ns f8 (the host's call), submitted_ns f8 (decided),
        queued_ns f8 (reached the TMU), slotted_ns f8 (entered a task slot), started_ns f8,
        last_block_ns f8 (last block started), finished_ns f8."""

    @property
    def copies(self) -> npt.NDArray[np.void]:
        """A row a copy: launch u4, client u4, request u8, stream u4, op u4, bytes u8, engine u4 (copy
        engine), started_ns f8, finished_ns f8."""

    @property
    def blocks(self) -> npt.NDArray[np.void]:
        """A row a block: launch u4, client u4, kernel u4, block u4, sm u4, lane u4 (its place on the SM),
        start_ns f8, end_ns f8.  InputError unless the run was made with timeline='cta'."""

    def columns(self, which: Literal["requests", "kernels", "copies", "blocks", "counters"]) -> Columns:
        """The same rows by column, as pa.table(result.columns("kernels")).

        counters: counter, at_ns, value, a row a change.  A value is a number of what the counter counts, of
        "DRAM bandwidth" percent of the peak, of "device memory" bytes.  InputError for blocks unless the run
        was made with timeline='cta', for counters unless with counters=True, and for other rows.
        """

    def to_pandas(
        self, which: Literal["requests", "kernels", "copies", "blocks", "counters", "clients"] = "requests"
    ) -> Any:
        """A DataFrame of columns(which); of clients: of what the summary says of each, with the parts of its latency.

        ModuleNotFoundError without pandas, InputError as of columns().
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
        """As it was given, with its parameters; of an object its `name`."""

    @property
    def wall_s(self) -> float:
        """Time that the simulation took, seconds; with clients alone, unless an earlier run had them."""

    def perfetto(self, path: Union[str, PathLike[str]]) -> None:
        """Write the timeline for ui.perfetto.dev, whole or not at all; by gzip where the name ends in .gz.

        InputError if the run was made with timeline=None, or the file cannot be written.
        """

    def write(self, directory: Union[str, PathLike[str]]) -> None:
        """Write summary.json, requests.csv, kernels.csv and timeline.pftrace, as `sim --out` does.

        The directory is made if it is not there.  With timeline=None there is no timeline.pftrace.
        InputError if the directory cannot be made or a file cannot be written: those before it then are.
        """

class TraceClient:
    """A client of a Trace; what is set here holds for later runs of that trace, and of no copy.

    It keeps the trace alive.  To set what is out of place raises InputError and changes nothing.
    """

    @property
    def name(self) -> str:
        """Unique in the trace."""

    @property
    def real_time(self) -> bool:
        """False: best effort."""

    @property
    def rate(self) -> Optional[float]:
        """Requests a second; None: they follow each other, there is one only, or the client is a server.

        Set, 1e-6 to 1e6, it keeps the kind of arrivals (periodic, random, recorded), and makes a closed loop
        periodic.  Of a server it sets the sequences a second.
        """

    @rate.setter
    def rate(self, value: float) -> None: ...
    @property
    def priority(self) -> int:
        """0 lowest, -5 highest; a GPU with fewer levels makes `run` raise InputError."""

    @priority.setter
    def priority(self, value: int) -> None: ...
    @property
    def quota(self) -> Optional[float]:
        """Most of the GPU it may hold, as a fraction; None: all.  Set, 0.001 to 1."""

    @quota.setter
    def quota(self, value: float) -> None: ...
    @property
    def reservation(self) -> Optional[float]:
        """Least of the GPU it is promised, as a fraction; None: nothing.  Set, 0 to 1, at most the quota."""

    @reservation.setter
    def reservation(self, value: float) -> None: ...
    @property
    def memory_bytes(self) -> int:
        """Device memory it holds, bytes; set as bytes or as text, "4GB" (1e9), "512MiB" (2**20)."""

    @memory_bytes.setter
    def memory_bytes(self, value: Union[int, str]) -> None: ...
    @property
    def deadline_ns(self) -> Optional[float]:
        """From the intended arrival, nanoseconds; None: it has none.

        Set as text with its unit, "20ms".  InputError for a number, which has no unit, and for a server.
        """

    @deadline_ns.setter
    def deadline_ns(self, value: str) -> None: ...
    @property
    def host_stalls(self) -> Optional[Tuple[float, List[Tuple[float, float]]]]:
        """How long its host was watched and when it stood still, (ns, [(at, lasting), ...]), all in
        nanoseconds; None: it never does.  set(steady=True) leaves that out."""

    def set(self, **settings: Any) -> None:
        """The settings of `sim --client`: set(rt=True, poisson=80, slo="20ms", queue=True).

        One that takes no value is given as True; False leaves a setting out.  InputError, and nothing is
        changed, for an unknown setting, a value out of place, settings that exclude each other, or a file
        that cannot be read.
        """

class Trace:
    """A workload that can be run, and changed.  Results that it gave before do not change with it.

    Runs of it share what each client does alone, until it is changed.
    """

    @property
    def file(self) -> str:
        """That it was read from; empty: it was composed."""

    @property
    def name(self) -> str:
        """As results call it."""

    @property
    def about(self) -> str:
        """What it is and where it comes from."""

    @property
    def gpu(self) -> str:
        """A name of gpus(), or a path.  Set, the kernels' times are taken as times of that GPU.

        To set what is no such name and no file raises InputError.
        """

    @gpu.setter
    def gpu(self, value: str) -> None: ...
    @property
    def seed(self) -> int:
        """Of random arrivals and of where hosts' stalls begin, 0 to 2**64 - 1."""

    @seed.setter
    def seed(self, value: int) -> None: ...
    def client(self, name: str) -> TraceClient:
        """A client, to be read and changed.  InputError if there is none of that name."""

    def _repr_html_(self) -> str:
        """Its clients, for a notebook."""

    def set_duration(self, duration: str) -> None:
        """Length of a run, as "200ms" (s, ms, us, ns).  InputError: it is none, or within the warm-up."""

    def copy(self) -> Trace:
        """A trace that can be changed apart from this one."""

    def save(self, path: Union[str, PathLike[str]]) -> None:
        """Write it as a trace (traces/FORMAT.md), whole or not at all; by gzip where the name ends in .gz.

        What it includes is written with it; a GPU's description beside the old file is not, and must be put
        beside the new one.  InputError if the file cannot be written.
        """

    @property
    def duration_ns(self) -> Optional[float]:
        """Length of a run; None: until every client has finished once."""

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
        audit: check the invariants after every event (slow); so does CORUN_AUDIT in the environment.
        shortcuts=False: block by block (slow, same result).

        The GIL is held only while a Python policy decides.  A policy object may be in one run at a time.
        InputError: an argument is out of place, trace, GPU and policy do not fit each other, or the run can
        never end, as where a policy leaves launches pending.
        TypeError: `policy` is no name and no policy, or its `decide` gives what is no decision.
        RuntimeError: an invariant is broken, which is a defect of corun.
        What a policy raises is raised here.  Ctrl-C ends the run, and raises KeyboardInterrupt.
        """

def load(
    path: Union[str, PathLike[str]],
    *,
    gpu: Optional[str] = None,
    counters: Optional[Union[str, PathLike[str]]] = None,
) -> Trace:
    """Read a trace (traces/FORMAT.md) or a recording of PyTorch's profiler, Nsight Systems or rocprofv3.

    Files of JSON are plain or gzip.
    gpu: a name of gpus() or a path, which starts at the working directory.  Times that were recorded on
    another card are carried over to it, with a note; a file that names no card was recorded on this one.
    counters: what `ncu --csv` printed of the program that the profiler recorded.
    InputError for a file that cannot be read or is neither, a GPU that is not known, and counters beside a
    trace, which has its own.
    """

class SweepPoint:
    """One run of a sweep, as sweep_points() makes it; it can be pickled, and so sent to another process."""

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
    """The points of a grid, policies changing fastest; `corun.sweep` is what most want.

    changes: settings of clients and their values, ("cam.rate", ["50", "100"]).  Empty gpus, seeds and
    duration: the traces' own.  InputError for a grid without traces or policies or of more than 10 million
    points, for an unknown policy or parameter, and for a change that names no client and setting or has an
    empty value.  Files and values are looked at by run_points().
    """

def run_points(points: List[SweepPoint]) -> List[str]:
    """The JSON line of each point in their order, run in this process one after the other.

    A point's bad input raises nothing: its line has `error` in the place of `result`.  Ctrl-C ends all of it,
    and raises KeyboardInterrupt.
    """

def hash_points(points: List[SweepPoint]) -> List[str]:
    """What each point's line is known by: a hash of all that decides its result.

    It has 32 hexadecimal digits, and is the same on every machine.  Files are read for it.  A point with bad
    input raises nothing: it has a hash of what was asked for.
    """

def line_again(point: SweepPoint, known: str) -> str:
    """A line that was written before, under what the point is called now.

    known: a line of run_points().  RuntimeError: it is not JSON, or has no hash.
    """

def compose(clients: List[str], *, gpu: Optional[str] = None) -> Trace:
    """Clients side by side, each as `sim --client` takes it: "cam=resnet.json,rt,rate=50,slo=20ms".

    The trace has a duration of 1 s.  gpu: the one to simulate, where files were recorded on several; kernels
    are then carried over, with a note.
    InputError for a client that names no file, a file that cannot be read, a setting or value that is out of
    place, two clients of one name, a file of several programs of which none is chosen, and, without `gpu`,
    files of several cards.
    """

def advise(
    trace: Trace, *, slo: List[str] = ..., maximize: str = "stp", gpus: List[str] = ..., modes: List[str] = ...,
    highest_rate: str = "", seeds: List[int] = ...
) -> dict[str, Any]:
    """Which setting keeps what was promised: the document of `sim advise --json`.

    slo: "cam:p99=20ms", "train:throughput=30" (requests a second), of a server "llm:ttft=200ms", "llm:tbt=50ms", "llm:goodput=4",
    "llm:tokens=900"; besides each client's own limits.
    maximize: "stp", or a client and a metric, "train:throughput".
    gpus: in the order in which they are wanted; none: the trace's.
    modes: "mps", "priority", "streams", "time-slicing", "percentages", "green-contexts", "mig"; none: all.
    highest_rate: a client with a rate; `highest_rate` then has the highest that holds, requests a second.
    seeds: of random arrivals, under each of which what is named holds; none: the trace's, and four more where it is random.
    `best` is an index into `tried`, None if no setting holds.  A setting that cannot run has `refused`, with
    the reason.  `tried` is left out where no setting is of these modes.
    InputError for a promise, goal or mode that is none, a promise about which the run says nothing, an unknown client or GPU, and a trace without a GPU.
    Ctrl-C ends it, and raises KeyboardInterrupt.
    """
