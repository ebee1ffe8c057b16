"""Decode steps and prefills of three language models with random weights in bf16: `build(name)` gives a function that runs one.

A name is MODEL-decode-bBATCH-cCONTEXT or MODEL-prefill-TOKENS. PyTorch is imported where it is used: the lists need none of it.
"""
import hashlib

MODELS = {  # width, query heads, key heads, hidden width, layers; of a mixture: experts, and how many a token takes
    "wide": {"width": 4096, "heads": 32, "groups": 8, "hidden": 14336, "layers": 8},
    "small": {"width": 2560, "heads": 32, "groups": 32, "hidden": 6912, "layers": 8, "flash": True},
    "experts": {"width": 2048, "heads": 16, "groups": 4, "hidden": 1408, "layers": 8, "experts": 16, "taken": 2, "flash": True},
}
VOCABULARY = 32000
DECODES = {"wide": [(8, 4096), (1, 1024), (32, 2048), (64, 8192)], "small": [(8, 1024), (64, 2048), (1, 4096), (32, 4096)],
           "experts": [(1, 2048), (32, 1024), (8, 8192), (64, 4096)]}  # batch, context
PREFILLS = [2048, 512, 4096]
NAMES = {model: [f"{model}-decode-b{b}-c{c}" for b, c in DECODES[model]] + [f"{model}-prefill-{n}" for n in PREFILLS] for model in MODELS}
PAIRS = [("wide-decode-b8-c4096", "wide-prefill-2048"), ("experts-decode-b1-c2048", "experts-prefill-2048"),
         ("small-decode-b8-c1024", "small-prefill-4096"), ("wide-decode-b32-c2048", "wide-prefill-512"),
         ("experts-decode-b32-c1024", "experts-prefill-4096"), ("wide-decode-b1-c1024", "wide-prefill-2048")]


def is_set_aside(name):
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


def pair_is_set_aside(pair):
    return any(map(is_set_aside, pair))


