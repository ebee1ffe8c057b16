#!/usr/bin/env python3
"""Fails unless `auditwheel show` finds that a wheel runs beside glibc 2.NEWEST, with what every distribution has.

    packaging/check_wheel.py NEWEST WHEEL...
"""

import re
import subprocess
import sys


def glibc_of(said):
    """What `auditwheel show` takes for the oldest glibc 2.x; None: a library that not every distribution has."""
    tag = re.search(r'following platform\s+tag:\s+"(\w+)"', " ".join(said.split()))
    if tag is None:
        raise ValueError(f"auditwheel says no platform tag:\n{said}")
    manylinux = re.fullmatch(r"manylinux_2_(\d+)_\w+", tag[1])
    return int(manylinux[1]) if manylinux else None


def main(arguments):
    newest, wheels = int(arguments[0]), arguments[1:]
    for wheel in wheels:
        said = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], check=True, capture_output=True, text=True).stdout
        glibc = glibc_of(said)
        if glibc is None:
            print(f"{wheel} links libraries that are not everywhere:\n{said}", file=sys.stderr)
            return 1
        if glibc > newest:
            print(f"{wheel} needs glibc 2.{glibc}, newer than 2.{newest}:\n{said}", file=sys.stderr)
            return 1
        print(f"{wheel} runs beside glibc 2.{glibc} and newer")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
