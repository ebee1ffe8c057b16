#!/usr/bin/env python3
"""Brings driver_calls.txt up to a cuda.h: python3 hw/shim/driver_calls.py INCLUDE_FOLDER > new; mv new hw/shim/driver_calls.txt

Each line is an entry point of the driver by its symbol, since which version of CUDA cuGetProcAddress means it by its name (cudaTypedefs.h),
and what the library does with it.  Marks are kept; what is new gets a ?, for whoever looks at it, and a test refuses that.
"""
import collections
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).with_name("driver_calls.txt")


def symbols_of(header):
    """Names as the driver's library has them: what the header's macros make of the names it declares."""
    begin = header.index("CUDA API versioning support")
    of = {}
    for name, variant, symbol in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(cu\w+)[ \t]+(?:__CUDA_API_(PT[DS][SZ])\()?(cu\w+)\)?[ \t]*$", header[:begin], re.M):
        of.setdefault(name, [symbol] + ([f"{symbol}_{variant.lower()}"] if variant else []))
    declared = r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\("
    found = set(re.findall(declared, header[begin:]))
    for name in re.findall(declared, header[:begin]):
        found.update(of.get(name, [name]))
    return found


def parts_of(symbol):
    """The name that programs ask for, its number, its variant."""
    plain, variant = re.fullmatch(r"(\w+?)(_pts[z]|_ptds)?", symbol).groups()
    name, number = re.fullmatch(r"(\w+?)(?:_v(\d))?", plain).groups()
    return name, int(number or 1), variant or ""


def since_of(symbols, typedefs):
    versions, of_name = collections.defaultdict(set), collections.defaultdict(list)
    for name, version, variant in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", typedefs):
        versions[name, variant].add(int(version))
    for symbol in symbols:
        name, number, variant = parts_of(symbol)
        of_name[name, variant].append((number, symbol))
    since = {}
    for key, all_of in of_name.items():
        known = sorted(versions[key])
        for (_, symbol), version in zip(sorted(all_of, reverse=True), reversed(known)):
            since[symbol] = version
    return since


def main():
    folder = pathlib.Path(sys.argv[1])
    header = (folder / "cuda.h").read_text()
    symbols = symbols_of(header)
    since = since_of(symbols, (folder / "cudaTypedefs.h").read_text())
    version = re.search(r"^#define CUDA_VERSION (\d+)", header, re.M).group(1)
    head, marks, before = [], {}, {}
    for line in LIST.read_text().splitlines() if LIST.exists() else []:
        if line.startswith("#") or not line:
            head.append(line)
            continue
        symbol, first, mark = line.split()
        marks[symbol], before[symbol] = mark, first
    print("\n".join(re.sub(r"^# cuda.h \d+$", f"# cuda.h {version}", line) for line in head))
    for symbol in sorted(symbols | set(marks)):
        print(symbol, since.get(symbol, before.get(symbol, 0)), marks.get(symbol, "?"))


if __name__ == "__main__":
    main()
