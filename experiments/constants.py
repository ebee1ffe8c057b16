#!/usr/bin/env python3
"""Which numbers decide a result, and what gives each of them.

    constants.py [--judged] [--root DIR]    one line a constant, by kind, then how many; --judged: only those of that kind

From the sources of sim/model, sim/stages and what is built on them: each `constexpr` number, and each number that stands in an expression.  The
latter are judged unless NAMELESS says otherwise; a list in braces is one constant; 0, 1, 2, 100, powers of ten and 32, the threads
of a warp, are taken for arithmetic.  From traces/gpus/h200.json: each value, by its basis.  Tables that a script wrote count as generated.

    measured     a measurement in experiments/ gives it
    document     NVIDIA's, a paper's, or a rule of this project's own service
    arithmetic   steps, tolerances, sizes and indices: beyond rounding they change nothing
    generated    statistics that a script writes
    judged       nothing of that: chosen, within a measured range or not

NAMED has the kind of each `constexpr`.  A constant that it lacks, or has and the sources do not, ends this with exit code 2."""

import argparse
import collections
import functools
import json
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
FOLDERS = ("sim/model", "sim/stages", "sim/backend", "sim/forecast", "sim/service", "sim/run")
CARD = "traces/gpus/h200.json"
SELF = "experiments/constants.py"
KINDS = ("measured", "document", "arithmetic", "generated", "judged")

