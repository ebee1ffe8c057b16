#!/usr/bin/env python3
"""Networks in MIG instances of an A100 80GB: what ParvaGPU published beside what is simulated from recordings of an H200.

    parva.py SIM              the table of the README
    parva.py --read FOLDER    published.json anew, from prof_data of github.com/MunQ-Lee/ParvaGPU_SC24

ParvaGPU ran one to five processes of a network in an instance, all under MPS.  A figure is the most images a second that
the processes of an instance reached together, and by how many.  It is "full" where a further process had raised the sum by
less than 5 %: then the GPU decides.  Where each process still adds its own, their hosts do, and nothing is compared."""
import csv
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = HERE.parent / "h200/networks/traces"
SIZES = {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb", 7: "7g.80gb"}
NETWORKS = {"resnet50_b1": ("resnet50", 1), "vgg19_b1": ("vgg19", 1), "resnet152_b8": ("resnet152", 8),
            "densenet201_b1": ("densenet201", 1), "inception3_b1": ("inceptionv3", 1)}
REQUESTS = 8  # of each process


def read(folder):
    published = {}
    for network, (name, batch) in NETWORKS.items():
        with open(folder / f"{name}.csv") as file:
            rows = [row for row in csv.DictReader(file) if int(row["Batch size"]) == batch and float(row["Throughput"]) > 0]
        for slices, profile in SIZES.items():
            together = {n: n * float(row["Throughput"]) for row in rows
                        if int(row["Mig instance"]) == slices and (n := int(row["Workload Number"]))}
            most = max(together, key=together.get)
            full = any(n - 1 in together and together[n] < 1.05 * together[n - 1] for n in together)
            published.setdefault(network, {})[profile] = {"processes": most, "images_per_s": round(together[most], 1), "full": full}
    return published


def simulated(sim, network, profile, processes, seconds):
    """Images a second of `processes` processes together, each with its next request as soon as the last has ended."""
    trace = TRACES / f"{network}.json.gz"
    with gzip.open(trace) as file:
        program = json.load(file)["programs"][0]["name"]
    clients = [f"p{i}" for i in range(processes)]
    mix = {"corun_trace": 1, "name": network, "gpu": "h200", "include": [str(trace)],
           "clients": [{"name": c, "program": program, "arrivals": {"type": "closed_loop"}} for c in clients],
           "run": {"duration_ns": round(seconds * 1e9)}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(mix, file)
        file.flush()
        policy = f"mig:profile={profile},clients={'+'.join(clients)},inside=mps"
        result = json.loads(subprocess.run([sim, "compare", "--json", "--gpus=a100-80gb", "--policies", policy, file.name],
                                           check=True, capture_output=True, text=True).stdout)
    return sum(1000 / c["mean_ms"] for c in result["results"][0]["clients"]) * NETWORKS[network][1]


def rows(sim, requests=REQUESTS, networks=tuple(NETWORKS)):
    """Of each figure of these networks that the GPU decides: network, profile, processes, published, simulated images a second."""
    for network, sizes in json.loads((HERE / "published.json").read_text())["figures"].items():
        for profile, figure in sizes.items():
            if network not in networks or not figure["full"]:
                continue
            n, published = figure["processes"], figure["images_per_s"]
            seconds = requests * n * NETWORKS[network][1] / published
            yield network, profile, n, published, simulated(sim, network, profile, n, seconds)


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        document = json.loads((HERE / "published.json").read_text())
        document["figures"] = read(Path(sys.argv[2]))
        (HERE / "published.json").write_text(json.dumps(document, indent=1) + "\n")
    else:
        print("| network | instance | processes | published, images/s | simulated | error |\n|---|---|---|---|---|---|")
        for network, profile, n, published, found in rows(sys.argv[1]):
            print(f"| {network} | {profile} | {n} | {published:.0f} | {found:.0f} | {100 * (found / published - 1):+.1f} % |")
