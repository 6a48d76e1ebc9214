"""ONNX models made in a test, and their results by ONNX's reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compiler.evaluation.reference import run_reference
from compiler.frontend.onnx.importer import load_onnx
from compiler.graph import Array, Graph


def value(name: str, shape: Sequence[int | str] | None, dtype: Any = np.float32) -> Any:
    """A declared tensor; a string is a dimension that is not known."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, Array] | None = None,
    opset: int = 20,
    **more: Any,
) -> Any:
    """A model with float32 inputs; ``more`` goes to onnx.helper.make_model."""
    graph = helper.make_graph(
        nodes,
        "made",
        [value(name, shape) for name, shape in inputs.items()],
        [ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def saved(made: Any, folder: Path, name: str = "m.onnx") -> Path:
    """The file of a model."""
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def imported(made: Any, folder: Path) -> Graph:
    """The graph that the front end makes of a model."""
    return load_onnx(saved(made, folder))


def draw(shapes: Mapping[str, Sequence[int]], seed: int = 3) -> dict[str, Array]:
    """Normally distributed float32 inputs."""
    generator = np.random.default_rng(seed)
    return {n: generator.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def expected(made: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by ONNX's reference evaluator, at the model's own opset."""
    names = [item.name for item in made.graph.output]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ReferenceEvaluator(made).run(names, dict(inputs))
    return dict(zip(names, map(np.asarray, found), strict=True))


def assert_same(made: Any, shapes: Mapping[str, Sequence[int]], folder: Path) -> Graph:
    """Assert that the imported graph gives the model's results; return the graph for further tests."""
    graph, inputs = imported(made, folder), draw(shapes)
    got = run_reference(graph, inputs)
    for name, want in expected(made, inputs).items():
        assert got[name].shape == want.shape
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6, err_msg=name)
    return graph


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]
