"""First come, first served, in Python: decides what `policies/fcfs.cpp` decides, to the byte.

python fcfs.py trace.json
"""

import sys
from typing import List

import corun


class Fcfs(corun.Policy):
    """Every launch goes to the GPU as soon as its client calls it, in the order of the calls."""

    name = "fcfs"
    requirements = corun.Requirements({corun.Capability.order}, corun.Contexts.one)

    def decide(self, snapshot: corun.Snapshot) -> List[corun.Decision]:
        return [corun.Launch(launch) for launch in snapshot.pending]


if __name__ == "__main__":
    print(corun.load(sys.argv[1]).run(policy=Fcfs(), duration="10ms"))
