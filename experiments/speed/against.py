#!/usr/bin/env python3
"""How fast the simulator is beside an earlier one: seconds of one core for a simulated second of an H200.

    against.py EARLIER_SIM SIM [--rounds N] [--policies fcfs,reef-n,greedy] [--markdown FILE]

Both run each example in turn, so that what else the machine does meets both; the least of the rounds counts,
since other work only adds.  Processor time of the whole command, the clients alone and the fits included.

Then two networks with counters, to the first event and 100 ms after it, and the four examples block by block, in
seconds of one core for what is simulated."""

import argparse
import json
import os
import resource
import subprocess
import tempfile

EXAMPLES = {
    "real-time ResNet-50 beside ResNet-152": ("realtime-resnet50-beside-resnet152", 1.0),
    "six clients": ("six-clients", 0.5),
    "three best-effort": ("three-best-effort", 0.5),
    "DISB E": ("disb-2024-e", 0.25),
}


HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = os.path.normpath(os.path.join(HERE, "../h200/networks/traces"))


def seconds(sim, policy, trace, duration, *options):
    """Processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sim, f"--policy={policy}", f"--duration={round(duration * 1e6)}us", *options, trace], check=True,
                   stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_counters(folder):
    """BERT beside a recommender, as a trace that 06a3354 reads too."""
    clients = [("bert_b8_bf16", "real_time", {"type": "periodic", "period_ns": 3_000_000}),
               ("dlrm_b2048", "best_effort", {"type": "closed_loop"})]
    trace = {"corun_trace": 1, "name": "BERT beside a recommender", "gpu": "h200",
             "include": [os.path.join(NETWORKS, f"{name}.json.gz") for name, *_ in clients],
             "clients": [{"name": name, "program": f"{name}.graph", "class": kind, "arrivals": arrivals}
                         for name, kind, arrivals in clients]}
    file = os.path.join(folder, "with_counters.json")
    with open(file, "w") as out:
        json.dump(trace, out)
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("earlier")
    parser.add_argument("sim")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policies", default="fcfs,reef-n,greedy")
    parser.add_argument("--markdown")
    arguments = parser.parse_args()
    folder = os.path.normpath(os.path.join(HERE, "../../traces/h200/examples"))
    lines = ["| example | policy | earlier, s | now, s | earlier / now |", "|---|---|---|---|---|"]

    def least(*run):
        """Of the rounds, for both."""
        rounds = [[seconds(sim, *run) for sim in (arguments.earlier, arguments.sim)] for _ in range(arguments.rounds)]
        return [min(times) for times in zip(*rounds)]

    def row(name, policy, earlier, now):
        lines.append(f"| {name} | {policy} | {earlier:.2f} | {now:.2f} | {earlier / now:.2f} |")
        print(lines[-1], flush=True)

    for name, (file, duration) in EXAMPLES.items():
        for policy in arguments.policies.split(","):
            row(name, policy, *(t / duration for t in least(policy, os.path.join(folder, f"{file}.json"), duration)))
    with tempfile.TemporaryDirectory() as made:
        trace = with_counters(made)
        first, later = least("fcfs", trace, 1e-6), least("fcfs", trace, 0.1)
    row("BERT beside a recommender, with counters: to the first event", "fcfs", *first)
    row("the same: 100 ms after it", "fcfs", *(b - a for a, b in zip(first, later)))
    for name, (file, duration) in EXAMPLES.items():
        row(f"{name}, block by block", "fcfs", *least("fcfs", os.path.join(folder, f"{file}.json"), duration / 50, "--no-shortcuts"))
    if arguments.markdown:
        with open(arguments.markdown, "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
