#!/usr/bin/env python3
"""What the second run of `sim capture`, on a quarter of the GPU, tells of a program under MPS percentages.

  second_run.py program          on the GPU: an encoder of six layers in fp16, batches of 32 x 256; prints ms a batch, from 200 of them
  second_run.py measure SIM OUT  on the GPU, 1 min: captured as it is and with --once, and measured under 10, 25, 50 and 75 %; writes OUT.json.gz
  second_run.py judge SIM        anywhere: simulated beside measured (encoder.json.gz)
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PERCENT = (10, 25, 50, 75)


def program():
    import torch

    layers = [torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True) for _ in range(6)]
    network, batch = torch.nn.Sequential(*layers).cuda().half().eval(), torch.randn(32, 256, 1024, device="cuda", dtype=torch.half)
    with torch.no_grad():
        for _ in range(60):
            with torch.cuda.nvtx.range("request"):
                network(batch)
                torch.cuda.synchronize()
        began = time.time()
        for _ in range(200):
            network(batch)
            torch.cuda.synchronize()
    print("ms", 5 * (time.time() - began))


def measure(sim, out):
    command = [sys.executable, os.path.abspath(__file__), "program"]

    def ms(**environment):
        ran = subprocess.run(command, env=dict(os.environ, **environment), check=True, capture_output=True, text=True)
        return float(ran.stdout.split()[-1])
    said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    found = {"gpu": said, "date": time.strftime("%Y-%m-%d", time.gmtime()), "command": "second_run.py measure", "ms": {"100": ms()}, "captured": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (("second", []), ("once", ["--once"])):
            trace = f"{folder}/{name}.json"
            subprocess.run([sim, "capture", *options, "--gpu=h200", "--name=encoder", "-o", trace, "--", *command], check=True)
            with open(trace) as file:
                found["captured"][name] = json.load(file)
        os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
        try:
            found["ms"] |= {str(p): ms(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(p)) for p in PERCENT}
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True)
    with gzip.open(out + ".json.gz", "wt", 9) as file:
        json.dump(found, file)


def judge(sim):
    with gzip.open(os.path.join(HERE, "encoder.json.gz"), "rt") as file:
        found = json.load(file)
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, trace in found["captured"].items():
            with open(f"{folder}/{name}.json", "w") as file:
                json.dump(trace, file)
            for p in PERCENT:
                ran = subprocess.run([sim, f"--policy=mps:percentages={p}", f"--client=encoder={folder}/{name}.json,closed", "--duration=200ms", "--json"],
                                     check=True, capture_output=True, text=True)
                errors[name, p] = json.loads(ran.stdout)["clients"][0]["mean_ms"] / found["ms"][str(p)] - 1
    return errors


if __name__ == "__main__":
    if sys.argv[1:] == ["program"]:
        program()
    elif sys.argv[1:2] == ["measure"] and len(sys.argv) == 4:
        measure(os.path.abspath(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["judge"] and len(sys.argv) == 3:
        for (name, percent), error in judge(os.path.abspath(sys.argv[2])).items():
            print(f"{name:8}{percent:4} %{100 * error:+7.1f} %")
    else:
        sys.exit(__doc__)
