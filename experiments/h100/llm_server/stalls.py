#!/usr/bin/env python3
"""What the server's steps took, beside what steps of their size take without tracing (times.json); and what the host made of the queue.

  stalls.py          of each server and each of its runs the pace of its steps, its stalls, and the server by arithmetic: its steps one after
                     the other; with the stalls of the phases of steps; with its own; and with those of the phases at the run's own pace

The times of the tokens give each step: a decode ends for all its sequences at once, a prompt for one.  A stall is here a decode that takes 1.1 times
what its size takes, or more (nine of ten take less than 1.05 times as much), or a prompt that takes 1.5 times as much (prompts lie up to 1.2 times
off).  It is what the step lost: of what the host lost the GPU hides up to 3 ms.  The pace is the median of what decodes take beside their sizes' times.
"""
import bisect
import glob
import gzip
import json
import os
import re
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
DECODE_STALLS, PROMPT_STALLS, SLOTS, PLACES = 1.1, 1.5, 16, 20


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


class Times:
    """Between the sizes of times.json."""

    def __init__(self, folder):
        with open(os.path.join(folder, "times.json")) as file:
            of = {tuple(map(int, re.findall("[0-9]+", name))): ms for name, ms in json.load(file).items()}
        self.prompts = {size[0]: ms for size, ms in of.items() if len(size) == 1}
        self.decodes = {size: ms for size, ms in of.items() if len(size) == 2}
        self.tokens, self.batches, self.contexts = (sorted(set(of)) for of in (
            self.prompts, [b for b, _ in self.decodes], [c for _, c in self.decodes]))

    @staticmethod
    def around(sizes, wanted):
        wanted = min(max(wanted, sizes[0]), sizes[-1])
        i = min(bisect.bisect_right(sizes, wanted) - 1, len(sizes) - 2)
        return sizes[i], sizes[i + 1], (wanted - sizes[i]) / (sizes[i + 1] - sizes[i])

    def prompt(self, tokens):
        a, b, way = self.around(self.tokens, tokens)
        return self.prompts[a] * (1 - way) + self.prompts[b] * way

    def decode(self, batch, longest):
        a, b, of_batch = self.around(self.batches, batch)
        c, d, of_context = self.around(self.contexts, longest)
        at = [self.decodes[a, x] * (1 - of_batch) + self.decodes[b, x] * of_batch for x in (c, d)]
        return at[0] * (1 - of_context) + at[1] * of_context


def steps(run, times):
    """(ends at, ms, ms that its size takes, is a prompt)."""
    sequences, ends = run["sequences"], {}
    for i, s in enumerate(sequences):
        for token, at in enumerate(s["tokens_s"]):
            ends.setdefault(at, []).append((i, token))
    found, before = [], 0
    for at, of in sorted(ends.items()):
        first = sequences[of[0][0]]
        prompt = of[0][1] == 0
        began = max(before, first["at_s"]) if prompt else before
        usual = times.prompt(first["prompt"]) if prompt else times.decode(len(of), max(sequences[i]["prompt"] + token for i, token in of))
        found.append((at * 1e3, (at - began) * 1e3, usual, prompt))
        before = at
    return found


def served(run, times, stalls, pace=1):
    """Milliseconds to the first token of each sequence and between tokens, if steps take `pace` times what their sizes do; stalls: (at, ms)."""
    waiting, stalls = list(run["sequences"]), list(stalls)
    now, batch, first, between = 0.0, [], [], []
    while waiting or batch:
        prompt = bool(waiting) and waiting[0]["at_s"] * 1e3 <= now and len(batch) < SLOTS
        if not prompt and not batch:
            now = waiting[0]["at_s"] * 1e3
            continue
        now += pace * (times.prompt(waiting[0]["prompt"]) if prompt else times.decode(len(batch), max(s["holds"] for s in batch)))
        while stalls and stalls[0][0] <= now:
            now += stalls.pop(0)[1]
        if prompt:
            s = waiting.pop(0)
            first.append(now - s["at_s"] * 1e3)
            batch.append({"holds": s["prompt"] + 1, "left": s["generated"] - 1, "last": now})
        else:
            for s in batch:
                between.append(now - s["last"])
                s.update(holds=s["holds"] + 1, left=s["left"] - 1, last=now)
        batch = [s for s in batch if s["left"] > 0]
    return first, between


