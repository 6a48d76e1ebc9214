"""Finds the reader of a file by its content, and advice for models of formats that are not read.

Only the beginning of a file is read, and the list of names in an archive; nothing is unpickled.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

from compiler.graph import GraphError

ONNX, TORCH, STABLEHLO, TENSORFLOW, JSON = "onnx", "torch", "stablehlo", "tensorflow", "json"
"""The formats that are read: ONNX models, programs of torch.export, modules of StableHLO, models of
TensorFlow and TensorFlow Lite, graph.json."""

_TTIR_SUFFIX = ".ttir"

_HEAD = 4096
"""Bytes read from the beginning."""
_READ = (
    "tx8cc reads ONNX models, programs of torch.export (.pt2), StableHLO (.mlir), SavedModels of TensorFlow, "
    ".tflite and graph.json"
)
_KERAS = "export it there: model.export('model.onnx', format='onnx')"
_EXPORT = "torch.export.save(torch.export.export(model, (x,)), 'model.pt2')"

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file, as of Keras; in Keras: model.export('model.onnx', format='onnx')",
    ),
    (0, b"GGUF", "weights in GGUF, without a graph; export the model that they were made of to ONNX"),
    (0, b"\x7fELF", "a program, not a model; images of tx8cc and tx8as are run by tx8emu"),
    (0, b"\x93NUMPY", "an array of NumPy, not a model; arrays are given with --input NAME=FILE"),
    (0, b"\x1f\x8b", "compressed by gzip; unpack it first"),
    (0, b"version https://git-lfs", "a pointer of Git LFS in place of the model; fetch it: git lfs pull"),
)
"""Offset and bytes that identify a format, and the advice for it."""


def format_of(path: Path) -> str:
    """Return the format of a file, one of those above; by its suffix if it cannot be opened.

    GraphError for another format, with advice on what to do instead.
    """
    if path.is_dir():
        if (path / "saved_model.pb").exists():
            return TENSORFLOW
        raise GraphError([f"{path}: a folder, not a model; {_READ}"])
    try:
        with path.open("rb") as file:
            head, size = file.read(_HEAD), path.stat().st_size
    except OSError:
        return _by_suffix(path)  # its reader says why
    if head.startswith(b"PK\x03\x04"):
        return _archive(path)
    if tensorflow_kind(head) is not None:
        return TENSORFLOW
    if head.startswith(b"ML\xefR") or (_MLIR.match(head) and b"tx8be." not in head):
        return STABLEHLO
    advice = _by_magic(head) or _by_structure(head, size)
    if advice is None and path.suffix.lower() != ".json":
        advice = _by_text(head)
    if advice is not None:
        raise GraphError([f"{path}: {advice.replace('FILE', str(path), 1)}"])
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return JSON
    if path.suffix.lower() in (".onnx", ".pt2"):
        return _by_suffix(path)
    if _is_onnx(head):
        return ONNX
    if path.suffix.lower() == ".json" or not head:
        return JSON  # whose reader says where it is wrong
    raise GraphError([f"{path}: not a model: it begins with {head[:8]!r}; {_READ}"])


def is_ttir(path: Path) -> bool:
    """Return True if a file is a kernel of Triton, by its suffix or its beginning."""
    if path.suffix.lower() == _TTIR_SUFFIX:
        return True
    try:
        with path.open("rb") as file:
            return b"tt.func" in file.read(_HEAD)
    except OSError:
        return False


def _by_suffix(path: Path) -> str:
    known = {".onnx": ONNX, ".pt2": TORCH, ".mlir": STABLEHLO, ".tflite": TENSORFLOW}
    return known.get(path.suffix.lower(), JSON)


def tensorflow_kind(head: bytes) -> str | None:
    """Return ``tflite``, ``saved-model`` or ``graphdef`` for the beginning of such a file, else None."""
    if head[4:8] == b"TFL3":
        return "tflite"
    if _is_saved_model(head):
        return "saved-model"
    return "graphdef" if _is_graph_def(head) else None


def _by_magic(head: bytes) -> str | None:
    return next((text for at, magic, text in _MAGIC if head[at : at + len(magic)] == magic), None)


def _by_structure(head: bytes, size: int) -> str | None:
    """Recognise formats that have no magic number by their first fields."""
    if re.match(rb"\x80[\x02-\x05]", head):
        return f"a pickle, as of PyTorch: no graph; load it there and export it: {_EXPORT}"
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8:
        return "weights in safetensors, without a graph; constants of a graph.json can be read from it"
    return None


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a protobuf varint at a position; return it and the position after it, or -1 if it is cut off."""
    value = shift = 0
    for end in range(at, min(at + 10, len(data))):
        value |= (data[end] & 0x7F) << shift
        shift += 7
        if data[end] < 0x80:
            return value, end + 1
    return -1, len(data)


