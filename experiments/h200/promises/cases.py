"""The cases: who shares the GPU, when requests come, what is promised, what is wanted.

Networks are those of ../networks, each request a CUDA graph. Arrivals are Poisson and queue; a server's sequences have one prompt, which
is one replay of `prefill`, and then a token a replay of `decode` for all in the batch.
"""
import random


def service(network, per_s, priority=-5):
    return {"network": network, "per_s": per_s, "priority": priority}


def server(name, prefill, decode, most, per_s, tokens):
    return {"network": name, "prefill": prefill, "decode": decode, "most": most, "per_s": per_s, "tokens": tokens, "priority": -5}


def batch(network):
    return {"network": network, "priority": 0}


CASES = {  # name: clients, promises, what is wanted
    "vision-train": ([service("inception3_b1", 140), batch("train_resnet18")], ["inception3_b1:p99=7ms"], "train_resnet18:throughput"),
    "two-services-diffusion": ([service("resnet50_b1", 200), service("bert_b8_bf16", 110), batch("unet")],
                               ["resnet50_b1:p99=7ms", "bert_b8_bf16:p99=12ms"], "unet:throughput"),
    "decode-speech": ([service("decode_4k", 200), batch("whisper")], ["decode_4k:p99=6ms"], "whisper:throughput"),
    "three-services": ([service("densenet201_b1", 60), service("distilbert_b1s128", 100), service("vit_b4", 30, 0)],
                       ["densenet201_b1:p99=15ms", "distilbert_b1s128:p99=12ms"], "vit_b4:p99"),
    "server-train": ([server("llm", "prefill_2k", "decode_2k", 8, 60, 8), batch("train_resnet18")],
                     ["llm:ttft=10ms", "llm:tbt=5ms"], "train_resnet18:throughput"),
    "server-vision": ([server("llm", "prefill_4k", "decode_4k", 4, 40, 6), batch("resnet152_b8")],
                      ["llm:ttft=25ms", "llm:tbt=12ms"], "resnet152_b8:throughput"),
    # since a promise is kept by the requests of all seeds together (decision 448)
    "recommender-training": ([service("dlrm_b2048", 250), batch("train_bert")], ["dlrm_b2048:p99=1.6ms"], "train_bert:throughput"),
    "text-convolution": ([service("distilbert_b1s128", 120), batch("convnext_b8")], ["distilbert_b1s128:p99=8ms"], "convnext_b8:throughput"),
}
MODES = ("time-slicing", "mps", "priority", "percentages", "green-contexts")
REQUESTS = 1050  # of each promised client, in the mean
SEED = 20261129
CONTEXT = 1024   # what a server's prompts are called; a graph takes as long whatever it is called


def seconds_of(clients, promised):
    """So that each client whose latency is promised has so many requests."""
    names = {promise.split(":")[0] for promise in promised}
    return max(REQUESTS / c["per_s"] for c in clients if c["network"] in names)


def arrivals(case, client, seconds, seed=SEED):
    """In s from the begin; another stream of numbers than the simulator's."""
    dice, at, times = random.Random(f"{seed} {case} {client['network']}"), 0.0, []
    while (at := at + dice.expovariate(client["per_s"])) < seconds:
        times.append(round(at, 6))
    return times
