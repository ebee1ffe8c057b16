#!/usr/bin/env python3
"""How fast the simulator is beside an earlier one: seconds of one core for a simulated second of an H200.

    against.py EARLIER_SIM SIM [--rounds N] [--policies fcfs,reef-n,greedy] [--markdown FILE]

Both run each example in turn, so that what else the machine does meets both; the least of the rounds counts,
since other work only adds.  Processor time of the whole command, the clients alone and the fits included."""

import argparse
import os
import resource
import subprocess

EXAMPLES = {
    "real-time ResNet-50 beside ResNet-152": ("realtime-resnet50-beside-resnet152", 1.0),
    "six clients": ("six-clients", 0.5),
    "three best-effort": ("three-best-effort", 0.5),
    "DISB E": ("disb-2024-e", 0.25),
}


def seconds(sim, policy, trace, duration):
    """Processor time of one run over the simulated time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sim, f"--policy={policy}", f"--duration={duration * 1e3:g}ms", trace], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / duration


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("earlier")
    parser.add_argument("sim")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policies", default="fcfs,reef-n,greedy")
    parser.add_argument("--markdown")
    arguments = parser.parse_args()
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../traces/h200/examples")
    lines = ["| example | policy | earlier, s | now, s | earlier / now |", "|---|---|---|---|---|"]
    for name, (file, duration) in EXAMPLES.items():
        for policy in arguments.policies.split(","):
            trace = os.path.normpath(os.path.join(folder, f"{file}.json"))
            rounds = [(seconds(arguments.earlier, policy, trace, duration),
                       seconds(arguments.sim, policy, trace, duration)) for _ in range(arguments.rounds)]
            earlier, now = (min(r[i] for r in rounds) for i in range(2))
            lines.append(f"| {name} | {policy} | {earlier:.2f} | {now:.2f} | {earlier / now:.2f} |")
            print(lines[-1], flush=True)
    if arguments.markdown:
        with open(arguments.markdown, "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
