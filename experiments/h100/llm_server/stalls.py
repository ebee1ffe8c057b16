#!/usr/bin/env python3
"""What the server's steps took, beside what steps of their size take without tracing (times.json); and what the host's stalls made of the queue.

  stalls.py          steps, stalls, and the server by arithmetic: its steps one after the other, without the measured stalls,
                     with them, and with those of the run at the other rate

The times of the tokens give each step: a decode ends for all its sequences at once, a prompt for one.  A stall is a decode that takes 1.1 times what
its size takes, or more (nine of ten take less than 1.05 times as much), or a prompt that takes 1.5 times as much (prompts lie up to 1.2 times off).
"""
import bisect
import glob
import gzip
import json
import os
import re
import statistics

HERE = os.path.dirname(os.path.abspath(__file__))
DECODE_STALLS, PROMPT_STALLS, SLOTS = 1.1, 1.5, 16


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


def served(run, times, stalls):
    """Milliseconds to the first token of each sequence and between tokens, if steps take what their sizes do; stalls: (at, ms)."""
    waiting, stalls = list(run["sequences"]), list(stalls)
    now, batch, first, between = 0.0, [], [], []
    while waiting or batch:
        prompt = bool(waiting) and waiting[0]["at_s"] * 1e3 <= now and len(batch) < SLOTS
        if not prompt and not batch:
            now = waiting[0]["at_s"] * 1e3
            continue
        now += times.prompt(waiting[0]["prompt"]) if prompt else times.decode(len(batch), max(s["holds"] for s in batch))
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


def means(first, between):
    return [(statistics.mean(values), statistics.median_low(values)) for values in (first, between)]


def rows(folder=HERE):
    """Of each run: speed; by kind of step its number, the median of its ratio to its size's time and the ratio of the sums; the stalls; the ms of
    the run; mean and median of the first token and between tokens: measured, without stalls, with them, with the next run's."""
    times, runs = Times(folder), []
    for path in sorted(glob.glob(os.path.join(folder, "served*.json.gz"))):
        with gzip.open(path) as file:
            runs.append(json.load(file))
    all_ = [steps(run, times) for run in runs]
    stalls = [stalls_of(of) for of in all_]
    for i, run in enumerate(runs):
        kinds = {}
        for name, kind in (("prompts", True), ("decodes", False)):
            of = [(ms, usual) for _, ms, usual, prompt in all_[i] if prompt == kind]
            kinds[name] = (len(of), statistics.median(ms / usual for ms, usual in of), sum(ms for ms, _ in of) / sum(usual for _, usual in of))
        sequences = run["sequences"]
        measured = means([(s["tokens_s"][0] - s["at_s"]) * 1e3 for s in sequences], [(b - a) * 1e3 for s in sequences for a, b in zip(s["tokens_s"], s["tokens_s"][1:])])
        yield run["speed"], kinds, stalls[i], all_[i][-1][0], [measured, *(means(*served(run, times, of)) for of in ([], stalls[i], stalls[(i + 1) % len(runs)]))]


def main():
    for speed, kinds, stalls, length, ways in rows():
        print(f"rate {speed:g}: " + "; ".join(f"{n} {kind} take {median:.3f} of their sizes' times in the median, {total:.3f} in all" for kind, (n, median, total) in kinds.items()))
        print(f"  {len(stalls)} stalls of together {sum(ms for _, ms in stalls):.0f} ms in {length / 1e3:.1f} s; ms, mean and median")
        for i, what in enumerate(("first token", "between tokens")):
            mean, p50 = ways[0][i]
            print(f"  {what:14} measured {mean:6.2f} {p50:5.2f}" + "".join(f"; {name} {of[i][0]:5.2f} {of[i][1]:5.2f} ({100 * (of[i][0] / mean - 1):+5.1f} {100 * (of[i][1] / p50 - 1):+4.1f} %)"
                  for name, of in zip(("no stalls", "its own", "the other's"), ways[1:])))


if __name__ == "__main__":
    main()
