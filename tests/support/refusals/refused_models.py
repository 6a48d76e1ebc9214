"""ONNX models that are refused, and the line with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from compiler.cli import main

node = helper.make_node


def refusal(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line of tx8cc on standard error."""
    assert main([str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert not path.with_suffix("").exists()
    return captured.err.removeprefix("tx8cc: error: ").rstrip("\n")


def one(op: str, *inputs: str, **more: Any) -> Any:
    return node(op, list(inputs) or ["x"], ["y"], name="n3", **more)
