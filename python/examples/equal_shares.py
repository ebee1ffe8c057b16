"""Every kernel runs as a persistent kernel, and those that run share the GPU's block places equally.

Shows start(), profiles, notices, Resize, Query and WakeAt.
"""

from typing import List, Sequence

import corun

CHECK_PS = 20_000_000  # 20 us between two looks at the progress


class EqualShares(corun.Policy):
    """A share is a number of SMs' worth of CTAs; a kernel that has started its last block keeps its size."""

    name = "equal-shares"
    requirements = corun.Requirements(
        {corun.Capability.order, corun.Capability.cta_quota, corun.Capability.progress}, profiles=True
    )

    def start(self, topology: corun.Topology, clients: Sequence[corun.ClientView]) -> None:
        self.gpu = topology.gpu
        self.wake_at_ps = 0

    def ctas(self, snapshot: corun.Snapshot, launch: corun.LaunchView, sharers: int) -> int:
        """As many as fit into a share, and no more than its profile says it can use."""
        share = corun.blocks_per_sm(launch.kernel, self.gpu) * self.gpu.sms // sharers
        return max(1, min(share, snapshot.profile(launch.kernel_id)[-1].ctas))

    def decide(self, snapshot: corun.Snapshot) -> List[corun.Decision]:
        ready = [launch for launch in snapshot.pending if launch.waits_for == 0]
        running = [launch for launch in snapshot.running if launch.state is corun.LaunchState.submitted]
        running = [launch for launch in running if launch.ctas > 0]
        decisions: List[corun.Decision] = []
        for launch in running:
            ctas = self.ctas(snapshot, launch, len(ready) + len(running))
            if ctas != launch.ctas:
                decisions.append(corun.Resize(launch, ctas))
        for launch in ready:
            decisions.append(
                corun.Launch(launch, ctas=self.ctas(snapshot, launch, len(ready) + len(running)))
            )
        if any(isinstance(notice, corun.WokeUp) for notice in snapshot.notices):
            decisions += [corun.Query(launch) for launch in running]
        if snapshot.now_ps >= self.wake_at_ps and (ready or running):
            self.wake_at_ps = snapshot.now_ps + CHECK_PS
            decisions.append(corun.WakeAt(self.wake_at_ps))
        return decisions
