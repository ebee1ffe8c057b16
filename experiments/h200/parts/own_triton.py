"""Kernels in Triton: fusions, products of matrices, attention of a decode step with its keys split among blocks."""
import triton
import triton.language as tl


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def gelu_bias_residual(x, bias, residual, y, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    at = tl.program_id(0).to(tl.int64) * COLUMNS + column
    h = tl.load(x + at).to(tl.float32) + tl.load(bias + column).to(tl.float32)
    h = 0.5 * h * (1 + tl.erf(h * 0.70710678)) + tl.load(residual + at).to(tl.float32)
    tl.store(y + at, h.to(y.dtype.element_ty))


@triton.jit
def softmax(x, y, COLUMNS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(x + at).to(tl.float32)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, (row / tl.sum(row, 0)).to(y.dtype.element_ty))


@triton.jit
def layernorm(x, scale, shift, y, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    at = tl.program_id(0).to(tl.int64) * COLUMNS + column
    row = tl.load(x + at).to(tl.float32)
    row = row - tl.sum(row, 0) / COLUMNS
    row = row * tl.rsqrt(tl.sum(row * row, 0) / COLUMNS + 1e-5)
    row = row * tl.load(scale + column).to(tl.float32) + tl.load(shift + column).to(tl.float32)
    tl.store(y + at, row.to(y.dtype.element_ty))


@triton.jit
def tile_of_product(a, b, first_row, first_column, first_k, N, K, DEPTH,
                    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    row, column, k = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS), tl.arange(0, STEP)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(0, DEPTH, STEP):
        at = first_k + step + k
        total = tl.dot(tl.load(a + row[:, None] * K + at[None, :]), tl.load(b + at[:, None] * N + column[None, :]), total)
    return total


@triton.jit
def product(a, b, c, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    first_row, first_column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    total = tile_of_product(a, b, first_row, first_column, 0, N, K, K, ROWS, COLUMNS, STEP)
    row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def persistent_product(a, b, c, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    across = N // COLUMNS
    for tile in range(tl.program_id(0), (M // ROWS) * across, tl.num_programs(0)):
        first_row, first_column = (tile // across) * ROWS, (tile % across) * COLUMNS
        total = tile_of_product(a, b, first_row, first_column, 0, N, K, K, ROWS, COLUMNS, STEP)
        row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
        tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


@triton.jit
def split_product(a, b, c, N, K, DEPTH, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """Blocks that share a tile add to it with atomics."""
    first_row, first_column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    total = tile_of_product(a, b, first_row, first_column, tl.program_id(2) * DEPTH, N, K, DEPTH, ROWS, COLUMNS, STEP)
    row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    tl.atomic_add(c + row[:, None] * N + column[None, :], total, sem="relaxed")


@triton.jit
def decode_part(q, k, v, table, part, weight, scale, HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
                LENGTH: tl.constexpr, PART: tl.constexpr, KEYS: tl.constexpr, PAGE: tl.constexpr, PAGED: tl.constexpr):
    """GROUP queries against PART of the keys of a head; weight: the logarithm of the sum of their exponentials."""
    which, split = tl.program_id(0), tl.program_id(1)
    group, dim = tl.arange(0, GROUP), tl.arange(0, WIDTH)
    query = tl.load(q + (which * GROUP + group)[:, None] * WIDTH + dim[None, :])
    top = tl.full([GROUP], -1e30, tl.float32)
    total = tl.zeros([GROUP], tl.float32)
    out = tl.zeros([GROUP, WIDTH], tl.float32)
    for at in range(0, PART, KEYS):
        token = split * PART + at + tl.arange(0, KEYS)
        if PAGED:
            page = tl.load(table + (which // HEADS) * (LENGTH // PAGE) + token // PAGE).to(tl.int64)
            row = (page * HEADS + which % HEADS) * PAGE + token % PAGE
        else:
            row = which.to(tl.int64) * LENGTH + token
        keys = tl.load(k + row[None, :] * WIDTH + dim[:, None])
        values = tl.load(v + row[:, None] * WIDTH + dim[None, :])
        score = tl.dot(query, keys) * scale
        higher = tl.maximum(top, tl.max(score, 1))
        p = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(p, 1)
        out = out * fade[:, None] + tl.dot(p.to(values.dtype), values)
        top = higher
    slot = (which * tl.num_programs(1) + split) * GROUP + group
    tl.store(part + slot[:, None] * WIDTH + dim[None, :], out / total[:, None])
    tl.store(weight + slot, top + tl.log(total))


@triton.jit
def decode_join(part, weight, y, GROUP: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    which, member = tl.program_id(0), tl.program_id(1)
    slot = (which * SPLITS + tl.arange(0, SPLITS)) * GROUP + member
    w = tl.load(weight + slot)
    w = tl.exp(w - tl.max(w, 0))
    rows = tl.load(part + slot[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :])
    out = tl.sum(rows * w[:, None], 0) / tl.sum(w, 0)
    tl.store(y + (which * GROUP + member) * WIDTH + tl.arange(0, WIDTH), out.to(y.dtype.element_ty))


@triton.jit
def count_values(x, counts, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """Every value adds to its bin in global memory."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + at) % BINS, 1, sem="relaxed")
