#!/usr/bin/env python3
"""System throughput of two and three programs that all make one request after the other: the sum of what each gets done, as a share of what it
gets done alone without the library on the same card.

  stp.py SIM OUT.json FOLDER SECONDS "MODE[;MODE...]" PROGRAM...    MODE: turns (no MPS; to be first, its runs alone are what all are compared
                                                                    with), mps, or a policy of `sim serve` (and further options of it), for
                                                                    which the first program is real-time
In each mode the programs are started once, and each set of them, down to each alone, runs for a while.
"""
import itertools
import json
import sys
import time

import sets


def main(sim, path, folder, seconds, modes, *programs):
    data = {"gpu": sets.gpu(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "programs": programs, "runs": []}
    all_sets = [s for n in range(1, len(programs) + 1) for s in itertools.combinations(programs, n)]
    for mode in modes.split(";"):
        began = time.time()
        row = sets.run(sim, folder, mode, float(seconds), programs, all_sets)
        data["runs"].append(row)
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
        alone = {next(iter(s)): s[next(iter(s))]["per_s"] for s in data["runs"][0]["sets"] if len(s) == 1}
        print(f"{mode} ({time.time() - began:.0f} s)", row["failed"] or "; ".join(
            f"{'+'.join(s)} {sum(r['per_s'] / alone[p] for p, r in s.items()):.3f} (" + ", ".join(f"{r['per_s'] / alone[p]:.3f}" for p, r in s.items()) + ")"
            for s in row["sets"]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
