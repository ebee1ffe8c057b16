#!/usr/bin/env python3
"""A program of programs.py that fills up its share of memory with a table, a part of which each request changes; knows nothing of corun.

  half.py NAME FOLDER MIB COUNT    waits for FOLDER/go after FOLDER/NAME.ready; hashes the outputs of COUNT requests and, at the end, the table
"""
import hashlib
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../h200/live"))
import programs  # noqa: E402
import torch  # noqa: E402

PART = 16 << 20  # bytes of the table that a request changes


def main(name, folder, mib, count):
    began = time.perf_counter()
    make = {"decode-flash": programs.decode_flash, "vision": programs.vision, "prefill": programs.prefill, "train": programs.train}
    digest = hashlib.sha256()
    with torch.set_grad_enabled(name == "train"):
        request = make[name.removesuffix("-graph")]()
        if name.endswith("-graph"):
            request = programs.as_graph(request)
        for _ in range(8):
            digest.update(request().detach().cpu().numpy().tobytes())
        own = torch.cuda.memory_reserved()
        parts = ((int(mib) << 20) - own) // PART
        table = [torch.full((PART // 4,), 7 * i + 1, dtype=torch.int32, device="cuda") for i in range(parts)]
        torch.cuda.synchronize()
        ready = time.perf_counter()
        open(os.path.join(folder, name + ".ready"), "w").close()
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.002)
        go, longest = time.perf_counter(), 0
        for i in range(int(count)):
            since = time.perf_counter()
            digest.update(request().detach().cpu().numpy().tobytes())
            part = table[i % parts]
            part.mul_(1664525).add_(i)
            longest = max(longest, time.perf_counter() - since)
        for part in table:
            digest.update(part.cpu().numpy().tobytes())
        end = time.perf_counter()
    print(json.dumps({"program": name, "hash": digest.hexdigest(), "reserved_mib": torch.cuda.memory_reserved() >> 20, "without_table_mib": own >> 20,
                      "allocate_s": round(ready - began, 3), "s": round(end - go, 3), "longest_s": round(longest, 4)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
