"""Calls of one operator of com.microsoft: as a model, by onnxruntime, and on the emulated chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

import compiler
from compiler.driver import Program
from compiler.frontend import load
from compiler.graph import Array, Graph
from compiler.tools import run
from onnx_models import saved, value
from onnx_oracle import onnxruntime

RNG = np.random.default_rng(11)


def floats(*shape: int, scale: float = 1.0) -> Array:
    """Normally distributed numbers."""
    return np.asarray(RNG.standard_normal(shape) * scale).astype(np.float32)


def some_bytes(dtype: str, *shape: int, bits: int = 8) -> Array:
    """Any bytes; with 7 bits half of them, around the middle of the type."""
    limits = np.iinfo(dtype)
    quarter = 64 if bits == 7 else 0
    return RNG.integers(limits.min + quarter, limits.max + 1 - quarter, shape).astype(dtype)


@dataclass
class MicrosoftCall:
    """A call. ``operands`` in order, None for one omitted; those in ``known`` are constants of the model."""

    op: str
    operands: Mapping[str, Array | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=lambda: {"y": np.float32})
    known: Sequence[str] = ()
    domain: str = "com.microsoft"

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
        versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def by_onnxruntime(self) -> dict[str, Array]:
        """The outputs that are wanted. Threads would quantise parts of the states of a layer apart."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [item.name for item in session.get_outputs()]
        return dict(zip(names, map(np.asarray, session.run(None, self.feeds)), strict=True))

    def graph(self, folder: Path) -> Graph:
        """The call as the front end reads it."""
        return load(saved(self.model(), folder))

    def on_chip(self, folder: Path, dtype: str = "fp32") -> tuple[Program, dict[str, Array]]:
        """The program on four tiles, and its outputs."""
        program = compiler.compile(self.graph(folder), dtype, tiles=4)
        return program, dict(run.execute(program, self.feeds)[0])


def assert_close(call: MicrosoftCall, folder: Path, tolerance: float = 2e-5, dtype: str = "fp32") -> Program:
    """The floats that the chip gives are those of onnxruntime, up to a part of the largest."""
    program, found = call.on_chip(folder, dtype)
    for name, wanted in call.by_onnxruntime().items():
        assert found[name].dtype == wanted.dtype
        assert found[name].shape == wanted.shape
        if wanted.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)
            continue
        largest = max(float(np.abs(wanted).max(initial=0)), 1.0)
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=tolerance * largest, err_msg=name)
    return program


def assert_bytes(call: MicrosoftCall, folder: Path, steps: int = 0, dtype: str = "fp16") -> Program:
    """The bytes that the chip gives are those of onnxruntime; one in 50 may be ``steps`` beside."""
    program, found = call.on_chip(folder, dtype)
    for name, wanted in call.by_onnxruntime().items():
        assert found[name].dtype == wanted.dtype
        assert found[name].shape == wanted.shape
        away = np.abs(found[name].astype(int) - wanted.astype(int))
        assert away.max(initial=0) <= steps, name
        assert np.count_nonzero(away) <= max(1, wanted.size // 50) * bool(steps), name
    return program
