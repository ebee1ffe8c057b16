#!/usr/bin/env python3
"""Is a line *what if* or *same* of `sim advise` right?  What it says of an assumption is held against `sim compare` under that assumption.

  questions.py SIM [CASE...]   writes questions.json beside this file; 20 min of two cores

A verdict is right where, of the settings compared, the named one breaks or holds as was said, and what was said to serve the goal best is within 3 % of the best
that holds.  Compared: the named setting, the next, the one said instead, and the best of each mode, to CANDIDATES.
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "../h200/networks/traces")
CLOSE, CANDIDATES = 0.03, 9


def service(network, arrivals, per_s, issue, slo_ms):
    return {"name": network, "arrivals": arrivals, "per_s": per_s, "issue": issue, "slo_ms": slo_ms}


def batch(network, issue="graph"):
    return {"name": network, "issue": issue}


CASES = {  # the last client is who the goal is about
    "vision-vision": ("1s", [service("resnet50_b1", "rate", 100, "graph", 5), batch("resnet152_b8")]),
    "vision-train": ("1s", [service("inception3_b1", "rate", 120, "graph", 12), batch("train_resnet18")]),
    "bert-diffusion": ("1s", [service("bert_b8_bf16", "poisson", 120, "graph", 14), batch("unet")]),
    "decode-speech": ("1s", [service("decode_4k", "rate", 150, "graph", 9), batch("whisper")]),
    "decode-prefill": ("1s", [service("decode_2k", "poisson", 200, "graph", 5), batch("prefill_4k")]),
    "recommender-train": ("500ms", [service("dlrm_b2048", "poisson", 300, "graph", 2), batch("train_bert")]),
    "mobile-segmentation": ("1s", [service("mobilenet_b32", "rate", 150, "eager", 12), batch("deeplab_b2")]),
    "gpt-vision": ("1s", [service("gpt2_b2s256", "poisson", 100, "eager", 25), batch("resnet152_b8")]),
    "text-convolution": ("1s", [service("distilbert_b1s128", "rate", 200, "graph", 6), batch("convnext_b8")]),
    "two-services": ("1s", [service("resnet50_b1", "rate", 120, "graph", 8), service("bert_b2s128", "rate", 80, "graph", 10), batch("unet")]),
    "two-random-services": ("1s", [service("densenet201_b1", "poisson", 60, "graph", 30), service("vit_b4", "poisson", 80, "graph", 20), batch("train_resnet18")]),
    "swin-training": ("1s", [service("swin_b4", "poisson", 50, "graph", 25), batch("train_resnet18")]),
    "loose-vision": ("1s", [service("resnet50_b1", "poisson", 60, "graph", 50), batch("efficientnet_b16")]),
    "loose-text": ("1s", [service("distilbert_b1s128", "rate", 60, "graph", 60), batch("resnet152_b8")]),
    "gqa-training": ("1s", [service("decode_gqa", "rate", 150, "graph", 6), batch("train_bert")]),
    "impossible": ("1s", [service("inception3_b1", "rate", 150, "graph", 1), batch("unet")]),
}
ASSUMED = {  # the line: what it makes of a client
    "Poisson arrivals with queues": lambda c: dict(c, arrivals="poisson") if c.get("arrivals") == "rate" else c,
    "periodic arrivals": lambda c: dict(c, arrivals="rate") if c.get("arrivals") == "poisson" else c,
    "requests handed over by single calls": lambda c: dict(c, issue="eager"),
    "requests handed over at once, as graphs": lambda c: dict(c, issue="graph"),
}


def options(clients):
    written = []
    for c in clients:
        of = f"{c['name']}={TRACES}/{c['name']}.json.gz,{c['issue']}"
        if "slo_ms" in c:
            of += f",rt,priority=-5,{c['arrivals']}={c['per_s']},slo={c['slo_ms']}ms" + (",queue" if c.get("queue") else "")
        written += ["--client", of]
    return written


def asked(sim, command, duration, clients, *more):
    ran = subprocess.run([sim, command, "--gpu", "h200", "--duration", duration, "--json", *options(clients), *more], stdout=subprocess.PIPE, text=True)
    if ran.returncode not in (0, 3):
        sys.exit(ran.returncode)
    return json.loads(ran.stdout)


def candidates(advice, instead):
    """Policies: of what is named and said instead, then of each mode the best that holds, or misses by least."""
    tried = [t for t in advice["tried"] if t.get("use") is not None]
    named = advice["tried"][advice["best"]] if advice["best"] is not None else min(tried, key=lambda t: t["use"])
    all_ = [named["policy"]] + [advice["tried"][i]["policy"] for i in [advice["next"]] if i is not None] + ([instead["policy"]] if instead else [])
    tried.sort(key=lambda t: (not t["holds"], -(t["goal"] or 0) if t["holds"] else t["use"]))
    modes = set()
    all_ += [t["policy"] for t in tried if t["mode"] not in modes and not modes.add(t["mode"])]
    all_ += [t["policy"] for t in sorted(tried, key=lambda t: -(t["goal"] or 0)) if t["use"] < 1.5]
    return list(dict.fromkeys(all_))[:CANDIDATES]


def compared(sim, duration, clients, policies):
    """By policy: whether what was promised holds, and the goal."""
    said = asked(sim, "compare", duration, clients, "--policies", ",".join(policies))
    rows = {}
    for policy, result in zip(policies, said["results"]):
        of = {c["name"]: c for c in result["clients"]}
        kept = all((of[c["name"]]["p99_ms"] or float("inf")) <= c["slo_ms"] for c in clients if "slo_ms" in c)
        rows[policy] = (kept, of[clients[-1]["name"]]["throughput_per_s"])
    return rows


def is_right(said, had_named, rows):
    policies, held = list(rows), [goal for kept, goal in rows.values() if kept]
    near = lambda policy: rows[policy][0] and rows[policy][1] >= max(held) / (1 + CLOSE)  # noqa: E731
    instead = said["instead"] and said["instead"]["policy"]
    if not said["changes"]:
        return near(policies[0]) if had_named else not held
    if not had_named:
        return near(instead)
    if said["apart"] > 0:
        return rows[policies[0]][0] and near(instead) and rows[instead][1] > rows[policies[0]][1] * (1 + CLOSE)
    return not rows[policies[0]][0] and (near(instead) if instead else not held)


def main(sim, *names):
    path = os.path.join(HERE, "questions.json")
    answers = []
    if names and os.path.exists(path):
        with open(path) as file:
            answers = [a for a in json.load(file) if a["case"] not in names]
    for case, (duration, clients) in CASES.items():
        if names and case not in names:
            continue
        advice = asked(sim, "advise", duration, clients, "--maximize", clients[-1]["name"] + ":throughput")
        named = advice["best"] is not None
        for said in advice["what_if"]:
            if said["assumed"] not in ASSUMED:
                continue
            varied = [ASSUMED[said["assumed"]](c) for c in clients]
            rows = compared(sim, duration, varied, candidates(advice, said.get("instead")))
            held = [policy for policy, (kept, _) in rows.items() if kept]
            first = next(iter(rows))
            answers.append({
                "case": case, "assumed": said["assumed"], "named": advice["tried"][advice["best"]]["setting"] if named else None,
                "said": "changes" if said["changes"] else "same", "sure": not said["changes"] or said["apart"] == 0 or said["surely"],
                "instead": said["instead"]["setting"] if said.get("instead") else None, "right": is_right(said, named, rows),
                "same_by_compare": (rows[first][0] and rows[first][1] >= max(rows[p][1] for p in held) / (1 + CLOSE)) if named else not held,
                "compared": {policy: [kept, round(goal, 1)] for policy, (kept, goal) in rows.items()}})
            print(case, "|", said["assumed"], "|", {k: v for k, v in answers[-1].items() if k in ("named", "said", "sure", "instead", "right", "same_by_compare")}, flush=True)
    with open(path, "w") as file:
        json.dump(answers, file, indent=1)
        file.write("\n")
    same = [a for a in answers if a["same_by_compare"]]
    print(f"{len(answers)} verdicts, right {sum(a['right'] for a in answers)}; not sure {sum(not a['sure'] for a in answers)}; "
          f"of {len(same)} that do not change, said to change {sum(a['said'] == 'changes' for a in same)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