# File; then name, kind, and what gives it: for `measured` a folder of experiments/, with the name of a measurement where it has one.
NAMED = """
sim/model/carried_kernel.cpp
  kSurvivalRounds        arithmetic  steps
  kLeftAll               arithmetic  tolerance of a comparison
sim/model/contention.cpp
  kRandomnessBisections  arithmetic  steps
  kRounds                judged      rounds of L2's contents: the fifth may still move
  kMostContenders        arithmetic  size of a table
  kNewtonSteps           arithmetic  steps
  kClose                 arithmetic  tolerance
  kOthersTurnover        judged
  kLaunchesBetweenUses   judged      decision 316
  kMostShares            arithmetic  size of a table
  kLeastShare            judged
  kUnderWay              judged
  kByAge                 measured    experiments/h200/contention, pairs
sim/model/contention.h
  kSlots                 arithmetic  index
  kFp64                  arithmetic  index
  kL1                    arithmetic  index
  kAlu                   arithmetic  index
  kFma                   arithmetic  index
  kXu                    arithmetic  index
  kPipes                 arithmetic  how many
  kSlotsAlone            arithmetic  all or nothing
  kAllOfIt               arithmetic  all or nothing
  kOwnTurnover           judged
  kMostApart             judged      in how many steps ages are told apart
  kProcessorSharing      arithmetic  a mark
sim/model/kernel_energy.cpp
  kUsual                 judged      decision 59
  kMost                  document    PTX ISA: a wgmma has at most 256 columns
sim/model/kernel_features.cpp
  kBytesInFlight         judged
  kWarpLoad              judged
  kLeastRounds           judged
  kTile                  judged
  kInstructionsPerRound  judged
  kWgmmaColumnCycles     document    NVIDIA H100 whitepaper: dense FP16 multiply-adds of an SM
  kBulkThroughL1         judged
  kTensorShare           judged
  kLeastCompulsory       judged
  kLeastSurvival         judged
  kTold                  judged
  kDramBound             judged
  kLongest               arithmetic  bound on what a file may say
sim/model/kernel_features.h
  kFillsCounted          judged
  kWarpsToFill           judged
  kDrifting              judged
sim/model/kernel_fit.cpp
  kMostDramCost          judged
  kMostStreamCost        judged
  kOthersData            judged      decision 392
  kBlockStart            judged
  kMostCycles            judged      decision 355
  kFixedBisections       arithmetic  steps
  kIssueBisections       arithmetic  steps
  kOne                   arithmetic  no choice
  kWaits                 judged      grid of a search
sim/model/kernel_fit.h
  kSlotsReached          measured    experiments/h200/contention
  kTurnover              measured    experiments/h200/contention, turnover
  kDispatchBound         judged
sim/model/kernel_law.cpp
  kServiceSpread         judged      decision 418
  kTileSpread            judged      decision 418
  kTileUseSpread         judged      decision 418
  kWaitSpread            judged      decision 418
  kMostUsualWait         judged      decision 418
  kCost                  judged      decision 418
  kCostSpread            judged      decision 418
  kSectorCost            judged      decision 418
  kSectorCostSpread      judged      decision 418
  kL2CostSpread          judged      decision 418
  kUsualStart            judged      decision 418
  kInstructionCycles     judged      decision 418
  kLatencySpread         judged      decision 418
  kTensorLatencySpread   judged      decision 418
  kClassSpread           judged      decision 418
  kOnce                  measured    experiments/h200/parts
  kMeasured              judged
  kLeastLatency          judged
  kMostCost              judged
  kSolvingSteps          arithmetic  steps
  kStillLikely           judged
  kTimes                 judged      grid of a search
sim/model/kernel_model.cpp
  kTogether              judged
sim/model/kernel_prior.cpp
  kReadShare             judged
sim/model/lost_time.cpp
  kMostSharers           arithmetic  size of a table
  kFactorial             arithmetic  factorials
sim/model/lost_time.h
  kAtIssue               arithmetic  index
  kAtPipes               arithmetic  index
  kAtL2                  arithmetic  index
  kAtDram                arithmetic  index
  kAtClock               arithmetic  index
  kSharedResources       arithmetic  how many
sim/model/memory_balance.cpp
  kWholeSteps            arithmetic  steps
  kHalfSteps             arithmetic  steps
  kAtBound               arithmetic  tolerance
  kNoUse                 arithmetic  tolerance
sim/model/memory_balance.h
  kMostPressers          arithmetic  size of a table
  kNewtonClose           arithmetic  tolerance
  kBisections            arithmetic  steps
  kL2Bisections          arithmetic  steps
  kWriteRounds           arithmetic  steps
  kMostUse               arithmetic  bound of a solver
sim/model/mended_counters.cpp
  kTolerance             judged      decision 50
  kMostOverPeak          judged      decision 50
sim/model/other_card.cpp
  kWorthSaying           arithmetic  of a note
  kFirstWithClusters     document    CUDA C++ Programming Guide: clusters
  kTensorUse             arithmetic  of a note
sim/stages/block_row.h
  kRateBits              arithmetic  precision
  kFullRate              arithmetic  precision
  kMostBlocks            arithmetic  size of a table
  kUnknown               arithmetic  a mark
sim/stages/clock_governor.h
  kStep                  judged
  kLeast                 judged
  kRemembers             measured    experiments/h200/clock
  kRises                 measured    experiments/h200/clock
sim/stages/contention_model.cpp
  kFewBlocks             judged
sim/stages/contention_model.h
  kSettling              judged
sim/stages/engine_observer.cpp
  kGaugeInterval         arithmetic  of what is shown
sim/stages/launch_table.h
  kNone                  arithmetic  a mark
sim/stages/memory_table.h
  kMost                  arithmetic  what is kept of what is known
sim/stages/next_ends.h
  kNone                  arithmetic  a mark
  kFewHeads              arithmetic  way of a search
  kGroup                 arithmetic  way of a search
sim/stages/pipeline.cpp
  kFewWaves              judged
sim/stages/pipeline_control.cpp
  kMovesDram             judged
sim/stages/placement.h
  kMostPlaces            arithmetic  more than a card has
sim/stages/rate_table.h
  kMost                  arithmetic  what is kept of what is known
sim/stages/sm_array.h
  kRemembered            arithmetic  length of a log
sim/stages/sm_mask.h
  kMaxSms                arithmetic  size of a table
sim/stages/solo_replay.h
  kMost                  arithmetic  what is kept of what is known
sim/stages/task.h
  kNoTask                arithmetic  a mark
  kNoBlock               arithmetic  a mark
sim/model/peer_kernels.cpp
  kNames                 document    names that NCCL, RCCL, MSCCL++, NVSHMEM, vLLM and PyTorch give their kernels
  kReduces               document    names that TensorRT-LLM and FlashInfer give theirs
  kShots                 document    the same
sim/run/alone.cpp
  kRounding              arithmetic  tolerance
  kSeldom                arithmetic  of what is shown
sim/forecast/forecast.cpp
  kNone                  arithmetic  a mark
  kMost                  arithmetic  no bound
sim/run/intervals.cpp
  kMost                  judged
  kRepeats               judged
sim/backend/launch_fates.h
  kNone                  arithmetic  a mark
sim/run/profile.cpp
  kRounds                judged      rounds from which a steady rate is read
sim/run/run.cpp
  kMost                  arithmetic  of a note: most of a request is more than half
  kMostMended            arithmetic  of what is shown
  kNamed                 arithmetic  of what is shown
  kWorthSaying           arithmetic  of a note
sim/service/served_gpu.h
  kEmptyAttempt          measured    experiments/h100/ptx, attempts-1.txt
sim/service/served_gpu.cpp
  kGrantIsSooner         measured    experiments/h200/live, gate-mps.jsonl.gz
  kWait                  measured    experiments/h200/live, gate-mps.jsonl.gz
sim/forecast/unknown_forecast.cpp
  kUnknown               judged
  kParts                 judged
"""

