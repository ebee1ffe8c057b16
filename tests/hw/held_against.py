#!/usr/bin/env python3
"""Holds driver_calls.txt and the built library against a toolkit's cuda.h: held_against.py CUDA_H LIBRARY NM"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "hw/shim"))
from driver_calls import LIST, symbols_of  # noqa: E402

# The driver of 12.6 has them (cudaTypedefs.h of 12.8), its header does not.
LATE = {"cuMemBatchDecompressAsync": 12080, "cuMemBatchDecompressAsync_ptsz": 12080}


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    version = int(re.search(r"^#define CUDA_VERSION (\d+)", text, re.M).group(1))
    declared = symbols_of(text)
    listed = {line.split()[0]: line.split() for line in LIST.read_text().splitlines() if line and line[0] != "#"}
    exported = {line.split()[-1] for line in subprocess.check_output([sys.argv[3], "-D", "--defined-only", sys.argv[2]], text=True).splitlines()}
    passed = {symbol for symbol, (_, _, mark) in listed.items() if mark == "passed"}
    answered = declared & set(listed) - passed
    newer = {symbol for symbol, (_, since, _) in listed.items() if LATE.get(symbol, int(since)) > version}
    wrong = {
        "not in the list": declared - set(listed),
        "of the header by the list, and not there": set(listed) - declared - newer,
        "newer by the list, and there": declared & newer,
        "not answered by the library": answered - exported,
        "answered and not to be": exported & passed,
    }
    for what, symbols in wrong.items():
        for symbol in sorted(symbols):
            print(f"cuda.h {version}: {symbol}: {what}")
    print(f"cuda.h {version}: {len(declared)} entry points are listed, {len(answered)} of them answered; {len(newer)} listed ones are newer")
    sys.exit(any(wrong.values()) or len(declared) < 400)


main()