def _is_saved_model(head: bytes) -> bool:
    """Return True for a version, then a MetaGraphDef that begins with a message; ONNX has a name there."""
    if not head.startswith(b"\x08\x01\x12"):
        return False
    _, at = _length(head, 3)
    return head[at : at + 1] == b"\x0a"


def _is_graph_def(head: bytes) -> bool:
    """Return True for a NodeDef in field 1, which begins with a name and an operator."""
    if head[:1] != b"\x0a":
        return False
    _, at = _length(head, 1)
    if head[at : at + 1] != b"\x0a":
        return False
    size, at = _length(head, at + 1)
    if size < 1 or head[at + size : at + size + 1] != b"\x12":
        return False
    size, start = _length(head, at + size + 1)
    return re.fullmatch(rb"[A-Z]\w*", head[start : start + max(size, 0)]) is not None


def _is_onnx(head: bytes) -> bool:
    """Return True for a version of the intermediate representation, then a name, graph or operator set."""
    version, at = _length(head, 1)
    return (
        head[:1] == b"\x08"
        and 1 <= version < 64
        and head[at : at + 1] in (b"\x12", b"\x1a", b"\x3a", b"\x42")
    )


_MLIR = re.compile(
    rb"\s*(//[^\n]*\n\s*)*(#\w+ = |!\w+ = |\"?builtin\.module|module\b[^\n]*\{|func\.func|\"?stablehlo\.)"
)


def _by_text(head: bytes) -> str | None:
    """Recognise formats of text other than JSON."""
    if _MLIR.match(head):
        return "the text of a module; tx8opt reads it: tx8opt FILE --pipeline"
    if re.match(rb"\s*<", head):
        return f"XML, as of OpenVINO or PMML, which is not read; {_READ}"
    if re.match(rb"\s*(\xef\xbb\xbf)?\s*\{|\s*$", head) or re.search(rb"[\x00-\x08\x0e-\x1f\x7f]", head):
        return None
    try:
        text = head[:-3].decode("utf-8") if len(head) == _HEAD else head.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return f"text that begins with {text.split()[0][:20]!r}, not a model; {_READ}"


_ARCHIVES: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda name: name == "model.weights.h5", f"a model of Keras; {_KERAS}"),
    (lambda name: "/code/" in name, f"a TorchScript; export the module that it was made of: {_EXPORT}"),
    (
        lambda name: name.endswith("data.pkl"),
        f"weights or a module pickled by PyTorch: no graph; load it there and export it: {_EXPORT}",
    ),
    (lambda name: name.endswith(".npy"), "arrays of NumPy (.npz), not a model"),
)
"""Archives, recognised by a name that they contain, and the advice for each."""


def _archive(path: Path) -> str:
    """Recognise a zip archive; one that cannot be listed is left to the reader of its suffix."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        if path.suffix.lower() == ".pt2":
            return TORCH
        raise GraphError([f"{path}: a damaged zip archive; {_READ}"]) from None
    if any(name.endswith(("serialized_exported_program.json", "archive_format")) for name in names):
        return TORCH
    for known, text in _ARCHIVES:
        if any(known(name) for name in names):
            raise GraphError([f"{path}: {text}"])
    if path.suffix.lower() == ".pt2":
        return TORCH
    raise GraphError([f"{path}: a zip archive that holds no model; {_READ}"])
