#!/usr/bin/env python3
"""Would a test notice if a line of the service or of the library were another one?

    python3 tests/hw/mutation.py BUILD FILE... [--each N] [--jobs N] [--seconds N] > rows.jsonl

Mutants are of universalmutator (PyPI; a package that is installed, or a folder in PYTHONPATH), N of each file, drawn by a hash. Each is compiled
by itself and linked into hw_world_test (its written tests, and 400 seeds) and into hw_live_test (its tests without processes); the build is one
of `make test`. A row has file, line, what stood there and what stands there now, and the outcome: "compiles not", "same code" (the compiler sees
no difference), the test that failed, "time", or "lives". Which lives and why is in mutation.md beside this file.
"""
import argparse, concurrent.futures, contextlib, hashlib, io, json, os, pathlib, re, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = "Books.*:BooksMemory.*:Groups.*:Limits.*:Metrics.*:MetricsFileTest.*:LiveRecording.*:Policies/EachPolicy.*"


def mutants(path, most):
    from universalmutator import mutator
    source = path.read_text().splitlines(keepends=True)
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutator.mutants_regexp(source, ruleFiles=["universal.rules", "c_like.rules", "cpp.rules"], ignorePatterns=[], ignoreStringOnly=True)
    rows = {}
    for number, line, *_ in found:
        before = source[number - 1]
        if line.strip() == before.strip() or before.lstrip().startswith(("//", "#", "using ", "namespace ", "}")):
            continue
        key = f"{path.name}:{number}:{line}"
        rows[hashlib.sha256(key.encode()).hexdigest()] = {"file": str(path), "line": number, "was": before.rstrip("\n"), "is": line.rstrip("\n")}
    return [rows[k] for k in sorted(rows)[:most]]


class Build:
    """Commands of a build as `ninja -t commands` tells them, for files that it compiles together too."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        world, live = self.commands("hw_world_test"), self.commands("hw_live_test")
        compiles = next(c for c in world if "-c " in c and "/hw/world/fiber.cpp" in c)
        self.compile = [a for a in compiles[compiles.index("c++"):].split()[1:] if not a.startswith(("-M", "-W")) and not a.endswith((".d", ".o", "fiber.cpp"))]
        self.compile = [a for a in self.compile if a not in ("-o", "-c")]
        self.objects = self.folder / "mutation"
        self.objects.mkdir(exist_ok=True)
        self.live = self.link(live[-1])
        self.world = [a for a in self.link(world[-1]) if not re.search(r"corun_world\.dir/(Unity|__/hw)", a)]
        skip = {"decompress.cpp", "dlsym.cpp", "driver.cpp", "driver_calls.cpp", "fat_binary.cpp"}
        self.sources = [p for d in ("live", "shim") for p in sorted((ROOT / "hw" / d).glob("*.cpp")) if d == "live" or p.name not in skip]

    def commands(self, target):
        told = subprocess.run(["ninja", "-C", str(self.folder), "-t", "commands", target], capture_output=True, text=True, check=True)
        return told.stdout.splitlines()

    @staticmethod
    def link(command):
        words = command[command.index("c++"):].split(" && ")[0].split()[1:]
        at = words.index("-o")
        return [w for w in words[:at] + words[at + 2:] if w != "-fuse-ld=mold"]

    def object_of(self, source, to):
        return subprocess.run(["c++", *self.compile, "-c", str(source), "-o", str(to)], cwd=self.folder, capture_output=True, text=True)

    def prepare(self, pool):
        for source, done in zip(self.sources, pool.map(lambda s: self.object_of(s, self.objects / (s.name + ".o")), self.sources)):
            if done.returncode != 0:
                sys.exit(f"{source}: {done.stderr}")


def run(command, seconds, **environment):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace", env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode == 0:
        return None
    failed = re.findall(r"\[  FAILED  \] ([\w/.]+)", done.stdout)
    return failed[0] if failed else f"ended with {done.returncode}"


def outcome(build, row, seconds):
    source = ROOT / row["file"]
    lines = source.read_text().splitlines(keepends=True)
    lines[row["line"] - 1] = row["is"] + "\n"
    with tempfile.TemporaryDirectory() as folder:
        mutant, made = pathlib.Path(folder) / source.name, pathlib.Path(folder) / "mutant.o"
        mutant.write_text("".join(lines))
        if build.object_of(mutant, made).returncode != 0:
            return "compiles not"
        own = build.objects / (source.name + ".o")
        if "was" in row and subprocess.run(["cmp", "-s", str(made), str(own)]).returncode == 0:
            return "same code"
        others = [str(build.objects / (s.name + ".o")) for s in build.sources if s != source]
        test = os.path.join(folder, "test")
        if "os::" not in source.read_text():
            done = subprocess.run(["c++", str(made), *build.live, "-Wl,--allow-multiple-definition", "-o", test], cwd=build.folder, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            if (failed := run([test, f"--gtest_filter={UNITS}"], seconds, CORUN_SIM=str(build.folder / "bin/sim"))) is not None:
                return failed
        done = subprocess.run(["c++", str(made), *others, *build.world, "-o", test], cwd=build.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        failed = run([test, "--gtest_filter=-Part/*:Each/Plant.*:OneWorld.*"], seconds)
        return failed or run([test, "--gtest_filter=Part/*"], seconds, CORUN_WORLD_SEEDS="400") or "lives"


def main():
    asked = argparse.ArgumentParser(usage=__doc__)
    asked.add_argument("build")
    asked.add_argument("files", nargs="+")
    asked.add_argument("--each", type=int, default=100)
    asked.add_argument("--jobs", type=int, default=os.cpu_count())
    asked.add_argument("--seconds", type=int, default=10**6)
    asked.add_argument("--list", help="mutants listed before, one a line, instead of universalmutator's")
    a = asked.parse_args()
    until = time.monotonic() + a.seconds
    os.chdir(ROOT)
    if a.list:
        rows = [json.loads(line) for line in open(a.list)]
    else:
        rows = [row for f in a.files for row in mutants(pathlib.Path(f), a.each)]
        rows.sort(key=lambda r: hashlib.sha256((r["file"] + str(r["line"]) + r["is"]).encode()).hexdigest())
    if a.seconds == 0:
        return [print(json.dumps(row)) for row in rows]
    build = Build(a.build)
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        build.prepare(pool)
        whole = outcome(build, {"file": str(build.sources[0].relative_to(ROOT)), "line": 1, "is": build.sources[0].read_text().splitlines()[0]}, 60)
        if whole != "lives":
            sys.exit(f"the tests fail before anything is changed: {whole}")

        def one(row):
            if time.monotonic() < until:
                print(json.dumps({**row, "outcome": outcome(build, row, 20)}), flush=True)

        list(pool.map(one, rows))


if __name__ == "__main__":
    main()
