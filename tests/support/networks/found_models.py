"""Models with data-dependent sizes of results, run against onnxruntime and with --strict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto

import emulator
import tx8
from asm.image import read_image, write_image
from box_cases import PartCase
from compiler.driver import Program, compile_graph
from compiler.frontend.onnx.binding import Binding
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, Graph
from control_models import constant, declared, made, node
from operator_draws import Random, normal, small
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
CLOSE = {"fp32": 1e-5, "fp16": 4e-3, "bf16": 3e-2}
"""Relative and absolute tolerances of values that are computed."""


def found_graph(model: Any, **bounds: int) -> Graph:
    return graph_of_bytes(model.SerializeToString(), "model", Binding(bounds=bounds))


def by_onnxruntime(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def held(inputs: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """Inputs whose floats are exact in a format, so that onnxruntime finds the same elements."""
    fmt = Format.parse(dtype)
    return {
        name: np.asarray(rounded(array, fmt), np.float32) if array.dtype == np.float32 else array
        for name, array in inputs.items()
    }


def check_found(
    model: Any, runs: Sequence[Mapping[str, Array]], dtype: str = "fp32", tiles: int = 4, **bounds: int
) -> Program:
    """Compare runs with onnxruntime: sizes and integers are equal, floats close. One run is with --strict."""
    program = compile_graph(found_graph(model, **bounds), dtype, tiles)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    for number, run in enumerate(runs):
        inputs = held(run, dtype)
        expected = by_onnxruntime(model, inputs)
        found = loaded.run(inputs, strict=number == len(runs) // 2, threads=1 + number % 2)
        assert loaded.hazards == ()
        for name, want in expected.items():
            got = found[name]
            assert (got.shape, got.dtype) == (want.shape, want.dtype), name
            if want.dtype == np.float32:
                np.testing.assert_allclose(got, want, rtol=CLOSE[dtype], atol=CLOSE[dtype], err_msg=name)
            else:
                np.testing.assert_array_equal(got, want, err_msg=name)
    return program


def with_outputs(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Mapping[str, int],
    known: Mapping[str, Any] | None = None,
) -> Any:
    """A model with outputs of unknown shapes; ``known`` are its constants."""
    constants = [constant(name, value) for name, value in (known or {}).items()]
    return made(nodes, inputs, [declared(name, None, kind) for name, kind in outputs.items()], constants)


def sparse(seed: int, *shape: int) -> list[Array]:
    """Arrays with no, some, and only numbers other than zero."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 2, shape).astype(np.float32) * np.where(rng.random(shape) < 0.5, -1, 1)
    return [np.where(rng.random(shape) < part, values, 0).astype(np.float32) for part in (0, 0.3, 1)]


def boxes_and_scores(seed: int, images: int, classes: int, boxes: int) -> dict[str, Array]:
    """Boxes of the unit square, and scores, some of which are equal."""
    rng = np.random.default_rng(seed)
    corners = rng.random((images, boxes, 4)).astype(np.float32)
    scores = rng.integers(0, 32, (images, classes, boxes)).astype(np.float32) / 32
    return {"boxes": corners, "scores": scores}


def suppression(shape: tuple[int, int, int], more: Sequence[Any] = (), **known: Any) -> list[Any]:
    """The inputs of a non-maximum suppression of (images, classes, boxes), and its node."""
    images, classes, boxes = shape
    names = [name if name in known else "" for name in ("most", "iou", "score")]
    while names and not names[-1]:
        names.pop()
    given = node("NonMaxSuppression", ["boxes", "scores", *names], ["found"], "nms", **dict(more))
    declarations = [declared("boxes", [images, boxes, 4]), declared("scores", [images, classes, boxes])]
    return [declarations, given]


def compiled(model: Any, **options: Any) -> tx8.Program:
    return tx8.compile(model, tiles=4, **options)


# --- random calls of the operators that readers write ----------------------------------------------------


def _counted(op: str) -> Any:
    def draw(rng: Random) -> PartCase:
        truths = rng.random(small(rng, 1, 200, 1)[0]) < rng.random()
        blocks = [np.count_nonzero(truths[at : at + 64]) for at in range(0, len(truths), 64)]
        counts = np.cumsum([0, *blocks])
        operands = {"x": truths, "counts": counts, "count": counts[-1]}
        if op == "TrueCounts":
            return PartCase(op, {"x": truths})
        if op == "TrueRanks":
            return PartCase(op, {"x": truths, "counts": counts})
        return PartCase(op, operands, {"room": len(truths)})

    return draw


def _bounded(rng: Random) -> PartCase:
    return PartCase("Bounded", {"n": np.array(3), "limit": np.array(5)}, {"most": 7, "what": " of "})


def _row_order(rng: Random) -> PartCase:
    return PartCase("RowOrder", {"x": np.round(normal(rng, *small(rng, 1, 20, 2)))})


def _sized(rng: Random) -> PartCase:
    shape = small(rng, 1, 6, 2)
    operands = {"x": normal(rng, *shape), "count": np.array(shape[1])}
    return PartCase("Sized", operands, {"axes": (1,), "words": (0,)})


def _select_boxes(rng: Random) -> PartCase:
    drawn = boxes_and_scores(int(rng.integers(99)), *small(rng, 1, 3, 2), 12)
    return PartCase("SelectBoxes", drawn, {"room": 5, "overlap": 0.4, "score": 0.2})


FOUND_DRAWS = {
    **{op: _counted(op) for op in ("TrueCounts", "TrueRanks", "TruePlaces")},
    "Bounded": _bounded,
    "RowOrder": _row_order,
    "Sized": _sized,
    "SelectBoxes": _select_boxes,
}
