#!/usr/bin/env python3
"""clang-tidy of each file of a build, in an order of its own each commit, for so long as there is time.

    tests/tidy.py BUILD [SECONDS [FILE...]]      BUILD: build/tidy, of `cmake --preset tidy`; FILE: these alone

A finding that .clang-tidy has as an error ends with 1, others are told. Files that were not reached are counted, and are no failure.
"""
import concurrent.futures, json, os, pathlib, random, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("hw", "policies", "sim", "tests", "traces")
# The analyzer takes four times as long as all else.
CHECKS = "--checks=-clang-analyzer-*"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, ends = pathlib.Path(sys.argv[1]).resolve(), time.monotonic() + float((sys.argv + ["1e9"])[2])
    once = {each["file"]: each for each in json.loads((build / "compile_commands.json").read_text())}  # some belong to two targets
    (build / "once").mkdir(exist_ok=True)
    (build / "once/compile_commands.json").write_text(json.dumps(list(once.values())))
    files = [str(pathlib.Path(file).relative_to(ROOT)) for file in sorted(once) if pathlib.Path(file).is_relative_to(ROOT)]
    files = [file for file in files if file.split("/")[0] in FOLDERS and (not sys.argv[3:] or file in sys.argv[3:])]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    random.Random(commit).shuffle(files)

    def look(file):
        left = ends - time.monotonic()
        try:
            return left > 0 and subprocess.run(["clang-tidy-19", "--quiet", "-p", build / "once", CHECKS, file], cwd=ROOT,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            return None

    reached, wrong, found = 0, 0, {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, told in zip(files, pool.map(look, files)):
            reached += bool(told)
            if told and told.returncode:
                wrong += 1
                print(told.stdout or f"{file}: {told.stderr}", flush=True)
            if told:  # headers are read more than once
                found.update((line, None) for line in told.stdout.splitlines() if ": warning: " in line)
    print("\n".join(found))
    print(f"clang-tidy: {reached} of {len(files)} files, errors in {wrong}, {len(found)} warnings; not reached: {len(files) - reached} files")
    sys.exit(wrong > 0 or not files)


if __name__ == "__main__":
    main()
