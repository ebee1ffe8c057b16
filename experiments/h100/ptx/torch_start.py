#!/usr/bin/env python3
"""PyTorch under `sim serve --policy=wait` without and with --persistent, from its start to three operations' end.

  torch_start.py PROGRAMS TIMES OUT.json
PROGRAMS: a folder with sim and libcorun_steer.so.
"""
import json
import os
import subprocess
import sys
import time

PROGRAM = ("import torch; a = torch.randn(2048, 2048, device='cuda'); "
           "b = (a @ a).sum() + torch.fft.fft(a).abs().sum() + torch.linalg.inv(a).sum(); torch.cuda.synchronize(); "
           "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, float(b) == float(b))")


def main(programs, times, path):
    sim, rows = programs + "/sim", []
    for i in range(int(times)):
        for name, options in (("plain", []), ("persistent", ["--persistent"])):
            at = f"/tmp/t{i}{name}"
            service = subprocess.Popen([sim, "serve", "--policy=wait", *options, "--at", at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while not os.path.exists(at + "/environment") and service.poll() is None:
                time.sleep(0.01)
            began = time.time()
            out = subprocess.run([sim, "run", "--at", at, "--name", "t", "--", sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=90)
            rows.append({"mode": name, "s": round(time.time() - began, 2), "said": out.stdout.strip(), "err": out.stderr[-300:]})
            service.send_signal(2)
            service.communicate(timeout=15)
    with open(path, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
