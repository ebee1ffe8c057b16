#!/usr/bin/env python3
"""JAX inference or training, and a program that trains with PyTorch until it is told to end; each prints a line of JSON with a hash of what came out.

  jax_and_torch.py inference|training STEPS
  jax_and_torch.py torch FOLDER
"""
import json
import os
import sys
import time


def jax_program(kind, steps):
    import hashlib

    import jax
    import jax.numpy as jnp
    import numpy as np
    width, heads, layers, batch, length = 256, 4, 3, 8, 128
    key = jax.random.PRNGKey(7)

    def weights(*shape):
        nonlocal key
        key, one = jax.random.split(key)
        return jax.random.normal(one, shape, jnp.float32) * shape[0] ** -0.5
    parameters = [{"qkv": weights(width, 3 * width), "out": weights(width, width), "up": weights(width, 4 * width), "down": weights(4 * width, width)} for _ in range(layers)]
    x, y = weights(batch, length, width), weights(batch, length, width)

    def norm(h):
        return (h - h.mean(-1, keepdims=True)) * jax.lax.rsqrt(h.var(-1, keepdims=True) + 1e-5)

    def forward(parameters, h):
        for layer in parameters:
            q, k, v = jnp.split((norm(h) @ layer["qkv"]).reshape(batch, length, 3 * heads, width // heads).transpose(0, 2, 1, 3), 3, 1)
            scores = jax.nn.softmax((q @ k.transpose(0, 1, 3, 2)) * (width // heads) ** -0.5, -1)
            h = h + (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ layer["out"]
            h = h + jax.nn.gelu(norm(h) @ layer["up"]) @ layer["down"]
        return h

    infer = jax.jit(lambda p, h: norm(forward(p, h)))

    @jax.jit
    def train(p, m):
        loss, g = jax.value_and_grad(lambda p: jnp.mean(jnp.square(forward(p, x) - y)))(p)
        m = jax.tree_util.tree_map(lambda m, g: 0.9 * m + g, m, g)
        return jax.tree_util.tree_map(lambda p, m: p - 1e-3 * m, p, m), m, loss

    began = time.time()
    if kind == "inference":
        h = x
        for i in range(steps):
            h = infer(parameters, h)
            if i % 10 == 9:
                h.block_until_ready()
        out = [np.asarray(h)]
    else:
        momentum = jax.tree_util.tree_map(jnp.zeros_like, parameters)
        losses = []
        for i in range(steps):
            parameters, momentum, loss = train(parameters, momentum)
            if i % 5 == 4:
                losses.append(float(loss))
        out = [np.asarray(losses, np.float32)] + [np.asarray(a) for a in jax.tree_util.tree_leaves(parameters)]
    digest = hashlib.sha256(b"".join(a.tobytes() for a in out)).hexdigest()
    print(json.dumps({"sha256": digest, "sum": float(sum(np.abs(a.astype(np.float64)).sum() for a in out)), "finite": bool(all(np.isfinite(a).all() for a in out)),
                      "steps": steps, "loop_s": round(time.time() - began, 2), "platform": jax.devices()[0].platform}), flush=True)


def torch_program(folder):
    """Trains until FOLDER/enough is there; says the hash of its first 20 steps."""
    import hashlib

    import torch
    torch.manual_seed(3)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(2048, 1024, device="cuda"), torch.randn(2048, 1024, device="cuda")
    losses, steps = [], 0
    open(folder + "/torch.ready", "w").close()
    while steps < 20 or not os.path.exists(folder + "/enough"):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        steps += 1
        if steps <= 20:
            losses.append(loss.item())
        elif steps % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    print(json.dumps({"sha256": hashlib.sha256(json.dumps(losses).encode()).hexdigest(), "sum": sum(losses), "finite": losses == losses, "steps": steps}), flush=True)


if __name__ == "__main__":
    torch_program(sys.argv[2]) if sys.argv[1] == "torch" else jax_program(sys.argv[1], int(sys.argv[2]))