# File, what its line holds, kind, what gives it.  Of numbers in expressions; one of which nothing is said here is judged.
NAMELESS = [
    ("sim/model/contention.cpp", r"4 \* s\.issue_ps", "arithmetic", "a square equation"),
    ("sim/model/kernel_energy.cpp", r"% 64 != 0", "document", "PTX ISA: a wgmma has 64 rows"),
    ("sim/model/kernel_energy.cpp", r"n < 10000|10 \* n", "arithmetic", "digits"),
    ("sim/model/kernel_features.cpp", r"waves - 1e-9\) : waves \+ 0\.5", "arithmetic", "half a wave on average"),
    ("sim/model/kernel_fit.cpp", r"rounds - 1e-9\) : rounds \+ 0\.5", "arithmetic", "half a round on average"),
    ("sim/model/kernel_law.cpp", r"1 \+ x / 2 \* \(1 \+ x / 3", "arithmetic", "a series"),
    ("sim/model/memory_balance.cpp", r"4 \* issue \* delay", "arithmetic", "a square equation"),
    ("sim/model/memory_balance.h", r"4 \* issue \* delay", "arithmetic", "a square equation"),
    ("sim/model/memory_balance.h", r"writes = 0\.5", "arithmetic", "where a solver starts"),
    ("sim/model/memory_balance.cpp", r": 0\.5;|Felt\{0\.5, 0, 0\}", "arithmetic", "a share of nothing; half steps"),
    ("sim/model/memory_balance.cpp", r"\(1 - use\) \* 0\.9", "arithmetic", "a solver's step within its bound"),
    ("sim/model/other_card.cpp", r"10 \* gpu\.compute_capability_major", "arithmetic", "digits"),
    ("sim/model/other_card.cpp", r"case \d+: return", "document", "decision 367: whitepapers, Programming Guide"),
    ("sim/stages/block_row.h", r"62 - kRateBits", "arithmetic", "precision"),
    ("sim/stages/completion_queue.cpp", r"max<std::size_t>\(64", "arithmetic", "size of a table"),
    ("sim/stages/contention_model.cpp", r"64\.0 \* kFullRate", "arithmetic", "precision"),
    ("sim/stages/engine_observer.cpp", r"array<std::pair<Gauge, double>, 5>", "arithmetic", "how many"),
    ("sim/stages/host.h", r"long before the run", "arithmetic", "a mark"),
    ("sim/stages/loss_meter.h", r"known_\{12\}", "arithmetic", "what is kept of what is known"),
    ("sim/stages/memory_table.h", r"(numbers|shared)_\{\d+\}", "arithmetic", "what is kept of what is known"),
    ("sim/stages/next_ends.h", r"least_\.size\(\) <= 64", "arithmetic", "bits of a word"),
    ("sim/stages/rate_table.h", r"(serials|rates|several)_\{\d\}", "arithmetic", "what is kept of what is known"),
    ("sim/stages/sm_array.cpp", r"max_blocks <= 64", "arithmetic", "bits of a word"),
    ("sim/stages/sm_mask.h", r"rank / 64|rank % 64|i \* 64", "arithmetic", "bits of a word"),
    ("sim/stages/task.h", r"compute_capability_major >= 9", "measured", "experiments/h200/policies"),
    ("sim/run/metered.h", r"us\.size\(\) \* 99", "arithmetic", "a percentile"),
    ("sim/backend/preemption.cpp", r"p\.events = reset \? 3 : 2", "arithmetic", "how many"),
    ("sim/run/profile.cpp", r"<= 3 \* kRounds", "arithmetic", "below which nothing is left out"),
    ("sim/backend/shapes.cpp", r"i < 4; \+\+i", "arithmetic", "steps"),
    ("sim/forecast/unknown_forecast.cpp", r"k\.(block|grid|registers_per_thread) = ", "arithmetic", "a kernel of no work, and one that fills each SM"),
]

# Of values of the card that are assumed: the others are judged.
DOCUMENTED = {
    "preemption/host_queue_reset_ns": "Han et al., REEF (OSDI 2022), of another card",
    "preemption/padding_cost_ratio": "Han et al., REEF (OSDI 2022), of another card",
}

