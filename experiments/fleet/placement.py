"""A fleet of GPUs, the rules that place pods on it, and the loop that replays a list of pods."""

import dataclasses
import heapq
from collections import Counter, deque
from typing import Callable, Optional

import numpy as np

from pods import WHOLE, Pod

NODE = 8  # GPUs
NEVER = 1 << 40

#: The kinds of the pods on a GPU, by name, sorted; EXCLUSIVE where one pod has it alone.
Company = "tuple[str, ...]"
EXCLUSIVE = ("exclusive",)


class Fleet:
    """What is free, and who is where."""

    def __init__(self, gpus: int, most: int):
        if gpus % NODE:
            raise ValueError(f"{gpus} GPUs: nodes have {NODE}")
        self.most = most  # pods on a GPU
        self.free = np.full(gpus, WHOLE, dtype=np.int64)
        self.company = np.zeros(gpus, dtype=np.int64)  # an index into `companies`
        self.companies: list[tuple[str, ...]] = [()]
        self.full = np.array([False])  # by company: no further pod
        self.on: list[list[Pod]] = [[] for _ in range(gpus)]
        self._index: dict[tuple[str, ...], int] = {(): 0}

    def room(self, pod: Pod) -> np.ndarray:
        """By GPU: is there room for a pod of one GPU?"""
        return (self.free >= pod.milli) & ~self.full[self.company]

    def whole(self) -> np.ndarray:
        """By node: GPUs that nobody uses."""
        return (self.free == WHOLE).reshape(-1, NODE).sum(axis=1)

    def fits(self, pod: Pod, node: int) -> bool:
        free = self.free[node * NODE:(node + 1) * NODE]
        if pod.kind is None:
            return int((free == WHOLE).sum()) >= pod.gpus
        return bool(((free >= pod.milli) & ~self.full[self.company[node * NODE:(node + 1) * NODE]]).any())

    def put(self, pod: Pod, where: "list[int]") -> None:
        for gpu in where:
            assert self.free[gpu] >= pod.milli, (pod, gpu)
            self.free[gpu] -= pod.milli
            self.on[gpu].append(pod)
            self._name(gpu)

    def take(self, pod: Pod, where: "list[int]") -> None:
        for gpu in where:
            self.free[gpu] += pod.milli
            self.on[gpu].remove(pod)
            self._name(gpu)

    def _name(self, gpu: int) -> None:
        pods = self.on[gpu]
        alone = any(pod.kind is None for pod in pods)
        company = EXCLUSIVE if alone else tuple(sorted(pod.kind.name for pod in pods))
        if company not in self._index:
            self._index[company] = len(self.companies)
            self.companies.append(company)
            self.full = np.append(self.full, company == EXCLUSIVE or len(company) >= self.most)
        self.company[gpu] = self._index[company]


class Fragmentation:
    """What of a node's free GPUs the next pod could not use, in the mean over the pods of the list.

    As Weng et al., USENIX ATC 2023, and their simulator have it, for GPUs alone: a node that cannot take a pod is lost to
    it as a whole; of one that can, the GPUs with less free than the pod asks of each.
    """

    def __init__(self, pods: "list[Pod]"):
        counts = Counter((pod.gpus, pod.milli) for pod in pods)
        self._unused = np.zeros(WHOLE + 1)  # by the free share of a GPU: what pods of one GPU leave of it
        self._several: list[tuple[int, float]] = []
        for (gpus, milli), count in sorted(counts.items()):
            weight = count / len(pods)
            if gpus == 1:
                self._unused[:milli] += weight * np.arange(milli)
            else:
                self._several.append((gpus, weight))

    def of(self, free: np.ndarray) -> np.ndarray:
        """By node, in thousandths of a GPU."""
        nodes = free.reshape(-1, NODE)
        whole = (nodes == WHOLE).sum(axis=1)
        return self._unused[nodes].sum(axis=1) + self._for_several(whole, nodes.sum(axis=1))

    def _for_several(self, whole: np.ndarray, free: np.ndarray) -> np.ndarray:
        lost = np.zeros(free.shape)
        for gpus, weight in self._several:
            lost += weight * np.where(whole >= gpus, free - whole * WHOLE, free)
        return lost

    def added(self, free: np.ndarray, milli: int) -> np.ndarray:
        """By GPU: by how much it grows in the node if `milli` of the GPU is taken. Only where there is room for it."""
        nodes = free.reshape(-1, NODE)
        whole, total = (nodes == WHOLE).sum(axis=1), nodes.sum(axis=1)
        before = np.repeat(self._for_several(whole, total), NODE)
        after = self._for_several(np.repeat(whole, NODE) - (free == WHOLE), np.repeat(total, NODE) - milli)
        return self._unused[np.maximum(free - milli, 0)] - self._unused[free] + after - before

    def added_by_several(self, free: np.ndarray, gpus: int) -> np.ndarray:
        """By node: by how much it grows if this number of whole GPUs is taken."""
        nodes = free.reshape(-1, NODE)
        whole, total = (nodes == WHOLE).sum(axis=1), nodes.sum(axis=1)
        return self._for_several(whole - gpus, total - gpus * WHOLE) - self._for_several(whole, total)