class Model:
    def __init__(self, name, device="cuda"):
        import torch
        self.torch, self.device, shape = torch, device, MODELS[name]
        self.width, self.heads, self.groups, self.hidden = (shape[k] for k in ("width", "heads", "groups", "hidden"))
        self.experts, self.taken, self.flash, self.each = shape.get("experts"), shape.get("taken"), shape.get("flash"), shape["width"] // shape["heads"]
        torch.manual_seed(1)
        width, hidden, experts = self.width, self.hidden, self.experts
        self.embedding, self.head, self.last_norm = self.weights(VOCABULARY, width), self.weights(width, VOCABULARY), self.ones()
        self.layers = []
        for _ in range(shape["layers"]):
            of_experts = (experts,) if experts else ()
            self.layers.append({"norm": self.ones(), "qkv": self.weights(width, width + 2 * self.groups * self.each), "out": self.weights(width, width),
                                "norm2": self.ones(), "up": self.weights(*of_experts, width, 2 * hidden), "down": self.weights(*of_experts, hidden, width),
                                "gate": self.weights(width, experts) if experts else None})
        self.products = self.grouped_products() if experts else None

    def weights(self, *shape):
        return self.torch.randn(*shape, device=self.device, dtype=self.torch.bfloat16).mul_(shape[-2] ** -0.5)

    def ones(self):
        return self.torch.ones(self.width, device=self.device, dtype=self.torch.bfloat16)

    def grouped_products(self):
        """PyTorch's product over groups of rows where this PyTorch has one that needs no host, else one in places of fixed number."""
        torch = self.torch
        try:
            ends = torch.full((self.experts,), 16, device=self.device, dtype=torch.int32)
            ends[0] = 8
            torch._grouped_mm(self.weights(16, self.width), self.layers[0]["up"], offs=ends)
            if self.device == "cuda":
                torch.cuda.synchronize()
            return "grouped"
        except Exception as error:
            print("no grouped product:", repr(error)[:200], flush=True)
            return "batched"

    def of_experts(self, h, layer):
        torch = self.torch
        shares, chosen = (h @ layer["gate"]).float().softmax(-1).topk(self.taken, -1)
        expert, order = chosen.flatten().sort(stable=True)
        token = order // self.taken
        numbers = torch.arange(self.experts, device=h.device)
        if self.products == "grouped":
            ends = torch.searchsorted(expert, numbers, right=True).int()
            gate, up = torch._grouped_mm(h[token], layer["up"], offs=ends).chunk(2, -1)
            outputs = torch._grouped_mm(torch.nn.functional.silu(gate) * up, layer["down"], offs=ends)
        else:
            room = min(len(h), max(16, 4 * len(order) // self.experts))
            nth = torch.arange(len(expert), device=h.device) - torch.searchsorted(expert, expert)
            place = expert * room + nth.clamp(max=room - 1)
            inputs = h.new_zeros(self.experts * room, self.width).index_copy(0, place, h[token])
            gate, up = torch.bmm(inputs.view(self.experts, room, -1), layer["up"]).chunk(2, -1)
            outputs = torch.bmm(torch.nn.functional.silu(gate) * up, layer["down"]).view(-1, self.width)[place]
        scaled = outputs * shares.flatten()[order, None].to(h.dtype)
        return torch.zeros_like(h).index_add_(0, token, scaled)

    def forward(self, tokens, places, caches, rotation, is_prompt):
        """tokens: a row a sequence; places: of the new tokens in the caches. The next token of each sequence."""
        torch, f = self.torch, self.torch.nn.functional
        batch, length = tokens.shape
        cosine, sine = rotation

        def rotated(x):
            low, high = x.chunk(2, -1)
            return x * cosine + torch.cat((-high, low), -1) * sine
        x = self.embedding[tokens]
        for layer, (keys, values) in zip(self.layers, caches):
            h = f.rms_norm(x, (self.width,), layer["norm"])
            q, k, v = (part.view(batch, length, -1, self.each).transpose(1, 2) for part in
                       (h @ layer["qkv"]).split([self.width, self.groups * self.each, self.groups * self.each], -1))
            q, k = rotated(q), rotated(k)
            keys.index_copy_(2, places, k), values.index_copy_(2, places, v)
            a = f.scaled_dot_product_attention(q, k if is_prompt else keys, v if is_prompt else values, is_causal=is_prompt,
                                               enable_gqa=self.groups != self.heads)
            x = x + a.transpose(1, 2).reshape(batch, length, self.width) @ layer["out"]
            h = f.rms_norm(x, (self.width,), layer["norm2"])
            if self.experts:
                x = x + self.of_experts(h.view(-1, self.width), layer).view(batch, length, self.width)
            else:
                gate, up = (h @ layer["up"]).chunk(2, -1)
                x = x + (f.silu(gate) * up) @ layer["down"]
        return (f.rms_norm(x[:, -1], (self.width,), self.last_norm) @ self.head).argmax(-1)

    def request(self, is_prompt, batch, context):
        """A function that reads a prompt of `context` tokens, or adds to each of `batch` sequences the token that fills its context."""
        torch = self.torch
        new = context if is_prompt else 1
        tokens = torch.randint(0, VOCABULARY, (batch, new), device=self.device)
        places = torch.arange(context - new, context, device=self.device)
        angles = places[:, None] * torch.exp(-9.2 * torch.arange(0, self.each, 2, device=self.device) / self.each)
        rotation = [part.repeat(1, 2).to(torch.bfloat16) for part in (angles.cos(), angles.sin())]
        caches = [[torch.empty(batch, self.groups, context, self.each, device=self.device, dtype=torch.bfloat16).normal_() for _ in range(2)]
                  for _ in self.layers]

        def run():
            with torch.no_grad():
                if not self.flash:
                    return self.forward(tokens, places, caches, rotation, is_prompt)
                from torch.nn.attention import SDPBackend, sdpa_kernel
                with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True):
                    return self.forward(tokens, places, caches, rotation, is_prompt)
        return run


built = {}


def build(name, device="cuda"):
    model, what, *rest = name.split("-")
    if model not in built:
        built[model] = Model(model, device)
    if what == "prefill":
        return built[model].request(True, 1, int(rest[0]))
    return built[model].request(False, int(rest[0][1:]), int(rest[1][1:]))