NEUTRAL = re.compile(r"[012]|[012]\.0?|1e[+-]?\d+|100|100\.0|32|32\.0")
NUMBER = re.compile(r"(?<![\w.])(?:0x[\da-f]+|(?:\d[\d']*)?\.?\d+(?:e[+-]?\d+)?)(?=[uUlLfF]*(?![\w.]))", re.I)
PLAIN = re.compile(r"(?:<<|>>)=? *\d+|\[ *\d+ *\]|\b(?:small_vector|static_vector|array)<[^<>]*\d>|\b0x[\da-f]+u?", re.I)  # shifts, sizes, bits
DECLARED = re.compile(r"(?<!if )\bconstexpr\s+(?P<type>(?:const\s+)?[\w:]+(?:<[^;{}=()]*?>)?(?:\s*\*)?)\s+(?P<rest>\w[^;]*);", re.S)

Constant = collections.namedtuple("Constant", "kind where name value why group")


class Unknown(Exception):
    """What the tables above and the sources disagree in."""


def without_comments(text: str) -> str:
    """Comments and texts as blanks: what is left keeps its place."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def parts(text: str):
    """Of a declaration or a list, what its commas part, with the place of each."""
    depth, begin = 0, 0
    for at, c in enumerate(text + ","):
        depth += (c in "({[") - (c in ")}]")
        if c == "," and depth == 0:
            yield begin, text[begin:at]
            begin = at + 1


def declared(code: str):
    """(where it begins and ends, [(its place, name, value)]) of each declaration of numbers."""
    for m in DECLARED.finditer(code):
        names = []
        for begin, part in parts(m["rest"]):
            found = re.match(r"\s*(\w+)((?:\s*\[[^\]]*\])*)\s*(=|\{)", part)  # else a function
            if found is None or "char" in m["type"] or m["type"] == "CapabilitySet":
                continue
            value = part[found.end() - (found[3] == "{"):]
            names.append((m.start("rest") + begin + found.start(1), found[1], " ".join(value.split())))
        yield m.start(), m.end(), names


def nameless(code: str):
    """(place, number or list) of those in expressions that are not plain arithmetic."""
    code = PLAIN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)

    def numbers(text):
        return [n for n in NUMBER.finditer(text) if not NEUTRAL.fullmatch(n[0].replace("'", ""))]

    lists = [m for m in re.finditer(r"\{[^{}]*\}", code)
             if len(numbers(m[0])) > 1 and all(re.fullmatch(r"[\w.+*/() -]*", part.strip()) for _, part in parts(m[0][1:-1]))]
    for m in lists:
        yield m.start(), " ".join(m[0].split())
    for n in numbers(code):
        if not any(m.start() < n.start() < m.end() for m in lists):
            yield n.start(), n[0]


@functools.lru_cache(None)
def decisions(root: str):
    """Their numbers."""
    found = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f != "build" and not f.startswith(".")]
        if "DECISIONS.md" in files:
            with open(os.path.join(folder, "DECISIONS.md"), encoding="utf-8") as text:
                found.update(re.findall(r"^### (\d+)\. ", text.read(), re.M))
    return found


def check_named(where: str, kind: str, why: str, root: str):
    if kind not in KINDS:
        raise Unknown(f"{where}: {kind} is no kind; write one of {', '.join(KINDS)} into NAMED or NAMELESS of {SELF}")
    folder = re.match(r"experiments/[\w/]+", why)
    if kind == "measured" and (folder is None or not os.path.isdir(os.path.join(root, folder[0]))):
        raise Unknown(f"{where}: measured where?  Name a folder of experiments/ that is there, or call it judged, in {SELF}")
    for number in re.findall(r"decision (\d+)", why):
        if number not in decisions(root):
            raise Unknown(f"{where}: there is no decision {number}; mend it in {SELF}")


def table():
    """NAMED, by file and name."""
    kinds, file = {}, ""
    for line in NAMED.strip().splitlines():
        if not line.startswith(" "):
            file = line
            continue
        name, kind, *why = line.split(None, 2)
        kinds[file, name] = kind, "".join(why)
    return kinds


def of_code(root: str, unknown=None):
    """`unknown`: the kind of a constant that NAMED lacks; None: it is an error."""
    known, used, rules = table(), set(), set()
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            file = f"{folder}/{name}"
            if not name.endswith((".h", ".cpp")) or name.endswith("_bench.cpp"):
                continue
            with open(os.path.join(root, file), encoding="utf-8") as source:
                text = source.read()
            code, written = without_comments(text), re.match(r"// Written by (\S+?):? ", text)
            rest, lines = code, text.splitlines()
            for begin, end, names in declared(code):
                rest = rest[:begin] + re.sub(r"[^\n]", " ", rest[begin:end]) + rest[end:]
                for at, constant, value in names:
                    line = code.count("\n", 0, at) + 1
                    where = f"{file}:{line}"
                    if written:
                        yield Constant("generated", where, constant, columns(root, text, code[begin:end]), written[1], "code, a table")
                        continue
                    if (file, constant) not in known and unknown is None:
                        raise Unknown(f"{where}: of {constant} = {value} nothing says what gives it; write its kind into NAMED of {SELF}")
                    kind, why = known.get((file, constant), (unknown, ""))
                    used.add((file, constant))
                    check_named(where, kind, why, root)
                    yield Constant(kind, where, constant, value, why, "code, by name")
            for at, number in () if written else nameless(rest):
                line = code.count("\n", 0, at)
                rule = next((r for r in NAMELESS if r[0] == file and re.search(r[1], lines[line])), None)
                _, _, kind, why = rule or ("", "", "judged", "")
                rules.add(rule)
                check_named(f"{file}:{line + 1}", kind, why, root)
                yield Constant(kind, f"{file}:{line + 1}", "", number, why or lines[line].strip(), "code, in an expression")
    if unknown is not None:
        return
    for file, constant in known:
        if (file, constant) not in used:
            raise Unknown(f"{file}: there is no constexpr {constant}; take it out of NAMED of {SELF}")
    for rule in NAMELESS:
        if rule not in rules:
            raise Unknown(f"{rule[0]}: no number stands in a line with {rule[1]}; take it out of NAMELESS of {SELF}")


def columns(root: str, text: str, declaration: str) -> str:
    """Of a table that a script wrote: how large it is, and what its rows hold."""
    kind = re.search(r"constexpr\s+(\w+)", declaration)[1]
    for header in re.findall(r'#include "([^"]+)"', text):
        with open(os.path.join(root, header), encoding="utf-8") as source:
            struct = re.search(rf"struct {kind} \{{(.*?)^\}}", without_comments(source.read()), re.S | re.M)
        if struct:
            break
    else:
        raise Unknown(f"{kind} is in no header that its table includes")
    fields = []
    for line in struct[1].split(";"):
        found = re.fullmatch(r"\s*(?:double|std::uint32_t)\s+(\w.*)", line, re.S)
        fields += [] if found is None else [re.split(r"[ ={]", part.strip())[0] for part in found[1].split(",")]
    size = re.findall(r"\[(\d+)\]", declaration)
    classes = set(re.findall(r'^ *\{"(\w+)"', text, re.M))
    rows = f"{len(classes)} classes" if classes else " x ".join(size)
    return f"{rows}; columns {', '.join(fields)}"


def of_card(root: str):
    with open(os.path.join(root, CARD), encoding="utf-8") as file:
        text = file.read()
    for part, values in json.loads(text).items():
        if not isinstance(values, dict):
            continue
        for name, of in values.items():
            if isinstance(of["value"], str):
                continue
            if re.search(r"\bjudged\b", of["source"]):
                kind = "judged"
            elif of["basis"] == "assumed":
                kind = "document" if f"{part}/{name}" in DOCUMENTED else "judged"
            else:
                kind = {"published": "document", "calibrated": "measured"}[of["basis"]]
            where = f"{CARD}:{text.count(chr(10), 0, text.index(chr(34) + name + chr(34))) + 1}"
            yield Constant(kind, where, f"{part}/{name}", of["value"] if not isinstance(of["value"], list) else "a list",
                           f"{of['basis']}: {of['source']}", "the card")


def short(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most - 3] + "..."


def show(found, kinds):
    for kind in kinds:
        print(f"{kind}:")
        for c in found:
            if c.kind == kind:
                value = c.value if c.group == "code, a table" else short(str(c.value), 40)
                print("  " + f"{c.where:<48} {c.name:<38} {value:<16} {short(c.why, 110)}".rstrip())
        print()
    groups = ("code, by name", "code, in an expression", "code, a table", "the card")
    print(f"{'':<24}" + "".join(f"{kind:>12}" for kind in KINDS))
    for group in groups:
        print(f"{group:<24}" + "".join(f"{sum(c.kind == kind and c.group == group for c in found):>12}" for kind in KINDS))
    print(f"{'all':<24}" + "".join(f"{sum(c.kind == kind for c in found):>12}" for kind in KINDS))


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judged", action="store_true", help="only those")
    parser.add_argument("--root", default=ROOT, help="another checkout")
    options = parser.parse_args(arguments)
    try:
        found = [*of_code(options.root), *of_card(options.root)]
    except Unknown as error:
        print(error, file=sys.stderr)
        return 2
    show(found, ("judged",) if options.judged else KINDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