def _least(cost: np.ndarray, allowed: np.ndarray) -> Optional[int]:
    """The first of the cheapest."""
    best = int(np.where(allowed, cost, np.inf).argmin())
    return best if allowed[best] else None


class Rule:
    """Where a pod goes: GPUs of one node, or None where there is no room. Ties go to the lowest index."""

    name = ""

    def choose(self, fleet: Fleet, pod: Pod) -> "Optional[list[int]]":
        if pod.kind is None:
            whole = fleet.whole()
            node = _least(self.cost_of_nodes(fleet, pod, whole), whole >= pod.gpus)
            if node is None:
                return None
            gpus = np.flatnonzero(fleet.free[node * NODE:(node + 1) * NODE] == WHOLE)[:pod.gpus]
            return [node * NODE + int(gpu) for gpu in gpus]
        gpu = _least(self.cost_of_gpus(fleet, pod), fleet.room(pod))
        return None if gpu is None else [gpu]

    def cost_of_gpus(self, fleet: Fleet, pod: Pod) -> np.ndarray:
        raise NotImplementedError

    def cost_of_nodes(self, fleet: Fleet, pod: Pod, whole: np.ndarray) -> np.ndarray:
        """Whole GPUs come from the node that has the fewest."""
        return whole


class FirstFit(Rule):
    name = "first fit"

    def cost_of_gpus(self, fleet, pod):
        return np.zeros(len(fleet.free))

    def cost_of_nodes(self, fleet, pod, whole):
        return np.zeros(len(whole))


class BestFit(Rule):
    name = "best fit"

    def cost_of_gpus(self, fleet, pod):
        return fleet.free


class LeastFragmentation(Rule):
    """Fragmentation gradient descent, of the same paper."""

    name = "fgd"

    def __init__(self, fragmentation: Fragmentation):
        self._fragmentation = fragmentation

    def cost_of_gpus(self, fleet, pod):
        return self._fragmentation.added(fleet.free, pod.milli)

    def cost_of_nodes(self, fleet, pod, whole):
        return self._fragmentation.added_by_several(fleet.free, pod.gpus)


class LeastInterference(Rule):
    """Best fit among the GPUs in use where the pod is known to do little harm; else an empty GPU; else the least harm.

    Harm is what it adds to what the pods that are there and the pod alone have: further real-time pods that do not hold,
    and progress lost, which is little up to `loss`.

    cost(company) -> (real-time pods whose p99 does not hold, sum of normalised progress), None for one that fits on no GPU.
    """

    name = "interference"

    def __init__(self, cost: "Callable[[Company], Optional[tuple[int, float]]]", loss: float = 0.1):
        self._cost, self._loss = cost, loss
        self._ranks: dict[str, list[float]] = {}

    def cost_of_gpus(self, fleet, pod):
        ranks = self._ranks.setdefault(pod.kind.name, [])
        for i in range(len(ranks), len(fleet.companies)):
            ranks.append(self._rank(fleet.companies[i], pod.kind.name))
        return np.array(ranks)[fleet.company] * 2000 * WHOLE + fleet.free  # ranks differ by thousandths

    def _rank(self, company: "tuple[str, ...]", kind: str) -> float:
        if not company:
            return 1
        apart, together = (self._cost(company), self._cost((kind,))), self._cost(tuple(sorted((*company, kind))))
        if together is None or None in apart:
            return 0  # no GPU with this company has room
        more = together[0] - sum(one[0] for one in apart)
        lost = round(sum(one[1] for one in apart) - together[1], 3)
        return 0 if more <= 0 and lost <= self._loss else 2 + max(more, 0) * 10 + max(lost, 0)


