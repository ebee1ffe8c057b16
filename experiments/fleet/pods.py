"""Pods of Alibaba's gpu-v2023 trace, the programs that stand for them, and a day of arrivals."""

import csv
import dataclasses
import random
import zlib
from collections import Counter

DAY = 86400
WHOLE = 1000  # gpu_milli of a GPU
COLUMNS = {"name", "num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time", "deletion_time", "scheduled_time"}


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a pod that shares a GPU runs: a network that alone takes `share` of the GPU's time."""

    name: str
    network: str
    share: float
    real_time: bool


#: The largest gpu_milli of each size, its share of the GPU, and the networks of real-time and of best-effort pods.
SIZES = [
    (150, 0.11, ["dlrm_b2048"], ["decode_2k"]),
    (250, 0.22, ["decode_2k"], ["unet"]),
    (400, 0.33, ["inception3_b1"], ["vgg19_b1"]),
    (500, 0.47, ["resnet50_b1", "distilbert_b1s128"], ["bert_b8_bf16", "vit_b16_tf32"]),
    (700, 0.62, ["efficientnet_b16", "decode_2k"], ["resnet152_b8", "vit_b4"]),
    (999, 0.81, ["resnet50_b1", "efficientnet_b16"], ["train_resnet18", "whisper"]),
]


@dataclasses.dataclass(frozen=True)
class Pod:
    """`kind` is None for what has its GPUs alone; then `milli` is 1,000 of each of `gpus`."""

    name: str
    gpus: int
    milli: int
    kind: "Kind | None"
    arrives: int  # seconds
    runs: int  # seconds

    @property
    def demand(self) -> float:
        return self.gpus * self.milli / WHOLE


def kind_of(name: str, milli: int, real_time: bool) -> Kind:
    """The same for a pod of the same name, whatever else is in the list."""
    size = next(row for row in SIZES if milli <= row[0])
    networks = size[2] if real_time else size[3]
    network = networks[zlib.crc32(name.encode()) % len(networks)]
    return Kind(f"{'rt' if real_time else 'be'}-{size[1]:g}-{network}", network, size[1], real_time)


def read(path, longest: int = DAY) -> "tuple[list[Pod], dict[str, int]]":
    """The pods that want GPUs and ran, their run cut at `longest` seconds; and how many rows were of which fate."""
    pods, fate = [], Counter()
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if missing := sorted(COLUMNS - set(rows.fieldnames or [])):
            raise ValueError(f"{path}: no column {', '.join(missing)}; a pod list of cluster-trace-gpu-v2023 has them")
        for row in rows:
            gpus = int(row["num_gpu"])
            if gpus == 0:
                fate["no GPU"] += 1
                continue
            if not row["scheduled_time"]:
                fate["never scheduled"] += 1
                continue
            runs = int(row["deletion_time"]) - int(row["scheduled_time"])
            if runs <= 0:
                fate["no time"] += 1
                continue
            milli = int(row["gpu_milli"]) if gpus == 1 else WHOLE
            kind = kind_of(row["name"], milli, row["qos"] == "LS") if milli < WHOLE else None
            fate["cut"] += runs > longest
            fate["GPU type ignored"] += bool(row["gpu_spec"])
            fate["taken"] += 1
            pods.append(Pod(row["name"], gpus, milli, kind, int(row["creation_time"]), min(runs, longest)))
    return pods, dict(sorted(fate.items()))


def draw(pods: "list[Pod]", gpus: int, load: float, days: int, seed: int) -> "list[Pod]":
    """Pods drawn with replacement, so that in the mean `load` of the GPUs would be held if nobody waited.

    Each arrives at its own time of day, within half an hour, so that the daily rhythm stays.
    """
    a_day = round(load * gpus * DAY * len(pods) / sum(pod.demand * pod.runs for pod in pods))
    dice = random.Random(seed)
    drawn = []
    for i in range(a_day * days):
        pod = pods[dice.randrange(len(pods))]
        second = (pod.arrives + dice.randrange(-1800, 1801)) % DAY
        drawn.append(dataclasses.replace(pod, name=f"{pod.name}.{i}", arrives=i // a_day * DAY + second))
    return sorted(drawn, key=lambda pod: (pod.arrives, pod.name))


def companies(pods: "list[Pod]", most: int) -> "list[tuple[Kind, ...]]":
    """All sets of up to `most` kinds that can meet on a GPU, given the least gpu_milli of each kind."""
    least: dict[Kind, int] = {}
    for pod in pods:
        if pod.kind is not None:
            least[pod.kind] = min(pod.milli, least.get(pod.kind, WHOLE))
    kinds = sorted(least, key=lambda kind: kind.name)
    found: list[tuple[Kind, ...]] = []

    def grow(company: "tuple[Kind, ...]", first: int, room: int) -> None:
        for i in range(first, len(kinds)):
            if least[kinds[i]] <= room and len(company) < most:
                found.append((*company, kinds[i]))
                grow(found[-1], i, room - least[kinds[i]])

    grow((), 0, WHOLE)
    return sorted(found, key=lambda company: (len(company), [kind.name for kind in company]))
