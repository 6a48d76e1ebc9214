"""A compilation between two passes as text: the module, with attributes for the rest of the context.

The attributes are ``tx8be.done``, the passes already run; ``tx8be.options``; ``tx8be.graph``, the inputs,
outputs and precision, which the module lacks; and ``tx8be.constants``, a list of name, element type, shape
and place. The place of a small constant is its bytes in hexadecimal. Larger ones are in an .npz file next to
the text, or omitted if no file is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context as DialectContext
from xdsl.dialects.builtin import ArrayAttr, Builtin, BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError, VerifyException

from asm.syntax.source import checksum
from compiler.dialect.attributes import decoded, encoded
from compiler.dialect.ops import ControlOperation, OutputOp, tx8be
from compiler.dialect.parser import BudgetParser
from compiler.graph import DTYPES, Array, Graph, GraphError, Tensor
from compiler.passes.base import Context, operations
from compiler.passes.compilation import context_of
from compiler.passes.groups.group_cost import GroupCostPass, rebuild_decisions
from compiler.passes.groups.group_mapping import GroupMappingPass
from compiler.passes.groups.group_stack import GroupStackPass
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.numbers.formats import Format
from tx8isa.tools.arrays import Archive
from tx8isa.tools.files import read_text

from .verification.excerpt import npz_bytes

SMALL_BYTES = 64
"""Constants up to this size are in the text."""

_HEXADECIMAL, _IN_FILE, _OMITTED = "0x", "file", "left out"
"""Places of constants; hexadecimal bytes follow the first."""
HELD = ("graph", "machine", "tiles", "compute", "constants")
"""Fields of a context that the text holds."""
GIVEN = ("patterns", "residency", "effort", "plan", "search_progress")
"""Fields that the command line gives anew."""
REBUILT = ("templates", "results", "kind_use")
"""Fields that are computed from the module."""
FINAL = (
    *("phases", "on_core", "data", "used"),
    *("sequences", "other_results", "updates", "replaceable", "wide"),
)
"""Fields that no later pass reads, only the driver."""
INSIDE = ("prefix", "is_body", "bodies", "conditional", "step_symbol", "twin")
"""Fields that a text read from a file does not have.

