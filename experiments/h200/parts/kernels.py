"""Operations of an H200: name -> (kind, maker of a function that launches one or a few kernels on the current stream).

Each has buffers of its own. What a launch reads and writes is more than L2 holds or, where it is less, takes turns among buffers
that together are more, so that launches in a row find L2 as cold as Nsight Compute's replay does; kinds that say "in L2" do not.
"""
import hashlib
import itertools

OPERATIONS = {}
BEYOND_L2 = 256 << 20  # bytes
torch = F = DEVICE = None


def set_aside(name):
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


def in_order():
    """Names such that a prefix has all kinds."""
    kinds = {}
    for name, (kind, _) in OPERATIONS.items():
        kinds.setdefault(kind, []).append(name)
    return [name for row in itertools.zip_longest(*kinds.values()) for name in row if name]


def prepare(device="cuda"):
    global torch, F, DEVICE
    import torch as module
    torch, F, DEVICE = module, module.nn.functional, device
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(48)


def make(name):
    torch.manual_seed(48)
    return OPERATIONS[name][1]()


def operation(kind, name=None):
    def add(maker):
        OPERATIONS[name or maker.__name__] = kind, maker
        return maker
    return add


def of(dtype):
    return getattr(torch, dtype)


def normal(*shape, dtype="float32"):
    return torch.randn(*shape, device=DEVICE, dtype=of(dtype))


def uniform(*shape, dtype="float32"):
    return torch.rand(*shape, device=DEVICE).to(of(dtype))


def empty(*shape, dtype="float32"):
    return torch.empty(*shape, device=DEVICE, dtype=of(dtype))


def below(limit, *shape):
    return torch.randint(limit, shape, device=DEVICE)


def channels_last(tensor):
    return tensor.to(memory_format=torch.channels_last)


