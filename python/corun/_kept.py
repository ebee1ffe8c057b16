"""Which rows of data that others published are kept back, decided before any reader of a format had seen a value.

A row's key is those of its columns that say what was run, never what was measured.  The SHA-256 of set and key decides: an
odd first byte keeps the row.  Models are fitted on the other half, and every choice is made by it; the kept half is scored
once.  Rows from which a prediction is made (INPUTS) are scored in neither half.

Seen beforehand: the medians, ranges and single examples that descriptions of the sets quote, and all values of `nos` and
`sglang-omni`, which were typed from a page and from a thread.  Those two halves are kept in form only."""
import hashlib

KEYS = {
    "igniter": ("network 1", "network 2", "batch 1", "batch 2", "percentage 1"),
    "parvagpu": ("network", "instance", "batch", "processes"),
    "muxserve": ("model", "tensor parallel", "percentage", "batch", "sequence length"),
    "lithos": ("operation", "TPCs"),
    "nos": ("mode", "pods"),
    "sglang-omni": ("work", "SMs"),
    "gavel": ("gpu", "job 1", "job 2"),
    "lucid": ("model 1", "dataset 1", "gpus 1", "batch 1", "amp 1", "model 2", "dataset 2", "gpus 2", "batch 2", "amp 2"),
}
INPUTS = {
    "igniter": "the tables of networks alone: latency, DRAM %, L2 % by batch and percentage; bytes copied; number of kernels",
    "parvagpu": "rows of one process",
    "muxserve": "cells at 100 and 50 %",
    "lithos": "54 and 13 TPCs",
    "nos": "one pod in each mode",
    "sglang-omni": "all SMs and 32",
    "gavel": "throughput alone",
    "lucid": "speed alone, GPU and memory utilisation alone",
}


def kept(name, *key):
    """True if the row of set `name` with this key is kept back.  Key columns are written as the file has them."""
    if len(key) != len(KEYS[name]):
        raise ValueError(f"{name}: a key has {', '.join(KEYS[name])}")
    return hashlib.sha256("|".join([name, *map(str, key)]).encode()).digest()[0] % 2 == 1
