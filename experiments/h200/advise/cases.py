"""The cases: who shares the GPU, what is promised, what is wanted.

A promise is a p99: what the network takes alone (../networks/alone.json.gz, as a graph), times the case's factor, and 0.1 ms,
rounded to 0.01 ms.  None of the pairs and triples was measured under any mode before; the networks were, alone.
"""


def rt(network, period_ms, priority=-5):
    return {"network": network, "period_ms": period_ms, "priority": priority}


def be(network):
    return {"network": network}


CASES = {  # name: clients, whose p99 is promised, factor, what is wanted
    "decode-prefill": ([rt("decode_2k", 4), be("prefill_2k")], [0], 2.5, "prefill_2k:throughput"),
    "vision-training": ([rt("inception3_b1", 6), be("train_resnet18")], [0], 2, "train_resnet18:throughput"),
    "three-services": ([rt("resnet50_b1", 4), rt("distilbert_b1s128", 5, 0), rt("bert_b8_bf16", 6, 0)], [1, 2], 2, "resnet50_b1:p99"),
    "two-of-one": ([rt("bert_b8_bf16", 5), be("bert_b8_bf16")], [0], 1.5, "bert_b8_bf16-2:throughput"),
    "recommender-diffusion": ([rt("dlrm_b2048", 4), be("unet")], [0], 1.5, "unet:throughput"),
    "two-services-speech": ([rt("decode_4k", 6), rt("resnet50_b1", 5), be("whisper")], [0, 1], 2.5, "whisper:throughput"),
}
SECONDS = 1.75  # of a run
MODES = ("time-slicing", "mps", "priority", "percentages", "green-contexts")


def names(clients):
    """The clients' names in the traces: what is there twice has a number."""
    of = [c["network"] for c in clients]
    return [n if of.count(n) == 1 else f"{n}-{of[:i + 1].count(n)}" for i, n in enumerate(of)]


def promise_ms(alone_ms, factor):
    return round(factor * alone_ms + 0.1, 2)
