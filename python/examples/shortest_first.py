"""At most two kernels at a time, the shortest first: a policy that looks at what is running."""

from typing import List

import corun


class ShortestFirst(corun.Policy):
    """Of the launches that wait for nothing, those with the shortest solo time, while fewer than two run."""

    name = "shortest-first"
    requirements = corun.Requirements({corun.Capability.order}, kernels=True)

    def decide(self, snapshot: corun.Snapshot) -> List[corun.Decision]:
        free = 2 - sum(launch.kernel is not None for launch in snapshot.running)
        ready = [launch for launch in snapshot.pending if launch.waits_for == 0]
        ready.sort(key=lambda launch: (launch.solo_time_ps, launch.id.serial))
        return [corun.Launch(launch) for launch in ready[: max(free, 0)]]
