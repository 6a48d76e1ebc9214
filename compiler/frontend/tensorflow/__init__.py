"""Models of TensorFlow and TensorFlow Lite, converted to ONNX by tf2onnx.

tf2onnx is not a dependency of tx8: ``pip install tf2onnx``; for models of TensorFlow itself it
needs TensorFlow too. tf2onnx runs as a separate process, by the command that messages name, but isolated. The
folder of an unknown model may contain harmful Python files.
"""

from __future__ import annotations

import importlib.util
import re
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
_ABSENT = re.compile(r"No module named '?tf2onnx\b")
"""Python's message when tf2onnx is missing, or found only in the current folder or PYTHONPATH."""


def load_tensorflow(path: Path | str, survey: Survey | None = None) -> Graph:
    """Read and check a SavedModel (its folder or ``saved_model.pb``) or a ``.tflite`` file.

    GraphError if tf2onnx is missing or cannot convert the model, and for a GraphDef, which lacks the names of
    its inputs and outputs. ``survey`` receives the fate of each node.
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
    missing = f"{head}; reading it needs tf2onnx: pip install tf2onnx; or convert it to ONNX: {command}"
    if importlib.util.find_spec("tf2onnx") is None:
        raise GraphError([missing])
    with tempfile.TemporaryDirectory(prefix="tx8cc-") as folder:
        file = Path(folder).resolve() / "model.onnx"
        done = _convert([f"--{kind}", str(source.resolve()), "--output", str(file)], file.parent)
        if _ABSENT.search(done.stderr):
            raise GraphError([missing])
        if done.returncode or not file.exists():
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            cause = lines[-1] if lines else f"it ended with status {done.returncode}"
            raise GraphError([f"{head}; tf2onnx cannot convert it: {cause}"])
        try:
            return replace(load_onnx(file, survey=survey), name=source.stem, files=())
        except GraphError as error:
            raise GraphError([text.replace(str(file), str(path)) for text in error.messages]) from None


def _kind(path: Path) -> tuple[str, Path]:
    """Return the format of a path, and the path for tf2onnx: for a SavedModel the folder."""
    if path.is_dir():
        return "saved-model", path
    try:
        with path.open("rb") as file:
            kind = tensorflow_kind(file.read(4096)) or "tflite"
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    return kind, path.parent if kind == "saved-model" else path


def _convert(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tf2onnx in ``folder``, which contains only our own files.

    It imports only installed packages: nothing from the current folder or from PYTHONPATH.
    """
    command = [sys.executable, "-E", "-P", "-m", "tf2onnx.convert", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
