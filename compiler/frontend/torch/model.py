"""A program of ``torch.export``, converted to ONNX once, from which graphs of several sizes are read."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.graph import Graph, GraphError
from tx8isa.tools.files import write_whole

from .archive import advice, check_archive, is_trusted, pickled, weights_only
from .dimensions import Dimensions, names_of
from .library import cause_of, first_line, import_torch, silence

if TYPE_CHECKING:
    from onnx import ValueInfoProto
    from torch.export import ExportedProgram

    from compiler.evaluation.sizes.ranges import Ranges
    from compiler.evaluation.survey import Survey
    from compiler.frontend.onnx.binding import Binding

NAMES_FILE = "tx8_dimensions.json"
"""The file in a ``.pt2`` with the names of dimensions by PyTorch's symbols."""


class TorchModel:
    """A program written by PyTorch's exporter to ``file``, an ONNX model in a folder of its own.

    ``source`` begins messages, ``name`` is the graphs' name. The folder is deleted with the object.
    """

    def __init__(self, file: Path, source: str, name: str, dimensions: Dimensions) -> None:
        self.file, self.source, self.name, self.dimensions = file, source, name, dimensions
        self.inputs: Sequence[ValueInfoProto] = ()
        weakref.finalize(self, shutil.rmtree, file.parent, ignore_errors=True)

    def graph(self, binding: Binding | None = None, survey: Survey | None = None) -> Graph:
        """Return the graph at the sizes of a binding; ``survey`` receives the fate of each node.

        GraphError for unsupported operators, and for sizes for which the program was not exported.
        """
        from compiler.frontend.onnx.importer import load_onnx

        try:
            if binding is not None:
                inputs = [type(info).FromString(info.SerializeToString()) for info in self.inputs]
                binding.extents(inputs, self.file)
                self.dimensions.check_shapes(inputs, self.source)
            return replace(load_onnx(self.file, binding, survey), name=self.name, files=())
        except GraphError as error:
            texts = [text.replace(str(self.file), self.source) for text in error.messages]
            raise GraphError(texts) from None

    def check_ranges(self, ranges: Ranges) -> None:
        """Raise GraphError for ranges that the program was not exported for."""
        self.dimensions.check_ranges(ranges, self.source)


def open_exported(
    program: ExportedProgram,
    source: str = "torch.export",
    name: str = "torch",
    names: Mapping[str, str] | None = None,
) -> TorchModel:
    """Write a program of ``torch.export.export`` as ONNX.

    ``names``: the names of its dimensions by PyTorch's symbols, by default the program's own. GraphError for
    what PyTorch cannot write.
    """
    import onnx

    torch = import_torch(source)
    dimensions = Dimensions(program, names_of(program) if names is None else names)
    file = Path(tempfile.mkdtemp(prefix="tx8cc-")) / "torch.onnx"
    model = TorchModel(file, source, name, dimensions)
    try:
        with silence():
            torch.onnx.export(program, dynamo=True, verbose=False).save(file, external_data=True)
    except Exception as error:  # the exporter raises errors of many classes
        raise GraphError([f"{source}: PyTorch cannot write it as ONNX: {cause_of(error)}"]) from None
    written = onnx.load(file, load_external_data=False)
    dimensions.write_names(written.graph.input)
    write_whole(file, written.SerializeToString())
    model.inputs = written.graph.input
    return model


def open_pt2(path: Path | str) -> TorchModel:
    """Open a file that ``torch.export.save`` wrote. GraphError names the file.

    PyTorch unpickles only tensors of it, unless the user trusts the file: see ``archive``.
    """
    path = Path(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    if not is_trusted():
        check_archive(path)
    torch = import_torch(str(path))
    beside = {NAMES_FILE: ""}
    try:
        with silence(), nullcontext() if is_trusted() else weights_only():
            program = torch.export.load(path, extra_files=beside)
    except pickle.UnpicklingError as error:
        raise GraphError([f"{path}: it has {pickled(error)}; {advice()}"]) from None
    except Exception as error:  # PyTorch raises errors of many kinds for a damaged file
        raise GraphError([f"{path}: not a program of torch.export: {first_line(error)}"]) from None
    return open_exported(program, str(path), path.stem, _names(beside[NAMES_FILE], path))


def _names(text: str | bytes, path: Path) -> dict[str, str]:
    """Return the names of dimensions in a file; GraphError if something else wrote them."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise GraphError([f"{path}: {NAMES_FILE} in it is damaged: expected names of dimensions by symbols"])
    return found
