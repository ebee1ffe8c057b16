#!/usr/bin/env python3
"""How far a trace and a launch travel through the code, and how much code there is, of an instrumented build:

    cc -O2 -c tests/support/ways_hooks.c -o hooks.o
    cmake -S CHECKOUT -B BUILD -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_EXE_LINKER_FLAGS=$PWD/hooks.o -DCORUN_WITH_CUDA=OFF \\
      -DCMAKE_CXX_FLAGS_DEBUG="-O0 -g1 -finstrument-functions -finstrument-functions-exclude-file-list=/usr/" \\
      -DCORUN_BUILD_TESTS=OFF -DCORUN_BUILD_BENCHMARKS=OFF -DCORUN_BUILD_PYTHON=OFF -DCORUN_INSTALL=OFF
    cmake --build BUILD --target sim
    tests/ways.py CHECKOUT BUILD [--list]

A room is a file; x.h and x.cpp are one. The way of a trace starts at `simulate` of the command: each function is read once, where it is called
first. A stay is a time in one room, a return a stay in a room that was left before. A climb is a pair of rooms of which the lower calls the upper;
which folder is lower says the table of tests/policies/layers_test.cpp in that checkout.
The way of a launch is from the host's call to the session's notice of its end, of a kernel beside another one under fcfs; its types are named below.
Constructors, destructors and assignments are read where they are called.
"""
import json, os, pathlib, re, struct, subprocess, sys, tempfile