@dataclasses.dataclass
class Outcome:
    """What happened within the window; times in seconds."""

    gpu_seconds: "dict[tuple[str, ...], int]"  #: by company; () for GPUs that nobody used
    fragmented: float  #: GPUs, in the mean over the window
    waits: "list[int]"  #: of each pod that arrived in the window
    met: "list[tuple[str, list[tuple[str, ...]]]]"  #: real-time pods that arrived then: the kind, the companies it was in
    asked: float  #: GPU-seconds that pods held, by gpu_milli
    started: "dict[str, int]"  #: by pod
    ended: "dict[str, int]"


def replay(pods: "list[Pod]", gpus: int, rule: Rule, fragmentation: Fragmentation, window: "tuple[int, int]",
           most: int = 4) -> Outcome:
    """Pods come, wait if there is no room, run as long as in the list, and go.

    What leaves at a second makes room for what arrives in it. Waiting pods are tried in order of arrival at every
    departure; one that does not fit lets others pass.
    """
    fleet = Fleet(gpus, most)
    began, ends = window
    gpu_seconds: Counter = Counter()
    since = np.zeros(gpus, dtype=np.int64)
    lost = fragmentation.of(fleet.free)
    lost_total, lost_since, lost_seconds, asked = float(lost.sum()), 0, 0.0, 0.0
    met: dict[str, dict[int, None]] = {}
    started: dict[str, int] = {}
    ended: dict[str, int] = {}
    running: list[tuple[int, int, Pod, list[int]]] = []
    waiting: dict[tuple[int, int], deque[tuple[int, Pod]]] = {}  # by what they ask for; with their number in the list

    def inside(a: int, b: int) -> int:
        return max(0, min(b, ends) - max(a, began))

    def change(now: int, pod: Pod, where: "list[int]", act: Callable[[Pod, "list[int]"], None]) -> None:
        nonlocal lost_total, lost_since, lost_seconds
        for gpu in where:
            gpu_seconds[int(fleet.company[gpu])] += inside(int(since[gpu]), now)
            since[gpu] = now
        act(pod, where)
        node = where[0] // NODE
        lost_seconds += lost_total * inside(lost_since, now)
        after = float(fragmentation.of(fleet.free[node * NODE:(node + 1) * NODE])[0])
        lost_total += after - lost[node]
        lost[node], lost_since = after, now
        if pod.kind is not None:
            company = int(fleet.company[where[0]])
            for one in fleet.on[where[0]]:
                if one.name in met:
                    met[one.name][company] = None

    def start(now: int, pod: Pod) -> bool:
        nonlocal asked
        where = rule.choose(fleet, pod)
        if where is None:
            return False
        if pod.kind is not None and pod.kind.real_time and began <= pod.arrives < ends:
            met[pod.name] = {}
        started[pod.name] = now
        asked += pod.demand * inside(now, now + pod.runs)
        change(now, pod, where, fleet.put)
        heapq.heappush(running, (now + pod.runs, len(started), pod, where))
        return True

    def admit(now: int, nodes: "set[int]") -> None:
        """What waits fits nowhere but where something has left."""
        refused: set[tuple[int, int]] = set()
        while left := [(queue[0][0], size) for size, queue in waiting.items() if size not in refused]:
            size = min(left)[1]
            pod = waiting[size][0][1]
            if any(fleet.fits(pod, node) for node in nodes) and start(now, pod):
                waiting[size].popleft()
                if not waiting[size]:
                    del waiting[size]
            else:
                refused.add(size)

    def leave(until: int) -> None:
        while running and running[0][0] <= until:
            now, nodes = running[0][0], set()
            while running and running[0][0] == now:
                _, _, pod, where = heapq.heappop(running)
                change(now, pod, where, fleet.take)
                ended[pod.name] = now
                nodes.add(where[0] // NODE)
            admit(now, nodes)

    for number, pod in enumerate(pods):
        leave(pod.arrives)
        if not start(pod.arrives, pod):
            waiting.setdefault((pod.gpus, pod.milli), deque()).append((number, pod))
    leave(NEVER)
    last = max(max(ended.values(), default=0), ends)
    for gpu in range(gpus):
        gpu_seconds[int(fleet.company[gpu])] += inside(int(since[gpu]), last)
    lost_seconds += lost_total * inside(lost_since, last)

    counted = [pod for pod in pods if began <= pod.arrives < ends]
    return Outcome(
        gpu_seconds={fleet.companies[i]: seconds for i, seconds in sorted(gpu_seconds.items()) if seconds},
        fragmented=lost_seconds / WHOLE / max(1, ends - began),
        waits=[started[pod.name] - pod.arrives for pod in counted],
        met=[(pod.kind.name, [fleet.companies[i] for i in met[pod.name]]) for pod in counted if pod.name in met],
        asked=asked,
        started=started,
        ended=ended,
    )
