#!/usr/bin/env python3
"""What law of the clock follows bursts?  Each against the mean clock that bursts.json.gz has under the load and in its pauses.

  law.py [BURSTS.json.gz LIMIT_W IDLE_W]     default: the H200's; for the H100 ../../h100/clock/bursts.json.gz 692 127

What the products would draw at the highest clock follows from where the clock settles under them without a pause.
"""
import gzip
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, STEP_MS = 132, 0.5


class Filtered:
    """Looks each `interval`, remembers a share of what it saw, falls at once and rises by a share of the way."""

    def __init__(self, limit, idle, interval=20, remembers=0.29, rises=0.5):
        self.limit, self.idle, self.interval, self.remembers, self.rises = limit, idle, interval, remembers, rises
        self.step, self.full = STEPS, 0.0

    def lowest(self, watts):
        step = STEPS
        while step > STEPS // 5 and self.idle + watts * (step / STEPS) ** 1.5 > self.limit:
            step -= 1
        return step

    def look(self, drawn):
        full = drawn * STEPS / self.step
        self.full = full + (self.full - full) * self.remembers
        step = self.lowest(self.full)
        self.step = step if step < self.step else self.step + -int(-(step - self.step) * self.rises // 1)


class HighestWindow(Filtered):
    """The clock is set each 50 ms by the most that a window of 2 ms took."""

    def __init__(self, limit, idle):
        super().__init__(limit, idle, interval=2)
        self.most, self.looks = 0.0, 0

    def look(self, drawn):
        self.most, self.looks = max(self.most, drawn * STEPS / self.step), self.looks + 1
        if self.looks % 25 == 0:
            self.step, self.most = self.lowest(self.most), 0.0


def clocks(law, watts, on, period, phase):
    """Mean clock over the highest from 0.8 to 2.4 s: under the load, and in the pauses."""
    under, pauses, energy, looks_at, since = [], [], 0.0, (law.interval - phase) or law.interval, 0.0
    for i in range(int(2400 / STEP_MS)):
        now = i * STEP_MS
        loaded = now % period < on
        energy += watts * law.step / STEPS * STEP_MS if loaded else 0
        if now > 800:
            (under if loaded else pauses).append(law.step / STEPS)
        if now + STEP_MS >= looks_at:
            law.look(energy / (looks_at - since))
            energy, since, looks_at = 0.0, looks_at, looks_at + law.interval
    return statistics.mean(under), statistics.mean(pauses or [1])


def bursts(path):
    """(highest clock, clock that it settles at, [(on, off, clock under load, in pauses)])."""
    with gzip.open(path) as file:
        runs = [r for r in json.load(file)["runs"] if r["kind"] == [4096, 4096] and not r["between"]]

    def mean(run, load, begin=800, end=2400, of=statistics.mean):
        return of(s[1] for s in run["samples"] if s[2] == load and begin < s[0] < end)
    highest = max(mean(r, 1) for r in runs if r["on_ms"] == 1)
    settled = mean(next(r for r in runs if not r["off_ms"]), 1, 300, 800, statistics.median)
    return settled / highest, [(r["on_ms"], r["off_ms"], mean(r, 1) / highest, mean(r, 0) / 1980) for r in runs if r["off_ms"]]


def main(path, limit, idle):
    settled, rows = bursts(path)
    watts = (limit - idle) / settled ** 1.5
    laws = {"kept: each 20 ms, remembers 0.29, rises by half": lambda: Filtered(limit, idle),
            "remembers nothing": lambda: Filtered(limit, idle, remembers=0),
            "remembers half": lambda: Filtered(limit, idle, remembers=0.5),
            "rises at once": lambda: Filtered(limit, idle, rises=1),
            "the mean of 50 ms, no memory": lambda: Filtered(limit, idle, 50, 0, 1),
            "the highest window of 2 ms in 50": lambda: HighestWindow(limit, idle)}
    print(f"{'error of the mean clock: mean, worst':50} {'under load':>16} {'in pauses':>16}")
    for name, law in laws.items():
        errors = [[], []]
        for on, off, *measured in rows:
            phases = range(0, law().interval, max(1, law().interval // 10))
            found = zip(*(clocks(law(), watts, on, on + off, phase) for phase in phases))
            for i, values in enumerate(found):
                errors[i].append(abs(statistics.mean(values) / measured[i] - 1))
        print(f"{name:50} " + " ".join(f"{100 * statistics.mean(e):7.1f} % {100 * max(e):4.0f} %" for e in errors))


if __name__ == "__main__":
    main(*(sys.argv[1:2] or [os.path.join(HERE, "bursts.json.gz")]), *(map(float, sys.argv[2:4] or (690, 116))))