def in_turn(one, size):
    """Calls of makers' results in turn, as many as fill BEYOND_L2 with `size` bytes each."""
    calls = itertools.cycle([one() for _ in range(max(1, -(-BEYOND_L2 // size)))])
    return lambda: next(calls)()


# ---- products of matrices ----------------------------------------------------------------------------------------------

WIDE = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def product(kind, name, m, n, k, dtype, linear=False):
    """linear: the second factor lies as a linear layer's weight."""
    def one():
        a, c = normal(m, k, dtype=dtype), empty(m, n, dtype=dtype)
        b = normal(n, k, dtype=dtype).t() if linear else normal(k, n, dtype=dtype)
        return lambda: torch.mm(a, b, out=c)
    operation(kind, name)(lambda: in_turn(one, WIDE[dtype] * (m * k + n * k + m * n)))


product("skinny gemm", "skinny_m1_4096_4096", 1, 4096, 4096, "bfloat16", True)
product("skinny gemm", "skinny_m8_4096_14336", 8, 4096, 14336, "bfloat16", True)
product("skinny gemm", "skinny_m64_14336_4096", 64, 14336, 4096, "bfloat16", True)
product("skinny gemm", "skinny_m16_8192_8192", 16, 8192, 8192, "float16", True)
product("skinny gemm", "skinny_m4_14336_4096", 4, 14336, 4096, "float16", True)
product("skinny gemm", "skinny_m32_6144_4096", 32, 6144, 4096, "bfloat16", True)
product("split-K gemm", "split_128_128_65536", 128, 128, 65536, "float16")
product("split-K gemm", "split_256_512_16384", 256, 512, 16384, "bfloat16")
product("split-K gemm", "split_f32_256_256_16384", 256, 256, 16384, "float32")
product("one-wave gemm", "wave_1024_1024_4096", 1024, 1024, 4096, "float16")
product("one-wave gemm", "wave_512_4k_4k", 512, 4096, 4096, "bfloat16", True)
product("one-wave gemm", "wave_2048_1024_2048", 2048, 1024, 2048, "float16", True)
product("one-wave gemm", "wave_768_1536_8192", 768, 1536, 8192, "bfloat16")
product("square gemm", "square_2048", 2048, 2048, 2048, "bfloat16")
product("square gemm", "square_4096", 4096, 4096, 4096, "float16")
product("square gemm", "gemm_tall_16384", 16384, 1024, 1024, "bfloat16", True)
product("fp32 gemm", "sgemm_1024", 1024, 1024, 1024, "float32")
product("fp32 gemm", "sgemm_2048", 2048, 2048, 2048, "float32")
product("fp32 gemm", "sgemm_32_4096_4096", 32, 4096, 4096, "float32", True)
product("fp64 gemm", "dgemm_1024", 1024, 1024, 1024, "float64")


def batched(name, batch, m, n, k, dtype):
    def one():
        a, b, c = normal(batch, m, k, dtype=dtype), normal(batch, k, n, dtype=dtype), empty(batch, m, n, dtype=dtype)
        return lambda: torch.bmm(a, b, out=c)
    operation("batched gemm", name)(lambda: in_turn(one, WIDE[dtype] * batch * (m * k + k * n + m * n)))


batched("bmm_f16_64_512_512_128", 64, 512, 512, 128, "float16")
batched("bmm_f32_96_512_64_512", 96, 512, 64, 512, "float32")
batched("bmm_bf16_512_128_128_64", 512, 128, 128, 64, "bfloat16")


@operation("fp8 gemm")
def fp8_2048_4096_4096():
    def one():
        a = normal(2048, 4096).to(torch.float8_e4m3fn)
        b = normal(4096, 4096).to(torch.float8_e4m3fn).t()
        unit = torch.ones((), device=DEVICE)
        return lambda: torch._scaled_mm(a, b, scale_a=unit, scale_b=unit, out_dtype=torch.bfloat16)
    return in_turn(one, 40 << 20)


def experts(name, count, width, hidden, tokens):
    """A product an expert; `tokens` rows of each, or all of them, drawn unevenly."""
    def grouped():
        each = torch.full((count,), tokens, device=DEVICE)
        ends = each.cumsum(0).to(torch.int32)
        x, w = normal(count * tokens, width, dtype="bfloat16"), normal(count, hidden, width, dtype="bfloat16").transpose(1, 2)
        return lambda: torch._grouped_mm(x, w, offs=ends)
    operation("MoE batch", name)(grouped)


experts("moe_8_experts", 8, 4096, 7168, 16)


@operation("MoE batch")
def moe_bmm_8x4_4096_7168():
    x, w = normal(8, 4, 4096, dtype="bfloat16"), normal(8, 7168, 4096, dtype="bfloat16").transpose(1, 2)
    y = empty(8, 4, 7168, dtype="bfloat16")
    return lambda: torch.bmm(x, w, out=y)


@operation("MoE batch")
def moe_uneven_64_2048_1408():
    share = [1 + (37 * i * i) % 64 for i in range(64)]  # tokens of each expert, 1 to 64
    ends = torch.tensor(list(itertools.accumulate(share)), dtype=torch.int32, device=DEVICE)
    x, w = normal(sum(share), 2048, dtype="bfloat16"), normal(64, 1408, 2048, dtype="bfloat16").transpose(1, 2)
    return lambda: torch._grouped_mm(x, w, offs=ends)


# ---- attention ---------------------------------------------------------------------------------------------------------

def qkv(batch, heads, queries, keys, width, dtype):
    return (normal(batch, heads, queries, width, dtype=dtype), normal(batch, heads, keys, width, dtype=dtype),
            normal(batch, heads, keys, width, dtype=dtype))


def flash(kind, name, shape, dtype, causal=False):
    def maker():
        q, k, v = qkv(*shape, dtype)
        return lambda: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    operation(kind, name)(maker)


def cudnn_attention(kind, name, shape, dtype, causal=False):
    def maker():
        q, k, v = qkv(*shape, dtype)
        return lambda: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, causal)
    operation(kind, name)(maker)


flash("prefill attention", "flash_1k_causal", (4, 32, 1024, 1024, 128), "float16", True)
cudnn_attention("prefill attention", "cudnn_2k_causal", (2, 32, 2048, 2048, 128), "bfloat16", True)
flash("prefill attention", "flash_4k_causal", (1, 16, 4096, 4096, 128), "bfloat16", True)
flash("prefill attention", "flash_512_d64", (16, 12, 512, 512, 64), "float16")
cudnn_attention("prefill attention", "cudnn_1k_d64", (8, 16, 1024, 1024, 64), "float16")


@operation("prefill attention")
def efficient_1k():
    q, k, v = qkv(4, 16, 1024, 1024, 64, "float16")
    return lambda: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False)


flash("decode attention", "decode_flash_b8_2k", (8, 32, 1, 2048, 128), "float16")


def own_decode(name, batch, heads, length, splits, paged):
    """Sixteen queries share a head's keys; paged: the keys lie in pages of 16 in any order."""
    def maker():
        import own_triton
        group, width, page = 16, 128, 16
        q, k, v = qkv(batch, heads, group, length, width, "bfloat16")
        table = torch.randperm(batch * length // page, device=DEVICE).to(torch.int32)
        part, weight = empty(batch * heads, splits, group, width), empty(batch * heads, splits, group)
        y = torch.empty_like(q)

        def launch():
            own_triton.decode_part[batch * heads, splits](
                q, k, v, table, part, weight, width ** -0.5, HEADS=heads, GROUP=group, WIDTH=width, LENGTH=length,
                PART=length // splits, KEYS=64, PAGE=page, PAGED=paged, num_warps=4)
            own_triton.decode_join[batch * heads, group](part, weight, y, GROUP=group, WIDTH=width, SPLITS=splits)
        return launch
    operation("decode attention", name)(maker)


own_decode("decode_paged_b16_4k", 16, 8, 4096, 4, True)
flash("decode attention", "decode_flash_b32_2k", (32, 8, 1, 2048, 128), "bfloat16")
flash("decode attention", "flash_decode_b8_8k", (8, 8, 1, 8192, 128), "float16")
own_decode("split_decode_b4_8k", 4, 8, 8192, 16, False)
cudnn_attention("decode attention", "decode_cudnn_b32_2k", (32, 8, 1, 2048, 128), "bfloat16")


@operation("decode attention")
def decode_math_b8_2k():
    q, k, v = qkv(8, 32, 1, 2048, 128, "float16")
    return lambda: torch.ops.aten._scaled_dot_product_attention_math(q, k, v)


# ---- gather and scatter ------------------------------------------------------------------------------------------------

def rows(name, table, width, count, dtype):
    def maker():
        t, i, y = normal(table, width, dtype=dtype), below(table, count), empty(count, width, dtype=dtype)
        return lambda: torch.index_select(t, 0, i, out=y)
    operation("gather", name)(maker)


rows("gather_1_KiB", 1 << 19, 256, 1 << 16, "float32")


@operation("gather")
def embedding_bags():
    table, bags = normal(1 << 20, 128), below(1 << 20, 8192, 32)
    return lambda: F.embedding_bag(bags, table, mode="sum")


@operation("gather")
def gather_words():
    t, i, y = normal(1 << 26), below(1 << 26, 1 << 22), empty(1 << 22)
    return lambda: torch.index_select(t, 0, i, out=y)


@operation("gather")
def embedding_8192_4096():
    table, tokens = normal(32000, 4096, dtype="bfloat16"), below(32000, 8192)
    return lambda: F.embedding(tokens, table)


def scatter_add(name, targets, count):
    def maker():
        y, i, x = torch.zeros(targets, device=DEVICE), below(targets, count), normal(count)
        return lambda: y.scatter_add_(0, i, x)
    operation("scatter with atomics", name)(maker)


def index_add(name, targets, width, count):
    def maker():
        y, i, x = torch.zeros(targets, width, device=DEVICE), below(targets, count), normal(count, width)
        return lambda: y.index_add_(0, i, x)
    operation("scatter with atomics", name)(maker)


scatter_add("scatter_add_64_targets", 64, 1 << 20)
index_add("index_add_rows_many", 1 << 18, 256, 1 << 16)
scatter_add("scatter_add_many", 1 << 25, 1 << 22)
index_add("index_add_rows_few", 128, 64, 1 << 17)


@operation("scatter without atomics")
def scatter_words():
    y, i, x = empty(1 << 26), torch.randperm(1 << 26, device=DEVICE)[:1 << 22].contiguous(), normal(1 << 22)
    return lambda: y.scatter_(0, i, x)


@operation("scatter without atomics")
def segment_sums():
    x, lengths = normal(1 << 18, 128), torch.full((1 << 13,), 32, device=DEVICE)
    return lambda: torch.segment_reduce(x, "sum", lengths=lengths, axis=0, unsafe=True)


@operation("histogram")
def histogram_256():
    x = normal(1 << 25)
    return lambda: torch.histc(x, 256, -3, 3)


@operation("histogram")
def histogram_global():
    import own_triton
    x, counts = below(1 << 30, 1 << 22).to(torch.int32), torch.zeros(4096, dtype=torch.int32, device=DEVICE)
    return lambda: own_triton.count_values[(1 << 22) // 1024,](x, counts, BINS=4096, BLOCK=1024)


@operation("graph messages")
def messages():
    nodes, edges, width = 1 << 17, 1 << 18, 128
    x, y = normal(nodes, width), torch.zeros(nodes, width, device=DEVICE)
    source, target = below(nodes, edges), below(nodes, edges)
    kept = empty(edges, width)

    def launch():
        torch.index_select(x, 0, source, out=kept)
        y.index_add_(0, target, kept)
    return launch


# ---- sort, scan, FFT ---------------------------------------------------------------------------------------------------

@operation("sort")
def sort_rows_1024():
    x, v, i = normal(16384, 1024), empty(16384, 1024), empty(16384, 1024, dtype="int64")
    return lambda: torch.sort(x, 1, out=(v, i))


@operation("sort")
def sort_words_1m():
    x, v, i = normal(1 << 20), empty(1 << 20), empty(1 << 20, dtype="int64")
    return lambda: torch.sort(x, out=(v, i))


@operation("sort")
def sort_16m():
    x, v, i = below(1 << 30, 1 << 24).to(torch.int32), empty(1 << 24, dtype="int32"), empty(1 << 24, dtype="int64")
    return lambda: torch.sort(x, out=(v, i))


@operation("top-k")
def topk_50_of_32768():
    def one():
        x, v, i = normal(64, 32768), empty(64, 50), empty(64, 50, dtype="int64")
        return lambda: torch.topk(x, 50, out=(v, i))
    return in_turn(one, 8 << 20)


@operation("top-k")
def topk_8_of_1024():
    def one():
        x, v, i = normal(4096, 1024), empty(4096, 8), empty(4096, 8, dtype="int64")
        return lambda: torch.topk(x, 8, out=(v, i))
    return in_turn(one, 16 << 20)


@operation("scan")
def cumsum_rows():
    x, y = normal(8192, 4096), empty(8192, 4096)
    return lambda: torch.cumsum(x, 1, out=y)


@operation("scan")
def cumsum_32m():
    x, y = normal(1 << 25), empty(1 << 25)
    return lambda: torch.cumsum(x, 0, out=y)


@operation("FFT")
def fft_1024():
    x, y = normal(16384, 1024, dtype="complex64"), empty(16384, 1024, dtype="complex64")
    return lambda: torch.fft.fft(x, out=y)


@operation("FFT")
def fft_2d_512():
    x = normal(64, 512, 512)
    return lambda: torch.fft.rfft2(x)


@operation("FFT")
def fft_4m():
    x, y = normal(4, 1 << 22, dtype="complex64"), empty(4, 1 << 22, dtype="complex64")
    return lambda: torch.fft.fft(x, out=y)


# ---- rows: norms, softmax, losses --------------------------------------------------------------------------------------

@operation("norm")
def layernorm_16384_4096():
    x, w, b = normal(16384, 4096, dtype="bfloat16"), normal(4096, dtype="bfloat16"), normal(4096, dtype="bfloat16")
    return lambda: F.layer_norm(x, (4096,), w, b)


@operation("norm")
def rmsnorm_8192_8192():
    x, w = normal(8192, 8192, dtype="bfloat16"), normal(8192, dtype="bfloat16")
    return lambda: F.rms_norm(x, (8192,), w, 1e-6)


@operation("norm")
def groupnorm_320():
    x, w, b = normal(16, 320, 64, 64, dtype="float16"), normal(320, dtype="float16"), normal(320, dtype="float16")
    return lambda: F.group_norm(x, 32, w, b)


@operation("norm")
def batchnorm_64():
    x = normal(32, 64, 112, 112)
    mean, variance, scale, shift = (normal(64).abs() for _ in range(4))
    return lambda: F.batch_norm(x, mean, variance, scale, shift)


@operation("softmax")
def softmax_rows_32768():
    x, y = normal(1024, 32768), empty(1024, 32768)
    return lambda: torch.softmax(x, 1, out=y)


@operation("softmax")
def log_softmax_512_128256():
    x = normal(512, 128256, dtype="bfloat16")
    return lambda: F.log_softmax(x, 1)


@operation("softmax")
def cross_entropy_2048_50304():
    x, t = normal(2048, 50304), below(50304, 2048)
    return lambda: F.cross_entropy(x, t)


# ---- convolutions, pools -----------------------------------------------------------------------------------------------

def convolution(name, image, weight, dtype, last, transposed=False, **options):
    def one():
        x, w = normal(*image, dtype=dtype), normal(*weight, dtype=dtype)
        if last:
            x, w = channels_last(x), channels_last(w)
        call = F.conv_transpose2d if transposed else F.conv2d
        return lambda: call(x, w, **options)

    def size(shape):
        return WIDE[dtype] * shape[0] * shape[1] * shape[2] * shape[3]
    operation("convolution", name)(lambda: in_turn(one, size(image) + size(weight)))


convolution("conv3x3_f16_b32", (32, 128, 56, 56), (128, 128, 3, 3), "float16", True, padding=1)
convolution("conv3x3_f16_b1", (1, 512, 28, 28), (512, 512, 3, 3), "float16", True, padding=1)
convolution("conv3x3_f32_b8", (8, 64, 56, 56), (64, 64, 3, 3), "float32", False, padding=1)
convolution("conv1x1_f16_b32", (32, 256, 56, 56), (128, 256, 1, 1), "float16", True)
convolution("conv_dw3x3_f32", (32, 64, 112, 112), (64, 1, 3, 3), "float32", False, padding=1, groups=64)
convolution("conv7x7_f32_s2", (16, 3, 224, 224), (64, 3, 7, 7), "float32", False, padding=3, stride=2)
convolution("conv_transposed_f16", (16, 256, 32, 32), (256, 128, 4, 4), "float16", True, True, padding=1, stride=2)
convolution("conv_dw7x7_f16", (32, 192, 28, 28), (192, 1, 7, 7), "float16", False, padding=3, groups=192)
convolution("conv3x3_f32_b32", (32, 128, 28, 28), (128, 128, 3, 3), "float32", False, padding=1)


@operation("pool")
def maxpool_f16():
    x = channels_last(normal(32, 64, 112, 112, dtype="float16"))
    return lambda: F.max_pool2d(x, 3, 2, 1)


@operation("pool")
def avgpool_f32():
    x = normal(32, 64, 112, 112)
    return lambda: F.avg_pool2d(x, 3, 2)


@operation("pool")
def upsample_bilinear():
    x = normal(16, 64, 56, 56)
    return lambda: F.interpolate(x, scale_factor=2.0, mode="bilinear")


# ---- recurrent cells ---------------------------------------------------------------------------------------------------

@operation("recurrent")
def lstm_cell_4096():
    batch, width = 4096, 1024
    gates, hidden, c = normal(batch, 4 * width), normal(batch, 4 * width), normal(batch, width)
    b, d = normal(4 * width), normal(4 * width)
    return lambda: torch.ops.aten._thnn_fused_lstm_cell(gates, hidden, c, b, d)


@operation("recurrent")
def gru_cell():
    batch, width = 8192, 1024
    gates, hidden = normal(batch, 3 * width, dtype="float16"), normal(batch, 3 * width, dtype="float16")
    h, b, d = normal(batch, width, dtype="float16"), normal(3 * width, dtype="float16"), normal(3 * width, dtype="float16")
    return lambda: torch.ops.aten._thnn_fused_gru_cell(gates, hidden, h, b, d)


@operation("recurrent")
def lstm_12_steps():
    net = torch.nn.LSTM(512, 512).to(DEVICE, torch.float16)
    x = normal(12, 64, 512, dtype="float16")
    return lambda: net(x)


# ---- Triton, Inductor, CuPy --------------------------------------------------------------------------------------------

@operation("Triton")
def triton_bias_gelu():
    import own_triton
    x, r, b = normal(16384, 4096, dtype="bfloat16"), normal(16384, 4096, dtype="bfloat16"), normal(4096, dtype="bfloat16")
    y = torch.empty_like(x)
    return lambda: own_triton.gelu_bias_residual[16384,](x, b, r, y, COLUMNS=4096, num_warps=8)


@operation("Triton")
def triton_persistent_matmul():
    import own_triton

    def one():
        a, b = normal(4096, 2048, dtype="float16"), normal(2048, 4096, dtype="float16")
        c = empty(4096, 4096, dtype="float16")
        return lambda: own_triton.persistent_product[132,](a, b, c, 4096, 4096, 2048, ROWS=128, COLUMNS=128, STEP=64,
                                                           num_warps=8, num_stages=3)
    return in_turn(one, 64 << 20)


@operation("Triton")
def triton_softmax():
    import own_triton
    x, y = normal(8192, 8192), empty(8192, 8192)
    return lambda: own_triton.softmax[8192,](x, y, COLUMNS=8192, num_warps=8)


@operation("Triton")
def triton_product():
    import own_triton

    def one():
        a, b = normal(2048, 2048, dtype="bfloat16"), normal(2048, 2048, dtype="bfloat16")
        c = empty(2048, 2048, dtype="bfloat16")
        return lambda: own_triton.product[16, 16](a, b, c, 2048, 2048, ROWS=128, COLUMNS=128, STEP=64, num_warps=8,
                                                  num_stages=3)
    return in_turn(one, 24 << 20)


@operation("Triton")
def triton_layernorm():
    import own_triton
    x, w, b = normal(32768, 2048, dtype="float16"), normal(2048, dtype="float16"), normal(2048, dtype="float16")
    y = torch.empty_like(x)
    return lambda: own_triton.layernorm[32768,](x, w, b, y, COLUMNS=2048, num_warps=4)


@operation("Triton")
def triton_split_product():
    import own_triton

    def one():
        a, b = normal(128, 16384, dtype="float16"), normal(16384, 512, dtype="float16")
        c = torch.zeros(128, 512, device=DEVICE)
        return lambda: own_triton.split_product[2, 8, 16](a, b, c, 512, 16384, 1024, ROWS=64, COLUMNS=64, STEP=64,
                                                          num_warps=4, num_stages=3)
    return in_turn(one, 20 << 20)


def compiled(function, *inputs):
    call = torch.compile(function, dynamic=False)
    return lambda: call(*inputs)


@operation("Inductor")
def inductor_swiglu():
    def swiglu(x):
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up
    return compiled(swiglu, normal(8192, 16384, dtype="bfloat16"))


@operation("Inductor")
def inductor_add_rmsnorm():
    def add_rmsnorm(x, r, w):
        h = (x + r).float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w).to(torch.bfloat16)
    return compiled(add_rmsnorm, normal(16384, 4096, dtype="bfloat16"), normal(16384, 4096, dtype="bfloat16"), normal(4096))


@operation("Inductor")
def inductor_rotary():
    def rotary(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin
    return compiled(rotary, normal(4, 32, 4096, 128, dtype="bfloat16"), normal(4096, 128, dtype="bfloat16"),
                    normal(4096, 128, dtype="bfloat16"))


@operation("Inductor")
def inductor_mean_of_squares():
    def loss(x, t):
        return (F.gelu(x) - t).square().mean()
    return compiled(loss, normal(1 << 26), normal(1 << 26))


def on_cupy(call):
    """On PyTorch's current stream."""
    import cupy
    external = getattr(cupy.cuda, "ExternalStream", None)  # a later release has none

    def launch():
        stream = torch.cuda.current_stream()
        with external(stream.cuda_stream) if external else cupy.cuda.Stream.from_external(stream):
            call()
    return launch


@operation("CuPy")
def cupy_row_maximum():
    import cupy
    x, y = cupy.asarray(normal(32768, 4096)), cupy.asarray(empty(32768))
    return on_cupy(lambda: cupy.amax(x, axis=1, out=y))


@operation("CuPy")
def cupy_nbody():
    """Forces among bodies: one kernel, bound by its instructions."""
    import cupy
    kernel = cupy.RawKernel(r"""
extern "C" __global__ void bodies(const float4* body, float4* force, int count) {
  __shared__ float4 near[256];
  float4 me = body[blockIdx.x * 256 + threadIdx.x], sum = {0, 0, 0, 0};
  for (int first = 0; first < count; first += 256) {
    near[threadIdx.x] = body[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 256; ++i) {
      float x = near[i].x - me.x, y = near[i].y - me.y, z = near[i].z - me.z;
      float r = rsqrtf(x * x + y * y + z * z + 0.01f), s = near[i].w * r * r * r;
      sum.x += s * x; sum.y += s * y; sum.z += s * z;
    }
    __syncthreads();
  }
  force[blockIdx.x * 256 + threadIdx.x] = sum;
}""", "bodies")
    count = 1 << 15
    x, y = cupy.asarray(uniform(count, 4)), cupy.asarray(empty(count, 4))
    return on_cupy(lambda: kernel((count // 256,), (256,), (x, y, cupy.int32(count))))


@operation("CuPy")
def cupy_elementwise():
    import cupy
    kernel = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x > 0 ? sqrtf(x) * y : -y", "sqrt_or_minus")
    x, y, z = (cupy.asarray(normal(1 << 25)) for _ in range(3))
    return on_cupy(lambda: kernel(x, y, z))


# ---- copies, elementwise, reductions -----------------------------------------------------------------------------------

@operation("copy")
def copy_strided():
    x, y = normal(8192, 16384)[:, ::2], empty(8192, 8192)
    return lambda: y.copy_(x)


@operation("copy")
def transpose_8192():
    x, y = normal(8192, 8192, dtype="bfloat16").t(), empty(8192, 8192, dtype="bfloat16")
    return lambda: y.copy_(x)


@operation("copy")
def cast_to_f32():
    x, y = normal(1 << 26, dtype="bfloat16"), empty(1 << 26)
    return lambda: y.copy_(x)


@operation("copy")
def triton_copy():
    import own_triton
    x, y = normal(1 << 26), empty(1 << 26)
    return lambda: own_triton.copy[(1 << 26) // 2048,](x, y, BLOCK=2048, num_warps=4)


@operation("copy")
def cat_4():
    def one():
        x, y = [normal(4096, 2048, dtype="float16") for _ in range(4)], empty(4096, 8192, dtype="float16")
        return lambda: torch.cat(x, 1, out=y)
    return in_turn(one, 128 << 20)


@operation("copy")
def heads_first():
    x, y = normal(8, 2048, 32, 128, dtype="bfloat16").transpose(1, 2), empty(8, 32, 2048, 128, dtype="bfloat16")
    return lambda: y.copy_(x)


@operation("elementwise")
def add_f32():
    x, y, z = normal(1 << 26), normal(1 << 26), empty(1 << 26)
    return lambda: torch.add(x, y, out=z)


@operation("elementwise")
def dropout_bf16():
    x = normal(1 << 26, dtype="bfloat16")
    return lambda: torch.native_dropout(x, 0.1, True)


@operation("elementwise")
def sine_f64():
    x, y = normal(1 << 23, dtype="float64"), empty(1 << 23, dtype="float64")
    return lambda: torch.sin(x, out=y)


@operation("elementwise")
def masked():
    x, y, z = normal(1 << 26, dtype="float16"), normal(1 << 26, dtype="float16"), empty(1 << 26, dtype="float16")
    mask = normal(1 << 26) > 0
    return lambda: torch.where(mask, x, y, out=z)


@operation("elementwise")
def gelu_in_l2():
    x, y = normal(1 << 22, dtype="bfloat16"), empty(1 << 22, dtype="bfloat16")
    return lambda: torch.ops.aten.gelu.out(x, out=y)


@operation("reduction")
def sum_of_rows():
    x, y = normal(16384, 4096), empty(16384)
    return lambda: torch.sum(x, 1, out=y)


@operation("reduction")
def sum_of_columns():
    x, y = normal(16384, 8192, dtype="bfloat16"), empty(8192, dtype="bfloat16")
    return lambda: torch.sum(x, 0, out=y)


@operation("reduction")
def argmax_of_rows():
    x, y = normal(512, 128256), empty(512, dtype="int64")
    return lambda: torch.argmax(x, 1, out=y)


# ---- optimizers, sparse and dense algebra ------------------------------------------------------------------------------

def parameters(count, size):
    return [[normal(size).abs() for _ in range(count)] for _ in range(4)]


@operation("optimizer")
def adam_fused():
    p, g, m, v = parameters(8, 1 << 21)
    steps = [torch.ones((), device=DEVICE) for _ in p]
    return lambda: torch._fused_adam_(p, g, m, v, [], steps, lr=1e-9, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
                                      amsgrad=False, maximize=False)


@operation("optimizer")
def adam_foreach():
    p, g, m, v = parameters(16, 1 << 20)

    def launch():
        torch._foreach_lerp_(m, g, 0.1)
        torch._foreach_addcmul_(v, g, g, 1e-9)
        torch._foreach_addcdiv_(p, m, v, -1e-9)
    return launch


def sparse(size, each):
    """CSR with `each` random columns a row."""
    ends = torch.arange(0, size * each + 1, each, dtype=torch.int32, device=DEVICE)
    columns = below(size, size, each).sort(1)[0].flatten().to(torch.int32)
    return torch.sparse_csr_tensor(ends, columns, normal(size * each), (size, size), check_invariants=False)


@operation("sparse")
def spmv_csr():
    a, x, y = sparse(1 << 20, 32), normal(1 << 20), empty(1 << 20)
    return lambda: torch.mv(a, x, out=y)


@operation("sparse")
def spmm_csr():
    a, x, y = sparse(1 << 17, 32), normal(1 << 17, 64), empty(1 << 17, 64)
    return lambda: torch.mm(a, x, out=y)


@operation("small solvers")
def cholesky_64():
    x = normal(2048, 64, 64)
    x = x @ x.transpose(1, 2) + 64 * torch.eye(64, device=DEVICE)
    return lambda: torch.linalg.cholesky_ex(x)


@operation("small solvers")
def triangular_128():
    x = normal(512, 128, 128).tril() + 128 * torch.eye(128, device=DEVICE)
    b = normal(512, 128, 32)
    return lambda: torch.linalg.solve_triangular(x, b, upper=False)
