"""List the programs that ``replay.py`` compiles: networks as people have them, and shapes that divide badly
among tiles.

A program is a model and the options of ``tx8cc``. Models are examples of the repository, networks of the
benchmarks, and graphs in ONNX's own notation with drawn weights.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from _graphs import attention, gemm

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
_HEAD = '<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>'
_WEIGHTS = re.compile(r"\b(\w+)\s*=\s*weights\(([\d, ]+)\)")


@dataclass(frozen=True)
class Program:
    """A model and how it is compiled.

    ``model`` is a file below examples, the name of a network of examples/networks, or a graph in ONNX's
    notation, where a line such as ``w = weights(3, 4)`` makes a constant with drawn numbers.
    """

    name: str
    model: str
    options: tuple[str, ...] = ("--dtype", "fp16")
    run: tuple[str, ...] = ()
    """Options of ``tx8emu`` besides."""

    def write(self, folder: Path) -> Path:
        """The model as a file; models that are made here are written into ``folder``."""
        path = folder / f"{self.name}.onnx"
        if path.exists():
            return path
        if self.model.startswith("("):
            onnx.save(parsed(self.model), path)
        elif (EXAMPLES / self.model).is_file():
            return EXAMPLES / self.model
        elif self.model in _MADE:
            onnx.save(_MADE[self.model], path)
        else:
            maker = EXAMPLES / "networks" / "make.py"
            subprocess.run([sys.executable, maker, self.model, folder], check=True, stdout=subprocess.DEVNULL)
            (folder / f"{self.model}.onnx").rename(path)
        return path


def parsed(text: str) -> onnx.ModelProto:
    """The model of a graph in ONNX's notation; constants follow from their names, so they never change."""
    model = onnx.parser.parse_model(f"{_HEAD} graph {_WEIGHTS.sub('', text)}")
    for name, sizes in _WEIGHTS.findall(text):
        shape = [int(size) for size in sizes.split(",")]
        random = np.random.default_rng(list(name.encode()))
        values = random.integers(-512, 512, shape) * (shape[0] ** -0.5 / 256)
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model)
    return model


def _unary(name: str, call: str, shape: str = "4096, 1024", more: str = "") -> Program:
    return Program(name, f"(float[{shape}] x) => (float[{shape}] y) {{ {more} y = {call} }}")


def _product(m: int, k: int, n: int) -> Program:
    text = f"(float[{m}, {k}] x) => (float[{m}, {n}] y) {{ w = weights({k}, {n})\n y = MatMul(x, w) }}"
    return Program(f"product-{m}x{k}x{n}", text)


def _attention(
    name: str, heads: int, shared: int, queries: int, keys: int, width: int, how: str, kind: str = "float"
) -> Program:
    ends = f"{kind}[1, {heads}, {queries}, {width}] q, {kind}[1, {shared}, {keys}, {width}] k"
    text = (
        f"({ends}, {kind}[1, {shared}, {keys}, {width}] v) => ({kind}[1, {heads}, {queries}, {width}] y) "
        f"{{ y = Attention{how}(q, k, v) }}"
    )
    return Program(name, text, ("--dtype", "fp16" if kind == "float" else "bf16"))


def _block(
    name: str, mask: str = "", batch: int = 1, inner: bool = False, heads: tuple[int, int] = (8, 32)
) -> Program:
    """A transformer block of 128 tokens; its mask is an input or causal; ``inner``: a value is an output."""
    width = heads[0] * heads[1]
    ends = f"float[{batch}, 128, {width}] x" + (", float[1, 1, 128, 128] m" if mask == "input" else "")
    how, more = "<is_causal = 1>" if mask == "causal" else "", ", m" if mask == "input" else ""
    lines = [f"{each} = weights({width})" for each in ("s0", "b0", "s1", "b1")]
    lines += [f"w{each} = weights({width}, {width})" for each in "qkvo"]
    lines += [f"w1 = weights({width}, {4 * width})", f"w2 = weights({4 * width}, {width})"]
    lines += [
        f"split = Constant<value = int64[4] {{{batch}, 128, {heads[0]}, {heads[1]}}}> ()",
        f"whole = Constant<value = int64[3] {{{batch}, 128, {width}}}> ()",
        "n0 = LayerNormalization<axis = -1>(x, s0, b0)",
    ]
    for each in "qkv":
        lines += [f"{each}0 = MatMul(n0, w{each})", f"{each}1 = Reshape({each}0, split)"]
        lines.append(f"{each}2 = Transpose<perm = [0, 2, 1, 3]>({each}1)")
    lines += [
        f"a0 = Attention{how}(q2, k2, v2{more})",
        "a1 = Transpose<perm = [0, 2, 1, 3]>(a0)",
        "a2 = Reshape(a1, whole)",
        "o = MatMul(a2, wo)",
        "h = Add(x, o)",
        "n1 = LayerNormalization<axis = -1>(h, s1, b1)",
        "u = MatMul(n1, w1)",
        "g = Gelu(u)",
        "d = MatMul(g, w2)",
        "y = Add(h, d)",
    ]
    outputs = "float[] y" + (", float[] h" if inner else "")
    return Program(name, f"({ends}) => ({outputs}) {{ " + "\n".join(lines) + " }")


