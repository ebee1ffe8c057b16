#!/usr/bin/env python3
"""A program of programs.py that fills up its share of memory with a table, a part of which each request changes; knows nothing of corun.

  half.py NAME FOLDER MIB COUNT    uses the GPU from FOLDER/start on; waits for FOLDER/go after FOLDER/NAME.ready; hashes the outputs of COUNT
                                   requests, says how many of them differ from the first (each has the same input; a training loop's are
                                   all different), and compares the table at the end with what it should be
"""
import hashlib
import json
import os
import sys
import time

BEGAN = time.perf_counter()
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../h200/live"))
import programs  # noqa: E402
import torch  # noqa: E402

PART = 16 << 20  # bytes of the table that a request changes
IMPORTED = time.perf_counter()


def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.002)


def main(name, folder, mib, count):
    make = {"decode-flash": programs.decode_flash, "vision": programs.vision, "prefill": programs.prefill, "train": programs.train}
    digest, outputs = hashlib.sha256(), []
    wait_for(os.path.join(folder, "start"))
    began = time.perf_counter()

    def asked(request):
        output = request().detach().cpu().numpy()
        digest.update(output.tobytes())
        if not outputs or (output != outputs[0][1]).any():
            outputs.append((requests, output))

    with torch.set_grad_enabled(name == "train"):
        request, requests = make[name.removesuffix("-graph")](), 0
        if name.endswith("-graph"):
            request = programs.as_graph(request)
        for requests in range(8):
            asked(request)
        own, warm = torch.cuda.memory_reserved(), time.perf_counter()
        parts = ((int(mib) << 20) - own) // PART
        if parts < 1:
            sys.exit(f"{name} alone has {own >> 20} MiB, and wants {mib} with a table")
        table = [torch.full((PART // 4,), 7 * i + 1, dtype=torch.int32, device="cuda") for i in range(parts)]
        values = [7 * i + 1 for i in range(parts)]
        torch.cuda.synchronize()
        ready = time.perf_counter()
        open(os.path.join(folder, name + ".ready"), "w").close()
        wait_for(os.path.join(folder, "go"))
        go, longest = time.perf_counter(), 0
        for i in range(int(count)):
            since, requests = time.perf_counter(), requests + 1
            asked(request)
            part = table[i % parts]
            part.mul_(1664525).add_(i)
            values[i % parts] = (values[i % parts] * 1664525 + i) % 2**32
            longest = max(longest, time.perf_counter() - since)
        asked_all = time.perf_counter()
        wrong = [int((part.cpu().numpy().view("uint32") != value).sum()) for part, value in zip(table, values)]
        end = time.perf_counter()
    differs = [] if name == "train" else [{"request": n, "by": float(abs(o.astype("float64") - outputs[0][1]).max()), "in": int((o != outputs[0][1]).sum())}
                                          for n, o in outputs[1:]]
    print(json.dumps({"program": name, "hash": digest.hexdigest(), "first": hashlib.sha256(outputs[0][1].tobytes()).hexdigest()[:16],
                      "differ from the first": len(differs), "those": differs[:4], "wrong words": sum(wrong), "wrong parts": sum(w != 0 for w in wrong),
                      "reserved_mib": torch.cuda.memory_reserved() >> 20, "without_table_mib": own >> 20, "import_s": round(IMPORTED - BEGAN, 3),
                      "warm_s": round(warm - began, 3), "allocate_s": round(ready - warm, 3), "s": round(end - go, 3),
                      "requests_s": round(asked_all - go, 3), "longest_s": round(longest, 4)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
