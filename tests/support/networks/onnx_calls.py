"""Calls of one operator: as a model, by onnxruntime or ONNX's evaluator, and on the emulated chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.driver import Program
from compiler.frontend import load
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, Graph
from compiler.tools import run
from compiler_harness import assert_in_order
from onnx_models import saved, value
from onnx_oracle import onnxruntime

QUICK = {"search": "off", "residency": "off"}
"""Options for compilations where only the results matter."""


def by_onnxruntime(made: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model by onnxruntime on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(None, dict(inputs))), strict=True))


@dataclass
class OnnxCall:
    """A call. ``operands`` in order, None for one omitted; those in ``known`` are constants of the model."""

    op: str
    operands: Mapping[str, Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=lambda: {"y": np.float32})
    known: Sequence[str] = ()
    opset: int = 21
    domain: str = ""
    options: Mapping[str, str] = field(default_factory=lambda: QUICK)

    @property
    def given(self) -> dict[str, Array]:
        return {name: np.asarray(array) for name, array in self.operands.items() if array is not None}

    @property
    def feeds(self) -> dict[str, Array]:
        return {name: array for name, array in self.given.items() if name not in self.known}

    def model(self) -> Any:
        """The call as a model."""
        names = [name if array is not None else "" for name, array in self.operands.items()]
        outputs = [name if not name.startswith("_") else "" for name in self.outputs]
        node = helper.make_node(self.op, names, outputs, domain=self.domain, name="n", **self.attrs)
        graph = helper.make_graph(
            [node],
            "g",
            [value(name, array.shape, array.dtype) for name, array in self.feeds.items()],
            [value(name, None, self.outputs[name]) for name in outputs if name],
            [numpy_helper.from_array(self.given[name], name) for name in self.known],
        )
        versions = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10 if self.opset < 23 else 11)

    def by_onnxruntime(self) -> dict[str, Array]:
        """The outputs that are wanted. Several threads would quantise parts of a layer's states
        separately."""
        return by_onnxruntime(self.model(), self.feeds)

    def by_evaluator(self) -> dict[str, Array]:
        """The outputs by ONNX's reference evaluator."""
        made = self.model()
        names = [item.name for item in made.graph.output]
        found = ReferenceEvaluator(made).run(names, self.feeds)
        return dict(zip(names, map(np.asarray, found), strict=True))

    def graph(self, folder: Path) -> Graph:
        """The call as the front end reads it."""
        return load(saved(self.model(), folder))

    def on_chip(self, folder: Path, dtype: str = "fp32", tiles: int = 4) -> tuple[Program, dict[str, Array]]:
        """The program, and its outputs."""
        program = compiler.compile(self.graph(folder), dtype, tiles=tiles, **self.options)
        outputs, _ = run.execute(program, self.feeds)
        assert_in_order(program, outputs)
        return program, outputs


def assert_close(
    call: OnnxCall,
    folder: Path,
    tolerance: float = 2e-5,
    dtype: str = "fp32",
    tiles: int = 4,
    expected: Mapping[str, Array] | None = None,
) -> Program:
    """Assert onnxruntime's or the ``expected`` results on the chip; floats up to a part of the largest."""
    program, found = call.on_chip(folder, dtype, tiles)
    assert_near(found, call.by_onnxruntime() if expected is None else expected, tolerance)
    return program


def assert_near(found: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float) -> None:
    """Assert all expected values, with type and shape; floats up to a part of the largest."""
    for name, wanted in expected.items():
        assert found[name].dtype == wanted.dtype, name
        assert found[name].shape == wanted.shape, name
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)
            continue
        largest = max(float(np.abs(wanted).max(initial=0)), 1.0)
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=tolerance * largest, err_msg=name)


def assert_model(
    made: Any,
    inputs: Mapping[str, Array],
    expected: Mapping[str, Array] | None = None,
    dtype: str = "fp32",
    tiles: int = 2,
    tolerance: float = 2e-5,
) -> Program:
    """Assert a model's outputs on the chip, in order, against onnxruntime's or the ``expected`` ones."""
    program = compiler.compile(graph_of_bytes(made.SerializeToString(), "model"), dtype, tiles, **QUICK)
    found, _ = run.execute(program, {t.name: inputs[t.name] for t in program.graph.inputs})
    assert_in_order(program, found)
    assert_near(found, by_onnxruntime(made, inputs) if expected is None else expected, tolerance)
    return program
