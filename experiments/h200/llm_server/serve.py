#!/usr/bin/env python3
"""A server of a language model in PyTorch, eagerly: prompts first, one at a time and whole, else a token for all in the batch.

  serve.py steps [ROUNDS]           each step of the grid some times, an NVTX range each: to be captured
  serve.py server SPEED OUT.json    arrivals.csv at SPEED times its rate: when each sequence had its tokens
  serve.py both FOLDER SPEED...     the steps and what each takes (FOLDER/times.json, and each by itself in FOLDER/each.json), then the
                                    server at each speed, in one process; a "," among the speeds: the steps once more
"""
import csv
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, WIDTH, HEADS, VOCABULARY, SLOTS, LONGEST = 8, 8192, 64, 32000, 16, 2368
ROUNDS = int(os.environ.get("ROUNDS", 24))  # of a phase
PROMPTS = [128 * i for i in range(1, 17)]
BATCHES, CONTEXTS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16], [256, 512, 768, 1024, 1536, 2304]


class Model:
    def __init__(self):
        torch.manual_seed(1)
        half = {"device": "cuda", "dtype": torch.float16}

        def weights(a, b):
            return torch.randn(a, b, **half).mul_(a ** -0.5)
        self.embedding, self.head = weights(VOCABULARY, WIDTH), weights(WIDTH, VOCABULARY)
        self.layers = [(weights(WIDTH, 3 * WIDTH), weights(WIDTH, WIDTH), weights(WIDTH, 4 * WIDTH), weights(4 * WIDTH, WIDTH))
                       for _ in range(LAYERS)]
        self.keys, self.values = (torch.zeros(LAYERS, SLOTS, HEADS, LONGEST, WIDTH // HEADS, **half) for _ in range(2))
        self.places = torch.arange(LONGEST, device="cuda")

    def after_attention(self, h, a, layer):
        _, out, up, down = layer
        h = h + a @ out
        return h + F.gelu(F.layer_norm(h, (WIDTH,)) @ up) @ down

    def prefill(self, tokens, slot):
        """tokens: a list; the first generated token."""
        n = len(tokens)
        h = self.embedding[torch.tensor(tokens).cuda()]
        for i, layer in enumerate(self.layers):
            q, k, v = (F.layer_norm(h, (WIDTH,)) @ layer[0]).view(n, 3, HEADS, -1).permute(1, 2, 0, 3)
            self.keys[i, slot, :, :n], self.values[i, slot, :, :n] = k, v
            a = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
            h = self.after_attention(h, a.transpose(0, 1).reshape(n, WIDTH), layer)
        token = (h[-1:] @ self.head).argmax(-1)
        self.issued = time.perf_counter_ns()
        return int(token.cpu())

    def decode(self, tokens, lengths):
        """A token for each of the slots 0 to the batch's size; lengths: of what they hold."""
        b, longest = len(tokens), min(LONGEST, (max(lengths) + 64) // 64 * 64)
        at = torch.tensor(lengths).cuda()
        slots = torch.arange(b, device="cuda")
        mask = (self.places[:longest] <= at[:, None])[:, None, None]
        h = self.embedding[torch.tensor(tokens).cuda()]
        for i, layer in enumerate(self.layers):
            q, k, v = (F.layer_norm(h, (WIDTH,)) @ layer[0]).view(b, 3, HEADS, -1).permute(1, 0, 2, 3)
            self.keys[i][slots, :, at], self.values[i][slots, :, at] = k, v
            a = F.scaled_dot_product_attention(q[:, :, None], self.keys[i, :b, :, :longest], self.values[i, :b, :, :longest], attn_mask=mask)
            h = self.after_attention(h, a.reshape(b, WIDTH), layer)
        of = (h @ self.head).argmax(-1)
        self.issued = time.perf_counter_ns()
        return of.cpu().tolist()


def steps(model, rounds):
    """One of each after the other, as a server has them: twelve long prompts in a row would lower the clock.  Of each its name, when it began,
    when the host had issued it and when it had ended, in ns."""
    each = []

    def step(name, work):
        torch.cuda.nvtx.range_push(name)
        begin = time.perf_counter_ns()
        work()
        each.append((name, begin, model.issued, time.perf_counter_ns()))
        torch.cuda.nvtx.range_pop()
    for i in range(rounds):
        for n in PROMPTS:
            step(f"prefill_{n}", lambda: model.prefill([1] * n, 0))
            for b in BATCHES[i % 2::2]:
                c = CONTEXTS[(i // 2 + PROMPTS.index(n)) % len(CONTEXTS)]
                step(f"decode_{b}x{c}", lambda: model.decode([1] * b, [c - 1] * b))
    return each


def write_steps(folder, phases):
    """Of each size the median in ms; and each step of each phase: the number of its name, us from the end of the one before to its begin, and from
    there until it was issued and until it had ended."""
    times = {}
    for name, begin, _, end in (one for phase in phases for one in phase):
        times.setdefault(name, []).append((end - begin) / 1e6)
    with open(os.path.join(folder, "times.json"), "w") as file:
        json.dump({name: statistics.median(of) for name, of in times.items()}, file)
    number = {name: i for i, name in enumerate(times)}
    with open(os.path.join(folder, "each.json"), "w") as file:
        json.dump({"names": list(times), "phases": [
            [[number[name], (begin - before) // 1000, (issued - begin) // 1000, (end - begin) // 1000]
             for (name, begin, issued, end), before in zip(phase, [phase[0][1], *(end for *_, end in phase)])] for phase in phases]}, file)


def arrivals(speed):
    with open(os.path.join(HERE, "arrivals.csv")) as file:
        rows = list(csv.DictReader(file))
    times = [datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    return [((t - times[0]).total_seconds() / speed, int(row["ContextTokens"]), int(row["GeneratedTokens"])) for t, row in zip(times, rows)]


def server(model, speed):
    waiting = [dict(index=i, at=at, prompt=p, generate=g, tokens=[]) for i, (at, p, g) in enumerate(arrivals(speed))]
    batch, done, issued_us, begin = [], [], [], time.perf_counter()

    def step(work):
        at = time.perf_counter_ns()
        result = work()
        issued_us.append((model.issued - at) // 1000)
        return result
    while waiting or batch:
        now = time.perf_counter() - begin
        if waiting and waiting[0]["at"] <= now and len(batch) < SLOTS:
            s = waiting.pop(0)
            s["last"] = step(lambda: model.prefill([1] * s["prompt"], len(batch)))
            s["tokens"].append(time.perf_counter() - begin)
            batch.append(s)
        elif batch:
            tokens = step(lambda: model.decode([s["last"] for s in batch], [s["prompt"] + len(s["tokens"]) - 1 for s in batch]))
            now = time.perf_counter() - begin
            for s, token in zip(batch, tokens):
                s["last"] = token
                s["tokens"].append(now)
        else:
            time.sleep(max(0, waiting[0]["at"] - now))
        for i in reversed(range(len(batch))):
            if len(batch[i]["tokens"]) < batch[i]["generate"]:
                continue
            done.append(batch[i])
            last = len(batch) - 1
            if i != last:  # slots stay dense
                n = batch[last]["prompt"] + len(batch[last]["tokens"])
                model.keys[:, i, :, :n] = model.keys[:, last, :, :n]
                model.values[:, i, :, :n] = model.values[:, last, :, :n]
                batch[i] = batch[last]
            batch.pop()
    return sorted(done, key=lambda s: s["index"]), issued_us


def serve(model, speed, path):
    torch.cuda.synchronize()
    done, issued_us = server(model, speed)
    with open(path, "w") as file:
        json.dump({"speed": speed, "gpu": torch.cuda.get_device_name(), "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                   "torch": torch.__version__,
                   "sequences": [{"at_s": s["at"], "prompt": s["prompt"], "generated": s["generate"],
                                                  "tokens_s": [round(t, 6) for t in s["tokens"]]} for s in done], "issued_us": issued_us}, file)
    first = sorted(s["tokens"][0] - s["at"] for s in done)
    between = sorted((s["tokens"][-1] - s["tokens"][0]) / (len(s["tokens"]) - 1) for s in done if len(s["tokens"]) > 1)
    print(f"{len(done)} sequences: first token {first[len(first) // 2] * 1e3:.2f} ms (median), {sum(first) / len(first) * 1e3:.2f} (mean); "
          f"between tokens {between[len(between) // 2] * 1e3:.3f} ms (median of means)", flush=True)


def main():
    with torch.inference_mode():
        model = Model()
        model.prefill([1] * 64, 0), model.decode([1, 1], [64, 64])
        # The first of each size loads its kernels, which takes 70 ms.
        only = sys.argv[1] == "steps"
        for n in sorted(set(PROMPTS) | {prompt for _, prompt, _ in ([] if only else arrivals(1))}):
            model.prefill([1] * n, 0)
        for b in BATCHES if only else range(1, SLOTS + 1):
            for c in CONTEXTS if only else range(64, LONGEST + 1, 64):
                model.decode([1] * b, [c - 1] * b)
        print(f"ready after {time.process_time():.1f} s of the process", flush=True)
        if sys.argv[1] == "server":
            serve(model, float(sys.argv[2]), sys.argv[3])
            return
        if only:
            steps(model, int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
            return
        phases, number = [steps(model, ROUNDS)], 0
        for speed in sys.argv[3:]:
            if speed == ",":
                phases.append(steps(model, ROUNDS))
                continue
            number += 1
            serve(model, float(speed), os.path.join(sys.argv[2], f"served-{number}.json"))
        write_steps(sys.argv[2], phases)


main()