def _chain(name: str, layers: int, step: str, tied: bool) -> Program:
    """The same layers one after another, each with its own constants, or all with those of the first."""
    lines, last = [], "x"
    for at in range(layers):
        own = 0 if tied else at
        for line in step.split("; "):
            lines.append(line.format(x=last, at=at, own=own))
        last = f"y{at}"
    distinct = list(dict.fromkeys(lines))
    return Program(name, f"(float[64, 256] x) => (float[] y{layers - 1}) {{ " + "\n".join(distinct) + " }")


_LAYER = (
    "w{own} = weights(256, 256); b{own} = weights(256); s{own} = weights(256); m{at} = MatMul({x}, w{own}); "
    "a{at} = Add(m{at}, b{own}); r{at} = Relu(a{at}); z{at} = Add(r{at}, {x}); "
    "y{at} = LayerNormalization<axis = -1>(z{at}, s{own}, b{own})"
)
_TIED = "w{own} = weights(256, 256); m{at} = MatMul({x}, w{own}); y{at} = Tanh(m{at})"
_CONVOLUTIONS = """(float[n, 3, 33, 35] x) => (float[] y) {
    w0 = weights(16, 3, 3, 3)
    w1 = weights(16, 1, 3, 3)
    w2 = weights(24, 16, 1, 1)
    a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w0)
    b = Relu(a)
    c = Conv<pads = [1, 1, 1, 1], group = 16>(b, w1)
    d = HardSwish(c)
    e = Conv(d, w2)
    f = MaxPool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(e)
    y = GlobalAveragePool(f) }"""
_RECURRENT = """(float[27, 1, 64] x) => (float[27, 1, 1, 96] y) {
    w = weights(1, 384, 64)
    r = weights(1, 384, 96)
    y = LSTM<hidden_size = 96>(x, w, r) }"""
_LOOP = """(float[8, 32] x) => (float[8, 32] y) {
    w = weights(32, 32)
    trips = Constant<value = int64 {5}> ()
    go = Constant<value = bool {1}> ()
    y = Loop(trips, go, x) <body = step (int64 at, bool on, float[8, 32] before)
        => (bool on2, float[8, 32] after) { on2 = Identity(on) m = MatMul(before, w) after = Tanh(m) }> }"""
_LENGTHS = """(float[n, 64] x) => (float[] y) {
    w = weights(64, 128)
    s = weights(128)
    a = MatMul(x, w)
    b = Gelu(a)
    y = LayerNormalization<axis = -1>(b, s) }"""
_CACHE = """(float[1, 4, 1, 32] q, float[1, 4, p, 32] past, float[1, 4, 1, 32] k)
    => (float[] y, float[] keys) {
    keys = Concat<axis = 2>(past, k)
    y = Attention(q, keys, keys) }"""

_MADE = {"gemm": gemm(TensorProto.BFLOAT16, 2048), "scores": attention(TensorProto.BFLOAT16)}
"""Models of the other benchmarks."""