They are about graphs that control flow executes, about several networks in one program, and about proofs.
"""


def as_text(
    context: Context, module: ModuleOp, done: Iterable[str], archive: bool
) -> tuple[str, bytes | None]:
    """Return the text of a module with the attributes above, and the .npz file of its large constants.

    The file is None without ``archive``, and for a module that has only small constants. After the last pass
    the result is assembly, which no attribute holds. The text then has only ``tx8be.done``, and no pass can
    continue from it.
    """
    text = module.clone()
    text.attributes["tx8be.done"] = encoded(tuple(done))
    large: dict[str, Array] = {}
    if not context.phases:
        if archive:
            large = {name: array for name, array in context.constants.items() if array.nbytes > SMALL_BYTES}
        text.attributes |= _attributes(context, _IN_FILE if archive else _OMITTED)
    return f"{text!s}\n", npz_bytes(large) if large else None


def read_text_file(
    path: Path, machine: Machine, given: Mapping[str, Any]
) -> tuple[Context, ModuleOp, list[str]]:
    """Read the context, the module and the passes already run from a file of ``as_text``.

    ``given`` are the arguments of ``context_of`` that the text does not hold, such as patterns and search.
    GraphError names the line that is wrong.
    """
    module = _parsed(read_text(path), path)
    options = _dictionary(module, "tx8be.options", path)
    graph = _dictionary(module, "tx8be.graph", path)
    done = _done(module, path)
    if options.get("machine") != machine.name:
        found = f"made for machine '{options.get('machine')}'; --machine describes '{machine.name}'"
        raise GraphError([f"{path}: {found}"])
    constants = _constants(module, path)
    if any(isinstance(operation, ControlOperation) for operation in operations(module)):
        raise GraphError(
            [f"{path}: the constants of graphs in if and loop are not in the text; start from the model"]
        )
    try:
        compute, tiles = Format.parse(options["compute"]), int(options["tiles"])
        inputs, outputs = (tuple(_tensor(entry) for entry in graph[key]) for key in ("inputs", "outputs"))
        made = Graph(
            graph["name"],
            graph["opset"],
            inputs,
            outputs,
            {},
            (),
            {t.name: t for t in (*inputs, *outputs)},
            frozenset(graph["precise"]),
            states=tuple(_states(module)),
        )
    except (KeyError, ValueError, TypeError, AttributeError, Tx8Error) as error:
        raise GraphError([f"{path}: damaged attributes tx8be.options or tx8be.graph: {error}"]) from None
    for name in [name for name in module.attributes if name.startswith("tx8be.")]:
        del module.attributes[name]
    context = context_of(made, None, tiles, machine, **given)
    context.compute, context.constants = compute, constants
    if GroupMappingPass.name in done:
        decided = GroupCostPass.name in done and GroupStackPass.name not in done
        _rebuild_templates(context, module, path, decided)
    return context, module, done


def _states(module: ModuleOp) -> Iterator[tuple[str, str]]:
    """Yield the inputs and outputs of a module that are the same memory."""
    for operation in operations(module):
        if isinstance(operation, OutputOp) and operation.state is not None:
            yield operation.state.data, operation.node.data


def _done(module: ModuleOp, path: Path) -> list[str]:
    names = _decoded(module.attributes.get("tx8be.done"), path, "tx8be.done")
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise GraphError([f"{path}: damaged attribute tx8be.done: {names} is not a list of passes"])
    return list(names)


def _rebuild_templates(context: Context, module: ModuleOp, path: Path, decided: bool) -> None:
    """Fill ``context.templates`` by running group_mapping again, which leaves the module unchanged.

    ``decided``: the next passes need the decisions of group_cost.
    """
    try:
        GroupMappingPass().run(context, module)
        if decided:
            rebuild_decisions(context, module)
    except Tx8Error:
        raise
    except Exception as error:  # the pass relies on earlier ones, and the text may have been edited
        raise GraphError([f"{path}: damaged groups: {type(error).__name__}: {_first_line(error)}"]) from None


def _attributes(context: Context, large: str) -> dict[str, Attribute]:
    graph = context.graph
    described = {
        "name": encoded(graph.name),
        "opset": encoded(graph.opset),
        "inputs": ArrayAttr([_tensor_attribute(tensor) for tensor in graph.inputs]),
        "outputs": ArrayAttr([_tensor_attribute(tensor) for tensor in graph.outputs]),
        "precise": encoded(tuple(sorted(graph.precise))),
    }
    options = {
        "compute": encoded(context.compute.token),
        "tiles": encoded(context.tiles),
        "machine": encoded(context.machine.name),
    }
    constants = [_constant_attribute(name, array, large) for name, array in context.constants.items()]
    return {
        "tx8be.options": DictionaryAttr(options),
        "tx8be.graph": DictionaryAttr(described),
        "tx8be.constants": ArrayAttr(constants),
    }


def _tensor_attribute(tensor: Tensor) -> ArrayAttr[Attribute]:
    return ArrayAttr([encoded(tensor.name), encoded(tensor.dtype), encoded(tensor.shape)])


def _tensor(entry: tuple[str, str, tuple[int, ...]]) -> Tensor:
    name, dtype, shape = entry
    if dtype not in DTYPES:
        raise ValueError(f"'{dtype}' of '{name}' is not an element type")
    return Tensor(name, dtype, shape)


def _constant_attribute(name: str, array: Array, large: str) -> ArrayAttr[Attribute]:
    small = array.nbytes <= SMALL_BYTES
    data = np.ascontiguousarray(array).tobytes()
    place = [_HEXADECIMAL + data.hex()] if small else [large, checksum(data)]
    described = _tensor_attribute(Tensor(name, array.dtype.name, array.shape))
    return ArrayAttr([*described, *map(encoded, place)])


def _constants(module: ModuleOp, path: Path) -> dict[str, Array]:
    entries = _decoded(module.attributes.get("tx8be.constants"), path, "tx8be.constants")
    archive = path.with_suffix(".npz")
    arrays: dict[str, Array] = {}
    try:
        described = [(_tensor((name, dtype, shape)), rest) for name, dtype, shape, *rest in entries]
        if any(place == _IN_FILE for _, (place, *_) in described):
            arrays = _read_arrays(archive, path)
        for tensor, (place, *digest) in described:
            if place == _OMITTED:
                found = f"constant '{tensor.name}' is not in the text; write it with -o FILE"
                raise GraphError([f"{path}: {found}"])
            if place != _IN_FILE:
                raw = bytes.fromhex(place.removeprefix(_HEXADECIMAL))
                arrays[tensor.name] = np.frombuffer(raw, DTYPES[tensor.dtype]).reshape(tensor.shape)
            else:
                arrays[tensor.name] = array = _as_described(arrays, tensor, archive)
                if digest != [checksum(array.tobytes())]:
                    found = f"'{tensor.name}' is not the array that {path} was written with; write both again"
                    raise GraphError([f"{archive}: {found}"])
    except (ValueError, TypeError, AttributeError) as error:
        raise GraphError([f"{path}: damaged attribute tx8be.constants: {error}"]) from None
    return arrays


def _as_described(arrays: Mapping[str, Array], tensor: Tensor, archive: Path) -> Array:
    """Return an array of the .npz file, checked; for bfloat16 the file has the bits but not the type."""
    if tensor.name not in arrays:
        raise GraphError([f"{archive}: has no array '{tensor.name}'"])
    array = arrays[tensor.name]
    if array.dtype == np.dtype("V2") and tensor.dtype == "bfloat16":
        array = array.view(DTYPES["bfloat16"])
    if (array.dtype, array.shape) != (DTYPES[tensor.dtype], tensor.shape):
        found = f"{array.dtype.name} {list(array.shape)}"
        raise GraphError(
            [f"{archive}: '{tensor.name}' is {found}; the text says {tensor.dtype} {list(tensor.shape)}"]
        )
    return array


def _read_arrays(file: Path, text: Path) -> dict[str, Array]:
    try:
        return Archive(file).all()
    except Tx8Error as error:
        raise GraphError([f"{file}: the constants of {text} cannot be read: {error}"]) from None
    except OSError as error:
        raise GraphError([f"{file}: the constants of {text} cannot be read: {error.strerror}"]) from None


class _Parser(BudgetParser):
    """xDSL's parser, changed so that a string with non-ASCII letters is text and not bytes."""

    def parse_optional_attribute(self) -> Attribute | None:
        found = super().parse_optional_attribute()
        return StringAttr(found.data.decode()) if isinstance(found, BytesAttr) else found


