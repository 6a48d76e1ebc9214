"""The table of operators of docs/triton_speed.md: formats, cycles, and how near the bound they are.

    python table.py [NAME ...]

Arrays have FP16 and sizes in the middle of those of networks; a row is a launch of a text of these folders.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np

import tx8

UNARY = (
    *("abs", "neg", "square", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "erf", "relu"),
    *("sigmoid", "silu", "tanh"),
)
BINARY = ("sub", "mul", "div", "maximum", "ge", "pow")
OF_ROWS = ("sum", "mean", "variance", "norm")

HERE = Path(__file__).parent
FORMATS = {"fp16": "fp16", "bf16": "bf16", "fp32": "fp32"}
RANDOM = np.random.default_rng(0)


def draw(*shape):
    """Numbers between 1 and 2, for which every function is defined."""
    return (RANDOM.random(shape) + 1).astype(np.float16)


def whole(high, *shape, dtype=np.int64):
    """Integers from 0 to before ``high``."""
    return RANDOM.integers(0, high, shape).astype(dtype)


zeros, floats = partial(np.zeros, dtype=np.float16), partial(np.zeros, dtype=np.float32)
N = 1 << 20


def element_wise():
    """Operators of each element."""
    x, y, square = draw(N), draw(N), draw(1024, 512)
    for name in UNARY:
        yield name, "functions", "2^20", (256,), (x, zeros(N), N)
    for name in BINARY:
        yield name, "functions", "2^20", (256,), (x, y, zeros(N), N)
    yield "clamp", "functions", "2^20", (256,), (x, zeros(N), N, 1.25, 1.75)
    yield "add", "large", "2^20", (16,), (x, y, zeros(N), N)
    yield "gelu", "large", "2^20", (32,), (x, zeros(N), N)
    yield "choose", "ttir", "2^16", (64,), (x[: 1 << 16], y[: 1 << 16], zeros(1 << 16), 1 << 16, 1.5)
    yield "silu_and_mul", "large", "64 x 16384", (64, 1), (draw(64, 2, 16384), zeros((64, 16384)), 16384)
    yield "dropout", "operators", "2^14", (64,), (x[: 1 << 14], zeros(1 << 14), 1 << 14, 0.3, 7)
    yield "masked_fill", "operators", "2^14", (64,), (
        *(x[: 1 << 14], whole(2, 1 << 14, dtype=np.int8), zeros(1 << 14)), 1 << 14, 0.5,
    )  # fmt: skip
    yield "fill", "functions", "2^20", (256,), (zeros(N), N, 1.5)
    yield "add_row", "functions", "1024 x 512", (64,), (square, draw(512), zeros((1024, 512)), 1024, 512)
    yield "outer", "functions", "1024 x 512", (64,), (draw(1024), draw(512), zeros((1024, 512)), 1024, 512)
    yield "rotary", "operators", "64 x 8 x 64", (64, 8), (
        *(draw(64, 8, 64), np.arange(64), draw(64, 32), draw(64, 32), zeros((64, 8, 64))), 8,
    )  # fmt: skip


def rows():
    """Reductions, normalizations, scans, sorts."""
    x, narrow = draw(1024, 1024), draw(256, 512)
    for name in OF_ROWS:
        yield name, "functions", "1024 x 1024", (64,), (x, floats(1024), 1024, 1024)
    yield "softmax", "large", "1024 x 1024", (64,), (x, zeros((1024, 1024)), 1024, 1024)
    yield "log_softmax", "operators", "256 x 512", (256,), (narrow, zeros((256, 512)), 512)
    yield "layer_norm", "ttir", "256 x 1024", (256,), (
        *(x[:256], draw(1024), draw(1024), zeros((256, 1024)), floats(256), floats(256)), 1024, 1e-5,
    )  # fmt: skip
    yield (
        "layer_norm_backward",
        "operators",
        "64 x 256",
        (64,),
        (
            *(narrow[:64, :256].copy(), draw(256), draw(64, 256), floats(64), floats(64) + 1),
            *(zeros((64, 256)), floats(256), floats(256), 256),
        ),
    )
    yield "rms_norm", "large", "256 x 4096", (256,), (
        draw(256, 4096), draw(4096), zeros((256, 4096)), 4096, 1e-5,
    )  # fmt: skip
    yield "group_norm", "functions", "8 x 64 x 28 x 28, 8 groups", (64,), (
        *(draw(8, 64, 28, 28), floats(64), floats(64), zeros((8, 64, 28, 28))), 8, 8, 784, 1e-5,
    )  # fmt: skip
    yield (
        "batch_norm",
        "functions",
        "8 x 64 x 56 x 56",
        (512,),
        (
            *(draw(8, 64, 56, 56), floats(64), floats(64) + 1, floats(64), floats(64)),
            *(zeros((8, 64, 56, 56)), 64, 3136, 1e-5),
        ),
    )
    yield "cross_entropy", "operators", "256 x 512", (256,), (narrow, whole(512, 256), floats(256), 512, -1)
    yield "argmax", "operators", "64 x 256", (64,), (
        narrow[:64, :256].copy(), np.zeros(64, np.int32), np.zeros(64, np.int32), 256,
    )  # fmt: skip
    yield "topk", "operators", "64 x 128", (64,), (
        narrow[:64, :128].copy(), zeros((64, 3)), np.zeros((64, 3), np.int32), 128,
    )  # fmt: skip
    yield "cumsum", "operators", "256 x 512", (256,), (narrow, zeros((256, 512)), 512)
    yield "sort", "operators", "64 x 64", (64,), (narrow[:64, :64].copy(), zeros((64, 64)), 64)


def products():
    """Products of matrices, attention."""
    square = draw(1024, 1024)
    heads = draw(16, 1024, 64)
    yield "product", "large", "1024^3", (4,), (square, square, zeros((1024, 1024)), 1024, 1024, 1024)
    yield "matmul", "ttir", "512^3", (32,), (
        *(square[:512, :512].copy(), square[:512, :512].copy(), zeros((512, 512))), *(512,) * 6,
    )  # fmt: skip
    yield "addmm", "operators", "256^3", (8, 4), (
        draw(256), draw(256, 256), draw(256, 256), zeros((256, 256)), 256, 256, 256,
    )  # fmt: skip
    yield "bmm", "functions", "16 x 256^3", (4, 2, 16), (
        draw(16, 256, 256), draw(16, 256, 256), zeros((16, 256, 256)), 256, 256, 256,
    )  # fmt: skip
    yield "mv", "functions", "1024 x 4096", (64,), (draw(1024, 4096), draw(4096), zeros(1024), 1024, 4096)
    yield (
        "grouped_gemm",
        "operators",
        "4 groups of 64 x 256^2",
        (16,),
        (
            *(draw(256, 256), draw(4, 256, 256), zeros((256, 256)), np.full(4, 64, np.int32)),
            *(np.arange(0, 256, 64).astype(np.int32), 4, 256, 256),
        ),
    )
    yield "routed", "operators", "64 rows of 256 x 256", (8,), (
        draw(256, 256), whole(256, 64, dtype=np.int32), draw(256, 256), zeros((64, 256)), 64, 256, 256,
    )  # fmt: skip
    yield "flash", "large", "16 heads of 1024 x 64", (2, 16), (
        heads, heads, heads, zeros((16, 1024, 64)), 1024, 0.18,
    )  # fmt: skip
    yield "attention", "large", "16 heads of 1024 x 64", (4, 16), (
        heads, heads, heads, zeros((16, 1024, 64)), 1024, 0.18,
    )  # fmt: skip


def moves():
    """Operators that compute places, not numbers."""
    x, small = draw(1024, 1024), draw(64, 256)
    yield "transpose", "ttir", "512 x 512", (8, 8), (x[:512, :512].copy(), zeros((512, 512)), 512, 512)
    yield (
        "pad",
        "functions",
        "1024 x 1000",
        (1024,),
        (draw(1024, 1000), zeros((1024, 1024)), 1000, 12, 1024, 0.0),
    )
    yield "repeat", "functions", "512 x 1024, twice", (512,), (x[:512], zeros((1024, 1024)), 1024, 2)
    yield "concatenate", "functions", "1024 x 512 each", (1024,), (
        draw(1024, 512), draw(1024, 512), zeros((1024, 1024)), 512, 512,
    )  # fmt: skip
    yield (
        "lower_triangle",
        "operators",
        "256 x 256",
        (16, 4),
        (draw(256, 256), zeros((256, 256)), 256, 256, 0),
    )
    yield "flip", "operators", "2^14", (64,), (draw(1 << 14), zeros(1 << 14), 1 << 14)
    yield "embedding", "large", "1024 of 4096 x 1024", (32, 1), (
        whole(4096, 1024), draw(4096, 1024), zeros((1024, 1024)), 1024, 1024,
    )  # fmt: skip
    index = whole(256, 64, 32)
    yield "gather", "operators", "64 x 32 of 256", (16,), (small, index, zeros((64, 32)), 64, 256, 32)
    yield "scatter", "operators", "64 x 32 to 256", (16,), (zeros((64, 32)), index, small, 64, 256, 32)
    yield "index_select", "operators", "64 x 32 of 256", (16,), (
        small, whole(256, 32, dtype=np.int32), zeros((64, 32)), 64, 256, 32,
    )  # fmt: skip
    yield "cache_write", "operators", "256 x 128", (256,), (
        draw(256, 128), RANDOM.permutation(512)[:256], zeros((512, 128)), 128,
    )  # fmt: skip
    yield "nearest", "operators", "16 planes of 32 x 32 to 64 x 64", (16,), (
        draw(16, 32, 32), zeros((16, 64, 64)), 32, 32, 64, 64,
    )  # fmt: skip
    yield (
        "nonzero",
        "operators",
        "2^10",
        (1,),
        (draw(1024), np.zeros(1024, np.int32), np.zeros(1, np.int32), 1024),
    )
    yield "search", "operators", "2^12 in 64", (32,), (
        draw(1 << 12), np.sort(draw(64)), np.zeros(1 << 12, np.int32), 1 << 12, 64,
    )  # fmt: skip
    yield "histogram", "operators", "2^12, 16 bins", (32,), (
        draw(1 << 12), np.zeros(16, np.int32), 1 << 12, 16, 1.0, 1 / 16,
    )  # fmt: skip
    yield (
        "rearrange",
        "operators",
        "64",
        (1,),
        (*(draw(64), whole(64, 64, dtype=np.int32), zeros((32, 2)), zeros(32), zeros((2, 64)), zeros(64)),),
    )


def launches():
    """Name, folder, size, grid and arguments of every row."""
    for part in (element_wise, rows, products, moves):
        yield from part()


def text_of(name, folder):
    """The text of an operator in FP16."""
    path = HERE / folder / f"{name}.ttir"
    return path if path.exists() else HERE / folder / f"{name}_fp16.ttir"


def formats_of(name):
    """The formats in which there is a text."""
    folders = [HERE / folder for folder in ("ttir", "operators", "functions")]
    stems = {path.stem for folder in folders for path in folder.glob(f"{name}*.ttir")}
    found = [fmt for fmt in FORMATS if f"{name}_{fmt}" in stems]
    return " ".join(found or ["fp16"])


def main(names):
    """Print the table."""
    print("| operator | formats | size | cycles | bound | reached |")
    print("| --- | --- | --- | ---: | --- | ---: |")
    for name, folder, size, grid, arguments in launches():
        if not names or name in names:
            run = tx8.triton_kernel(text_of(name, folder)).launch(grid, *arguments)
            found = run.stats.report
            row = (
                f"`{name}`",
                formats_of(name),
                size,
                f"{run.cycles:,.0f}",
                found.bound,
                f"{found.reached:.0%}",
            )
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