def _nbits(bits: int) -> onnx.ModelProto:
    """A product with weights of few bits, in blocks of 32."""
    random, inner, columns = np.random.default_rng(bits), 4096, 4096
    packed = random.integers(0, 256, (columns, inner // 32, 4 * bits)).astype(np.uint8)
    scales = (random.integers(1, 64, columns * inner // 32) / 4096).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["x", "w", "s"],
        ["y"],
        domain="com.microsoft",
        K=inner,
        N=columns,
        bits=bits,
        block_size=32,
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])
        for name, size in (("x", inner), ("y", columns))
    ]
    constants = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph([node], "nbits", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


_MADE |= {f"bits-{bits}": _nbits(bits) for bits in (4, 8)}


def _triton(name: str, file: str, *arguments: str) -> Program:
    options = tuple(word for each in arguments for word in ("--arg", each))
    return Program(name, f"triton/{file}", (*options, "--grid", "16"))


def _options(*words: str) -> tuple[str, ...]:
    return ("--dtype", "fp16", *words)


def programs() -> Sequence[Program]:
    """All programs; within each kind the small ones come first."""
    return (
        Program("mlp", "mlp/mlp.json"),
        Program("mlp-fp32", "mlp/mlp.json", ("--dtype", "fp32")),
        Program("attention-example", "attention/attention.json"),
        Program("batchnorm-30", "batchnorm/bn30.json"),
        Program("batchnorm-129", "batchnorm/bn129.json"),
        Program("digits", "digits/digits.json"),
        Program("digits-bf16", "digits/digits.json", ("--dtype", "bf16")),
        Program("digits-5-tiles", "digits/digits.json", _options("--tiles", "5")),
        Program("block-128x256", "transformer-128x256"),
        Program("block-128x256-dear", "transformer-128x256", _options("--issue", "c-runtime")),
        Program("block-512x768", "transformer-512x768"),
        Program("encoder", "encoder"),
        Program("squeezenet", "squeezenet"),
        Program("squeezenet-bf16", "squeezenet", ("--dtype", "bf16")),
        Program("resnet50", "resnet50"),
        _product(512, 512, 512),
        _product(1024, 1024, 1024),
        _product(1025, 257, 513),
        _product(7, 513, 1000),
        Program("gemm-2048", "gemm", ("--dtype", "bf16")),
        Program("attention-2048", "scores", ("--dtype", "bf16")),
        _attention("causal", 4, 4, 512, 512, 64, "<is_causal = 1>"),
        _attention("causal-28x2048", 28, 28, 2048, 2048, 128, "<is_causal = 1>", "bfloat16"),
        _attention("causal-28x2049", 28, 28, 2049, 2049, 128, "<is_causal = 1>", "bfloat16"),
        _attention("grouped-32x1024", 32, 8, 1024, 1024, 128, "<is_causal = 1>", "bfloat16"),
        _attention("grouped-32x1025", 32, 8, 1025, 1025, 128, "<is_causal = 1>", "bfloat16"),
        _block("block"),
        _block("block-mask", mask="input"),
        _block("block-causal", mask="causal"),
        _block("block-batch-2", batch=2),
        _block("block-batch-4", batch=4),
        _block("block-inner", inner=True),
        _block("block-heads-of-80", heads=(4, 80)),
        _attention("grouped-1024", 8, 2, 64, 1024, 64, ""),
        _attention("grouped-1025", 8, 2, 64, 1025, 64, ""),
        _attention("heads-of-80", 5, 5, 130, 130, 80, ""),
        _unary("layer-norm", "LayerNormalization<axis = -1>(x, s)", more="s = weights(1024)\n"),
        _unary("softmax", "Softmax<axis = -1>(x)"),
        _unary("gelu", "Gelu(x)"),
        _unary("transpose", "Transpose<perm = [0, 2, 1]>(x)", "3, 257, 257"),
        _unary("cumsum", "CumSum(x, a)", "256, 256", "a = Constant<value = int64 {1}> ()\n"),
        Program("argmax", "(float[64, 1024] x) => (int64[64, 1] y) { y = ArgMax<axis = -1>(x) }"),
        Program(
            "topk",
            "(float[16, 1024] x) => (float[16, 8] y, int64[16, 8] at) "
            "{ k = Constant<value = int64[1] {8}> () y, at = TopK(x, k) }",
        ),
        Program(
            "max-pool",
            "(float[1, 64, 112, 112] x) => (float[] y) "
            "{ y = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x) }",
        ),
        Program(
            "depthwise",
            "(float[1, 96, 112, 112] x) => (float[] y) "
            "{ w = weights(96, 1, 3, 3)\n y = Conv<group = 96, pads = [1, 1, 1, 1]>(x, w) }",
        ),
        Program(
            "resize",
            "(float[1, 32, 56, 56] x) => (float[] y) { s = Constant<value = float[4] {1, 1, 2, 2}> () "
            'y = Resize<mode = "linear">(x, "", s) }',
        ),
        _chain("chain-20", 10, _LAYER, tied=False),
        _chain("chain-tied", 8, _TIED, tied=True),
        Program("lstm", _RECURRENT),
        Program("loop", _LOOP),
        Program("convolutions", _CONVOLUTIONS, _options("--dim", "n=3")),
        Program("range-of-images", _CONVOLUTIONS, _options("--dim", "n=1:2:8"), ("--random", "0")),
        Program("range-of-rows", _LENGTHS, _options("--dim", "n=1:64:300")),
        Program("growing-cache", _CACHE, _options("--state", "past=keys", "--dim", "p=0:64:256")),
        Program("bits-4", "bits-4"),
        Program("bits-8", "bits-8"),
        Program("chips-tensor", "transformer-128x256", _options("--chips", "2x2", "--parallel", "tp=4")),
        Program("chips-sequence", "transformer-128x256", _options("--chips", "2x1", "--parallel", "sp=2")),
        Program(
            "chips-batch", _CONVOLUTIONS, _options("--dim", "n=4", "--chips", "2x2", "--parallel", "dp=4")
        ),
        Program("chips-pipeline", "transformer-128x256", _options("--chips", "2x1", "--parallel", "pp=2")),
        _triton(
            "triton-softmax",
            "ttir/softmax_fp16.ttir",
            "x=64x500",
            "out=64x500",
            "row_step=500",
            "rows=64",
            "columns=500",
        ),
        _triton("triton-add", "ttir/add_fp32.ttir", "x=5000", "y=5000", "out=5000", "n=5000"),
    )