def _parsed(text: str, path: Path) -> ModuleOp:
    dialects = DialectContext()
    dialects.load_dialect(Builtin)
    dialects.load_dialect(tx8be())
    try:
        module = _Parser(dialects, text, str(path)).parse_module()
        module.verify()
    except ParseError as error:
        line = text.count("\n", 0, error.span.start) + 1
        column = error.span.start - text.rfind("\n", 0, error.span.start)
        raise GraphError([f"{path}:{line}:{column}: {error.msg}"]) from None
    except VerifyException as error:
        raise GraphError([f"{path}: {_first_line(error)}"]) from None
    except Exception as error:  # damage that the parser does not expect raises any class of exception
        raise GraphError([f"{path}: no module of this dialect: {_first_line(error)}"]) from None
    return module


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _dictionary(module: ModuleOp, name: str, path: Path) -> dict[str, Any]:
    found = module.attributes.get(name)
    if not isinstance(found, DictionaryAttr):
        raise GraphError([f"{path}: the module has no attribute {name}; tx8opt writes it"])
    return {key: _decoded(value, path, name) for key, value in found.data.items()}


def _decoded(attribute: Attribute | None, path: Path, name: str) -> Any:
    if attribute is None:
        raise GraphError([f"{path}: the module has no attribute {name}; tx8opt writes it"])
    try:
        return decoded(attribute)
    except ValueError as error:
        raise GraphError([f"{path}: damaged attribute {name}: {error}"]) from None
