#!/usr/bin/env python3
"""Programs that a capture must not break: outlive.py NAME SECONDS.

  staged    eager requests, then a graph that is made while CUPTI may be away, then both in turns
  train     a training step, whose backward pass another thread launches
  threads   two threads that serve eager requests at once
"""
import sys
import threading
import time

import torch
import torchvision

torch.manual_seed(1)
net, x = torchvision.models.resnet18().cuda(), torch.randn(8, 3, 224, 224, device="cuda")
push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop


def serve(name, seconds, request):
    until, times = time.time() + seconds, 0
    while time.time() < until:
        push(name)
        request()
        torch.cuda.synchronize()
        pop()
        times += 1
    return times


def eager():
    with torch.inference_mode():
        return net(x)


def staged(seconds):
    net.eval()
    counts = [serve("eager", seconds / 3, eager)]
    expected = eager().sum().item()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            net(x)
    torch.cuda.synchronize()
    with torch.inference_mode(), torch.cuda.graph(graph, stream=stream):
        out = net(x)
    for i in range(10):
        counts.append(serve("graph", seconds / 30, graph.replay))
        counts.append(serve("eager", seconds / 30, eager))
    assert abs(out.sum().item() - expected) < 1e-3 * abs(expected) + 1e-3, (out.sum().item(), expected)
    return counts


def train(seconds):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
    return serve("step", seconds, step)


def threads(seconds):
    net.eval()
    counts = []
    all = [threading.Thread(target=lambda: counts.append(serve("request", seconds, eager))) for _ in range(2)]
    for one in all:
        one.start()
    for one in all:
        one.join()
    return counts


print(sys.argv[1], {"staged": staged, "train": train, "threads": threads}[sys.argv[1]](float(sys.argv[2])), flush=True)
