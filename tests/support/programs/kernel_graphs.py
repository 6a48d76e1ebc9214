"""What kernels of Triton must compute, as graphs: for many launches of the examples.

A graph is written in the language of ``onnx.parser``. ``$2.5`` is a number, ``$[0, 1]`` a list of integers.
The arrays of the launch that the text names are inputs; the arrays that the kernel stores to are outputs,
called ``NAME_after`` where the text also reads them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

import triton_functions
import triton_launches
import triton_operators
from compiler.frontend import load
from compiler.graph import Graph
from compiler.tools.verification.findings import Proof
from compiler.tools.verification.images import AFTER, prove_image
from triton_launches import DTYPES, Case

Array = np.ndarray[Any, Any]

_TYPES = {"int8": "int8", "int32": "int32", "int64": "int64"}
"""The types of arrays of integers; floats of all formats are ``float``."""
_ALONE = {
    **{"abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal"},
    **{"sin": "Sin", "cos": "Cos", "erf": "Erf", "relu": "Relu"},
}
_PAIRS = {"sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max"}
_MEAN = "m = ReduceMean(x, $[1]) d = Sub(x, m) q = Mul(d, d)"
_ATTENTION = "t = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, t) b = Mul(s, $0.125)"
FUNCTIONS = {
    **{name: f"out = {op}(x)" for name, op in _ALONE.items()},
    **{name: f"out = {op}(x, y)" for name, op in _PAIRS.items()},
    "square": "out = Mul(x, x)",
    "rsqrt": "s = Sqrt(x) out = Reciprocal(s)",
    "sigmoid": "n = Neg(x) e = Exp(n) s = Add(e, $1.) out = Reciprocal(s)",
    "silu": "n = Neg(x) e = Exp(n) s = Add(e, $1.) out = Div(x, s)",
    "tanh": "n = Mul(x, $-2.) e = Exp(n) s = Add(e, $1.) t = Div($2., s) out = Sub(t, $1.)",
    "ge": "c = GreaterOrEqual(x, y) out = Where(c, $1., $0.)",
    "pow": "l = Log(x) p = Mul(l, y) out = Exp(p)",
    "clamp": "out = Clip(x, $-0.5, $0.75)",
    "add_row": "out = Add(x, row)",
    "outer": "c = Unsqueeze(x, $[1]) out = Mul(c, y)",
    "sum": "out = ReduceSum<keepdims = 0>(x, $[1])",
    "mean": "out = ReduceMean<keepdims = 0>(x, $[1])",
    "variance": f"{_MEAN} out = ReduceMean<keepdims = 0>(q, $[1])",
    "norm": "q = Mul(x, x) s = ReduceSum<keepdims = 0>(q, $[1]) out = Sqrt(s)",
    "batch_norm": "out = BatchNormalization<epsilon = 1e-5>(x, scale, shift, mean, variance)",
    "group_norm": "out = GroupNormalization<epsilon = 1e-5, num_groups = 2>(x, scale, shift)",
    "bmm": "c = MatMul(a, b)",
    "mv": "out = MatMul(a, x)",
    "fill": "out = Expand($2.75, $[5001])",
    "pad": "out = Pad(x, $[0, 7, 0, 9], $1.5)",
    "repeat": "u = Unsqueeze(x, $[1]) e = Expand(u, $[5, 3, 301]) out = Reshape(e, $[15, 301])",
    "concatenate": "out = Concat<axis = 1>(x, y)",
}
"""Of the functions: a text for each name."""
EXAMPLES = {
    "add": "out = Add(x, y)",
    "gelu": "a = Mul(x, x) b = Mul(a, x) c = Mul(b, $0.044715) d = Add(x, c) i = Mul(d, $0.7978845608) "
    "j = Mul(i, $2.) e = Exp(j) f = Add(e, $1.) g = Div($2., f) h = Sub($2., g) k = Mul(x, $0.5) "
    "out = Mul(k, h)",
    "choose": "low = Min(y, $1.) c = Greater(x, $0.25) p = Where(c, x, low) a = Slice(low, $[0], $[500]) "
    "b = Slice(p, $[500], $[1001]) out = Concat<axis = 0>(a, b)",
    "softmax": "a = Slice(x, $[0, 0], $[37, 781]) b = Softmax<axis = 1>(a) "
    "c = Slice(out, $[0, 781], $[37, 800]) out_after = Concat<axis = 1>(b, c)",
    "softmax_block": "out = Softmax<axis = 1>(x)",
    "softmax_block_narrow": "out = Softmax<axis = 1>(x)",
    "layer_norm": f"{_MEAN} v = ReduceMean<keepdims = 0>(q, $[1]) e = Add(v, $1e-5) r = Sqrt(e) "
    "rstd = Reciprocal(r) mean = Squeeze(m, $[1]) "
    "out = LayerNormalization<axis = 1, epsilon = 1e-5>(x, scale, shift)",
    "reduce_axes": "largest = ReduceMax<keepdims = 0>(x, $[1]) smallest = ReduceMin<keepdims = 0>(x, $[0]) "
    "products = ReduceProd<keepdims = 0>(x, $[0])",
    "transpose": "out = Transpose<perm = [1, 0]>(x)",
    **dict.fromkeys(("matmul", "matmul_even"), "c = MatMul(a, b)"),
    "matmul_small": "t = MatMul(a, b) p = GreaterOrEqual(t, $0.) l = Mul(t, $0.01) c = Where(p, t, l)",
    "attention": f"{_ATTENTION} p = Softmax<axis = 2>(b) out = MatMul(p, v)",
    "attention_causal": f"{_ATTENTION} o = Expand($1., $[150, 150]) l = Trilu<upper = 0>(o) "
    "c = Greater(l, $0.) h = Where(c, b, $-inf) p = Softmax<axis = 2>(h) out = MatMul(p, v)",
}
"""Of the kernels of examples/triton/kernels.py."""
OPERATORS = {
    "silu_and_mul": "a, b = Split<axis = 1, num_outputs = 2>(x) n = Neg(a) e = Exp(n) s = Add(e, $1.) "
    "u = Div(a, s) p = Mul(u, b) out = Squeeze(p, $[1])",
    "masked_fill": "c = Cast<to = 9>(where) out = Where(c, $-2.5, x)",
    "lower_triangle": "out = Trilu<upper = 0>(x, $3)",
    "flip": "out = Slice(x, $[-1], $[-702], $[0], $[-1])",
    "rotary": "c = Gather(cosines, position) s = Gather(sines, position) ct = Unsqueeze(c, $[1, 2]) "
    "st = Unsqueeze(s, $[1, 2]) a, b = Split<axis = 2, num_outputs = 2>(x) ac = Mul(a, ct) bs = Mul(b, st) "
    "bc = Mul(b, ct) as = Mul(a, st) l = Sub(ac, bs) h = Add(bc, as) out = Concat<axis = 2>(l, h)",
    "log_softmax": "m = ReduceMax(x, $[1]) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, $[1]) l = Log(s) "
    "out = Sub(d, l)",
    "rms_norm": "q = Mul(x, x) v = ReduceMean(q, $[1]) e = Add(v, $1e-5) r = Sqrt(e) n = Div(x, r) "
    "out = Mul(n, scale)",
    "topk": "values, p = TopK<axis = 1>(x, $[3]) places = Cast<to = 6>(p)",
    "cumsum": "out = CumSum(x, $1)",
    "embedding": "out = Gather(table, ids)",
    "gather": "out = GatherElements<axis = 1>(x, index)",
    "index_select": "out = Gather<axis = 1>(x, index)",
    "grouped_gemm": "a1 = Slice(a, $[0], $[45]) a3 = Slice(a, $[45], $[52]) a4 = Slice(a, $[52], $[116]) "
    "b1 = Gather(b, $0) b3 = Gather(b, $2) b4 = Gather(b, $3) c1 = MatMul(a1, b1) c3 = MatMul(a3, b3) "
    "c4 = MatMul(a4, b4) c = Concat<axis = 0>(c1, c3, c4)",
    "addmm": "p = MatMul(a, b) c = Add(p, bias)",
    "rounded": "down = Floor(x) up = Ceil(x) error = Erf(x)",
    "rearrange": "s = Reshape(x, $[32, 2]) pairs2 = Slice(s, $[-1], $[-3], $[1], $[-1]) "
    "pairs = Reshape(pairs2, $[64]) sums = ReduceSum<keepdims = 0>(s, $[1]) d = Add(x, x) "
    "xs = Unsqueeze(x, $[0]) ds = Unsqueeze(d, $[0]) both = Concat<axis = 0>(xs, ds) "
    "picked = Gather(x, index)",
}
"""Of the kernels of examples/triton/operators.py."""
_SOURCES = {
    **dict.fromkeys(FUNCTIONS, (triton_functions.case, FUNCTIONS)),
    **dict.fromkeys(EXAMPLES, (triton_launches.case, EXAMPLES)),
    **dict.fromkeys(OPERATORS, (triton_operators.case, OPERATORS)),
}
NAMES = tuple(_SOURCES)
"""The kernels whose results are written as graphs."""

CASES = tuple(
    (name, fmt)
    for name in NAMES
    for fmt in DTYPES
    if (name, fmt) != ("rearrange", "bf16")  # without a text
)
"""Names and formats of these kernels."""


def case_of(name: str, fmt: str) -> Case:
    """The launch of a kernel in a format."""
    return _SOURCES[name][0](name, fmt)


def proof_of(
    name: str,
    fmt: str,
    text: str | None = None,
    changes: Mapping[str, Any] | None = None,
    explain: bool = False,
) -> Proof:
    """The proof of a launch; ``text``: another graph than the right one, ``changes``: other arguments."""
    right = case_of(name, fmt)
    made = replace(right, arguments={**right.arguments, **(changes or {})})
    given = _SOURCES[name][1][name] if text is None else text
    integers = {each: array for each, array in made.arrays.items() if array.dtype.kind == "i"}
    return prove_image(made.program(), graph_of(given, made), explain=explain, numbers=integers)


def graph_of(text: str, made: Case) -> Graph:
    """The graph of a text, with the arrays of a launch."""
    constants = dict[str, Array]()
    body = re.sub(r"\$(\[[^]]*\]|[-\w.]+)", partial(_constant, constants), text)
    body = re.sub(r"(?<=[\w)]) (?=[\w, ]+ = \w+[(<])", "\n", body)
    arrays = made.arrays
    read = [name for name in arrays if re.search(rf"[(,] *{name}\b", body)]
    read += [name for name in arrays if name not in (*read, *made.expected)]
    stored = [name for name in arrays if name in made.expected]
    after = {name: f"{name}_after" if name in read else name for name in stored}
    inputs = ", ".join(_declared(name, arrays[name]) for name in read)
    outputs = ", ".join(_declared(after[name], arrays[name]) for name in stored)
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]>\ng ({inputs}) => ({outputs}) {{ {body} }}'
    )
    model.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in constants.items())
    for output in model.graph.output:
        name = output.name.removesuffix("_after") + AFTER if output.name.endswith("_after") else output.name
        for node in model.graph.node:
            node.output[:] = [name if each == output.name else each for each in node.output]
        output.name = name
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "kernel.onnx")
        return load(Path(folder) / "kernel.onnx")


def _constant(constants: dict[str, Array], found: re.Match[str]) -> str:
    """Keep a constant of a text, and return its name."""
    text, name = found[1], f"constant{len(constants)}"
    if text.startswith("["):
        constants[name] = np.array([int(each) for each in text[1:-1].split(",")], np.int64)
    else:
        whole = text.lstrip("-").isdecimal()
        constants[name] = np.array(int(text), np.int64) if whole else np.array(float(text), np.float32)
    return name


def _declared(name: str, array: Array) -> str:
    extents = ", ".join(map(str, array.shape))
    return f"{_TYPES.get(array.dtype.name, 'float')}[{extents}] {name}"
