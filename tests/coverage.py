#!/usr/bin/env python3
"""Lines and branches that ran, by folder, of a build with gcov's counters (`make coverage`).

    python3 tests/coverage.py BUILD

A line that several objects have ran if it ran in one. Branches are those between which code chooses, and not exceptions. What a process
counts that is killed or ends by _exit is lost.
"""
import collections, concurrent.futures, json, os, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("traces", "policies", "sim", "hw")


def counted(file):
    told = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", str(file)], capture_output=True, text=True, cwd=file.parent)
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    lines, branches = collections.Counter(), {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for told in pool.map(counted, sorted(build.rglob("*.gcda"))):
            for file in (file for each in told for file in each["files"]):
                path = pathlib.Path(os.path.normpath(build / file["file"]))
                if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
                    continue
                for line in file["lines"]:
                    at = (str(path.relative_to(ROOT)), line["line_number"])
                    lines[at] += line["count"]
                    ran = [b["count"] != 0 for b in line["branches"] if not b["throw"]]
                    before = branches.setdefault(at, ran)
                    if len(ran) > len(before):  # of another instance of a template
                        branches[at], before, ran = ran, ran, before
                    for i, each in enumerate(ran):
                        before[i] |= each
    if not lines:
        sys.exit(f"{build}: no counters; build it by `cmake --preset coverage` and run tests")
    folders = collections.defaultdict(lambda: [0, 0, 0, 0])
    for at, count in lines.items():
        for folder in (os.path.dirname(at[0]), "all"):
            row = folders[folder]
            row[0] += 1
            row[1] += count != 0
            row[2] += len(branches[at])
            row[3] += sum(branches[at])
    print(f"{'':28}{'lines':>8}{'ran':>8}{'branches':>10}{'ran':>8}")
    for folder in sorted(folders, key=lambda f: (f == "all", f)):
        has, ran, ways, went = folders[folder]
        print(f"{folder:28}{has:8}{ran / has:8.1%}{ways:10}{went / ways if ways else 1:8.1%}")


if __name__ == "__main__":
    main()