FOLDERS = ("traces", "policies", "hw", "sim")
START, CALLED, ENDED = r"simulate\((corun::)?(sim::)?Arguments const&", r"Session::new_view\(", r"Workload::finished\("
ENGINE = ("sim/stages/", "sim/model/", "sim/engine/", "traces/model/")  # the last has the values that all speak of
LAUNCH_TYPES = ("HostCall", "LaunchView", "Launch", "HostLaunch", "SubmittedKernel", "Fate", "Work", "Task", "KernelRecord", "EngineNotice")
TRACE = {
    "corun_trace": 1, "name": "ways", "gpu": "h200", "run": {"duration_ns": 8_000_000},
    "kernels": [{"name": name, "grid": [ctas, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32, "solo_time_ns": ns}
                for name, ctas, ns in (("wide", 528, 5_000_000), ("narrow", 64, 100_000))],
    "programs": [{"name": "see", "ops": [{"launch": "narrow"}]}, {"name": "learn", "ops": [{"launch": "wide"}]}],
    "clients": [{"name": "cam", "program": "see", "class": "real_time", "arrivals": {"type": "periodic", "period_ns": 1_000_000}},
                {"name": "llm", "program": "learn"}]}


def told(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


class Code:
    def __init__(self, source, build):
        self.source, self.build, self.sim = source, build, build / "bin/sim"
        self.symbols = {int(at, 16): name for at, kind, name in (line.split(" ", 2) for line in told("nm", "-C", "--defined-only", self.sim).splitlines())
                        if kind in "tTwW"}
        self.anchor = self.find("__cyg_profile_func_enter")
        text = (source / "tests/policies/layers_test.cpp").read_text()
        self.floor = {folder: i for i, folder in enumerate(re.findall(r'^    \{"([a-z_/]+)"', text[text.index("kLayers"):], re.M))}
        self.files = {}

    def find(self, name):
        plain = {at: re.sub(r"\(anonymous namespace\)::", "", symbol) for at, symbol in self.symbols.items()}
        found = [at for at, symbol in plain.items() if re.fullmatch(r"(corun::)?(sim::)?" + name + ".*", symbol) and not re.search(r"lambda|\[clone|\.cold", symbol)]
        if len(found) != 1:
            sys.exit(f"of {name} there are {len(found)} in {self.sim}: name it anew in tests/ways.py")
        return found[0]

    def run(self, policy):
        """Calls, as (caller, callee), in parts; a part begins with a mark: "called", "ended" or, the first, "begun"."""
        called, ended = self.find(CALLED), self.find(ENDED)
        with tempfile.TemporaryDirectory() as folder:
            trace, calls = pathlib.Path(folder, "trace.json"), pathlib.Path(folder, "calls")
            trace.write_text(json.dumps(TRACE))
            told("taskset", "-c", min(os.sched_getaffinity(0)), self.sim, f"--policy={policy}", trace,
                 env={"CORUN_WAYS": str(calls), "CORUN_WAYS_MARKS": f"{called - self.anchor} {ended - self.anchor}", "PATH": os.environ["PATH"]})
            rows = list(struct.iter_unpack("=QQ", calls.read_bytes()))
        slide, parts = rows[0][0] - self.anchor, [("begun", [])]
        for caller, callee in rows[1:]:
            if caller < 2 and callee - slide == (called, ended)[caller]:
                parts.append((("called", "ended")[caller], []))
            if caller > 1:
                parts[-1][1].append((caller - slide, callee - slide))
        new = sorted({at for _, pairs in parts for pair in pairs for at in pair} - self.files.keys())
        for at, line in zip(new, told("addr2line", "-e", self.sim, input="\n".join(map(hex, new))).splitlines(), strict=True):
            path = pathlib.Path(os.path.normpath(line.rsplit(":", 1)[0]))
            file = str(path.relative_to(self.source)) if path.is_relative_to(self.source) else ""
            self.files[at] = file if file.split("/")[0] in FOLDERS else ""
        return parts

    def name(self, at):
        return re.sub(r"<.*?>+|\(anonymous namespace\)::|corun::|\(.*", "", self.symbols.get(at, hex(at)).replace("(anonymous namespace)::", ""))

    def read(self, at):
        """Whether a reader goes there: neither another's code nor made with its type."""
        words = self.name(at).split("::")
        return self.files[at] != "" and not (words[-1].startswith(("~", "operator=")) or words[-1] in words[-2:-1])

    def room(self, at):
        return self.files[at].rsplit(".", 1)[0]


def way_of_a_trace(code):
    start = code.find(START)
    parent, order, climbs = {start: start}, [start], {}

    def reader(at):
        while not code.read(at) and at != start:
            at = parent[at]
        return at

    for caller, callee in (pair for _, pairs in code.run("greedy") for pair in pairs):
        if caller in parent and callee not in parent:
            parent[callee] = caller
            order += [callee] * code.read(callee)
        if caller in parent and code.read(callee):
            low, high = code.room(reader(caller)), code.room(callee)
            if code.floor.get(os.path.dirname(low), -1) < code.floor.get(os.path.dirname(high), -1):
                climbs.setdefault((low, high), f"{code.name(reader(caller))} -> {code.name(callee)}")
    stays = [code.room(start)]
    for room in (code.room(step) for at in order[1:] for step in (reader(parent[at]), at)):
        stays += [room] * (room != stays[-1])
    return stays, climbs


def way_of_a_launch(code):
    parts, under_way, seen = code.run("fcfs"), 0, 0
    for (what, pairs), (then, _) in zip(parts, parts[1:]):
        under_way += {"called": 1, "ended": -1, "begun": 0}[what]
        seen += what == "called" and then == "ended" and under_way == 2
        if seen == 2:  # not the first, which finds no table filled
            return list(dict.fromkeys(code.files[callee] for _, callee in pairs if code.read(callee)))
    sys.exit("no launch ran beside another one")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    code = Code(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
    (stays, climbs), files = way_of_a_trace(code), way_of_a_launch(code)
    sources = {top: [path for path in (code.source / top).rglob("*") if path.suffix in (".h", ".cpp") and not path.stem.endswith("_bench")] for top in ("sim", "policies")}
    text = {top: "\n".join(path.read_text() for path in paths) for top, paths in sources.items()}
    headers = "\n".join(path.read_text() for folder in ("sim", "policies", "traces/timeline") for path in (code.source / folder).rglob("*.h"))
    types = {name: len(re.findall(rf"^ *(?:struct|class) {name}\b[^;]*?\{{", headers, re.M)) for name in LAUNCH_TYPES}
    outside = [room for room in stays if not room.startswith(ENGINE)]
    apart = [room for room, before in zip(outside, [None, *outside]) if room != before]
    for what, way in (("a trace", stays), ("outside the engine", apart)):
        print(f"{what}: {len(way)} stays in {len(set(way))} rooms, {len(way) - len(set(way))} returns, {len(climbs)} climbs")
    print(f"a launch: {len(files)} files, {sum(types.values())} types: " + ", ".join(f"{name} {count}" for name, count in types.items() if count))
    print("lines: " + ", ".join(f"{top}/ {whole.count(chr(10))}" for top, whole in text.items()))
    if "--list" in sys.argv:
        print(*stays, *(f"climb {low} {high}: {how}" for (low, high), how in climbs.items()), *files, sep="\n")


if __name__ == "__main__":
    main()