def stalls_of(all_):
    return [(at - ms, ms - usual) for at, ms, usual, prompt in all_ if ms >= usual * (PROMPT_STALLS if prompt else DECODE_STALLS)]


def stalls_of_phases(folder, times):
    """The same of the phases of steps; and how long they are, ms."""
    each = read(os.path.join(folder, "each.json.gz"))
    sizes = [[int(n) for n in re.findall("[0-9]+", name)] for name in each["names"]]
    found, now = [], 0
    for phase in each["phases"]:
        for name, gap, _, took in phase:
            size = sizes[name]
            usual = times.decodes[tuple(size)] if len(size) == 2 else times.prompts[size[0]]
            now += (gap + took) / 1e3
            found.append((now, took / 1e3, usual, len(size) == 1))
    return stalls_of(found), now


def from_places(stalls, length, wanted, places):
    """As a run of that length meets them that begins at each of that many places of the record."""
    for place in range(places):
        begin = length * place / places
        yield [(at - begin + lap, ms) for lap in (0, length) for at, ms in stalls if begin <= at + lap < begin + wanted]


def means(first, between):
    return [(statistics.mean(values), statistics.median_low(values)) for values in (first, between)]


def mean_of(ways):
    return [tuple(statistics.mean(way[i][q] for way in ways) for q in range(2)) for i in range(2)]


def rows(folder, places=PLACES):
    """Of each run: speed; by kind of step its number, the median of its ratio to its size's time and the ratio of the sums; the median in ms of what
    the host takes over a decode; the ms lost to stalls a second; mean and median of the first token and between tokens, by way."""
    times = Times(folder)
    of_phases, length = stalls_of_phases(folder, times)
    for path in sorted(glob.glob(os.path.join(folder, "served*.json.gz"))):
        run = read(path)
        all_ = steps(run, times)
        kinds = {}
        for name, kind in (("prompts", True), ("decodes", False)):
            of = [(ms, usual) for _, ms, usual, prompt in all_ if prompt == kind]
            kinds[name] = (len(of), statistics.median(ms / usual for ms, usual in of), sum(ms for ms, _ in of) / sum(usual for _, usual in of))
        host = statistics.median(us / 1e3 for us, (_, _, _, prompt) in zip(run["issued_us"], all_) if not prompt)
        sequences, stalls, pace = run["sequences"], stalls_of(all_), kinds["decodes"][1]
        laps = list(from_places(of_phases, length, all_[-1][0] + 1000, places))
        yield run["speed"], kinds, host, sum(ms for _, ms in stalls) / all_[-1][0] * 1e3, {
            "measured": means([(s["tokens_s"][0] - s["at_s"]) * 1e3 for s in sequences],
                              [(b - a) * 1e3 for s in sequences for a, b in zip(s["tokens_s"], s["tokens_s"][1:])]),
            "no stalls": means(*served(run, times, [])),
            "the phases'": mean_of([means(*served(run, times, lap)) for lap in laps]),
            "its own": means(*served(run, times, stalls)),
            "at its pace": mean_of([means(*served(run, times, lap, pace)) for lap in laps])}


def main():
    for name in ("first", "second", "third"):
        folder = os.path.join(HERE, name)
        stalls, length = stalls_of_phases(folder, Times(folder))
        print(f"{name} server: {len(stalls)} steps of its phases lost together {sum(ms for _, ms in stalls):.0f} ms in {length / 1e3:.1f} s, {sum(ms for _, ms in stalls) / length * 1e3:.1f} ms a second")
        print(f"{'speed':>7} {'prompts, decodes: pace':>23} {'host':>5} {'lost ms/s':>9}   mean ms to the first token, between tokens: "
              + ", ".join(("measured", "no stalls", "the phases'", "its own", "the phases' at its pace")))
        for speed, kinds, host, lost, ways in rows(folder):
            print(f"{speed:7g} {kinds['prompts'][1]:15.3f} {kinds['decodes'][1]:7.3f} {host:5.2f} {lost:9.1f}   "
                  + "  ".join(f"{of[i][0]:6.2f}" for i in range(2) for of in ways.values()))


if __name__ == "__main__":
    main()
