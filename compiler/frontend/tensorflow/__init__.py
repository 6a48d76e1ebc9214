"""Models of TensorFlow and TensorFlow Lite, converted to ONNX by tf2onnx.

tf2onnx is not a dependency of tx8: ``pip install tf2onnx``; for models of TensorFlow itself it
needs TensorFlow too. It runs as a process of its own, by the command that messages name.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from compiler.evaluation.survey import Survey
from compiler.frontend.formats import tensorflow_kind
from compiler.graph import Graph, GraphError

_NAMES = {
    "tflite": "a TensorFlow Lite model",
    "saved-model": "a SavedModel of TensorFlow",
    "graphdef": "a GraphDef of TensorFlow",
}


def load_tensorflow(path: Path | str, survey: Survey | None = None) -> Graph:
    """Read and check a SavedModel (its folder or ``saved_model.pb``) or a ``.tflite`` file.

    GraphError without tf2onnx, for what it cannot convert, and for a GraphDef, which does not say what its
    inputs and outputs are. ``survey`` is filled with what became of each node.
    """
    from compiler.frontend.onnx.importer import load_onnx

    path = Path(path)
    kind, source = _kind(path)
    command = f"python -m tf2onnx.convert --{kind} {source} --output model.onnx"
    head = f"{path}: {_NAMES[kind]}"
    if kind == "graphdef":
        names = "--inputs x:0 --outputs y:0"
        raise GraphError(
            [f"{head}; convert it to ONNX, with the names of its inputs and outputs: {command} {names}"]
        )
    if importlib.util.find_spec("tf2onnx") is None:
        advice = f"reading it needs tf2onnx: pip install tf2onnx; or convert it to ONNX: {command}"
        raise GraphError([f"{head}; {advice}"])
    with tempfile.TemporaryDirectory(prefix="tx8cc-") as folder:
        file = Path(folder) / "model.onnx"
        _convert([f"--{kind}", str(source), "--output", str(file)], file, head)
        try:
            return replace(load_onnx(file, survey=survey), name=source.stem, files=())
        except GraphError as error:
            raise GraphError([text.replace(str(file), str(path)) for text in error.messages]) from None


def _kind(path: Path) -> tuple[str, Path]:
    """What a path holds, and what tf2onnx calls its place: for a SavedModel the folder."""
    if path.is_dir():
        return "saved-model", path
    try:
        with path.open("rb") as file:
            kind = tensorflow_kind(file.read(4096)) or "tflite"
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    return kind, path.parent if kind == "saved-model" else path


def _convert(arguments: list[str], target: Path, head: str) -> None:
    """Run tf2onnx. GraphError with its last line if it writes no model."""
    done = subprocess.run(
        [sys.executable, "-m", "tf2onnx.convert", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode or not target.exists():
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        cause = lines[-1] if lines else f"it ended with status {done.returncode}"
        raise GraphError([f"{head}; tf2onnx cannot convert it: {cause}"])
