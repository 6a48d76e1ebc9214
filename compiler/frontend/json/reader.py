"""Reading graph.json: ONNX operators written in JSON (docs/graph_json.md).

The shape of a file is declared by the records below; graph.schema.json is generated from them. Constants are
read by :mod:`compiler.frontend.json.constants`, meaning is checked by :mod:`compiler.evaluation.infer`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from compiler.evaluation.infer import build_graph
from compiler.evaluation.survey import Survey
from compiler.graph import (
    DTYPES,
    NEWEST_OPSET,
    Array,
    AttrValue,
    Description,
    Graph,
    GraphError,
    Node,
    Tensor,
)
from tx8isa.tools.suggestions import hint

from .constants import WAYS, ConstantRecord, DType, files_of, load_constant

OLDEST_OPSET = 17

Name = Annotated[str, Meta(min_length=1)]
Attr = int | float | str | list[int | float | str]


class InputRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph input. Shapes are static: every dimension is at least 1; [] is a scalar."""

    name: Name
    dtype: DType
    shape: list[Annotated[int, Meta(ge=1)]]


class NodeRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """One application of an ONNX operator; "" is an input or output that is omitted."""

    op: Name
    inputs: list[str]
    outputs: Annotated[list[str], Meta(min_length=1)]
    name: Name | UnsetType = UNSET
    attrs: dict[str, Attr] = {}


class GraphRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A graph of ONNX operators."""

    opset: Annotated[int, Meta(ge=OLDEST_OPSET, le=NEWEST_OPSET)]
    inputs: list[InputRecord]
    outputs: Annotated[list[Name], Meta(min_length=1)]
    nodes: list[NodeRecord]
    name: Name | UnsetType = UNSET
    constants: dict[Name, Annotated[ConstantRecord, Meta(extra_json_schema=WAYS)]] = {}


def load_graph(path: Path | str, survey: Survey | None = None) -> Graph:
    """Read and check a graph.json file. Raises GraphError; its text starts with the file's name.

    ``survey`` receives the fate of each node.
    """
    return build_graph(read_description(Path(path)), survey)


def read_description(path: Path) -> Description:
    """Read a graph.json file and check the file by itself: syntax, keys, constants."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x} at offset {error.start}"
        raise GraphError([f"{path}: not UTF-8 text; found {found}"]) from None
    return parse_description(text, source=str(path), directory=path.parent, default_name=path.stem)


def parse_description(text: str, *, source: str, directory: Path, default_name: str = "graph") -> Description:
    """Read a text as :func:`read_description` does; files of constants are looked for in ``directory``."""
    raw = _parse_json(text, source)
    if _SURROGATE.search(text) and (lone := _lone_surrogate(raw)):
        raise GraphError(
            [f"{source}: the text {lone!r} holds half of a surrogate pair, which is not a character"]
        )
    try:
        record = msgspec.convert(raw, GraphRecord)
    except msgspec.ValidationError as error:
        found = list(_element_problems(raw)) or [_worded(error, raw, GraphRecord)]
        raise GraphError([f"{source}: {problem}" for problem in found]) from None
    return Description(
        source=source,
        name=default_name if record.name is UNSET else record.name,
        opset=record.opset,
        inputs=tuple(Tensor(item.name, item.dtype, tuple(item.shape)) for item in record.inputs),
        outputs=tuple(record.outputs),
        constants=_constants(record, source, directory),
        nodes=_nodes(record.nodes),
        files=files_of(record.constants.values(), directory),
    )


def schema_text() -> str:
    """Return the JSON Schema of graph.json as shipped in graph.schema.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tx8 graph.json",
        **_clean(msgspec.json.schema(GraphRecord)),
    }
    return json.dumps(schema, indent=1) + "\n"


def _clean(part: Any) -> Any:
    """Remove the indentation of docstrings from descriptions, which some versions of Python keep."""
    if isinstance(part, list):
        return [_clean(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else _clean(value)
        for key, value in part.items()
    }


def _constants(record: GraphRecord, source: str, directory: Path) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    problems = []
    for name, item in record.constants.items():
        try:
            arrays[name] = load_constant(item, directory)
        except GraphError as error:
            problems.append(f"{source}: constant '{name}': {error.messages[0]}")
    if problems:
        raise GraphError(problems)
    return arrays


def _nodes(records: list[NodeRecord]) -> tuple[Node, ...]:
    """Make the nodes; one without a name gets a unique one from its operator and position."""
    given = {record.name for record in records}
    nodes = []
    for index, record in enumerate(records):
        name = f"{record.op}_{index}" if record.name is UNSET else record.name
        while record.name is UNSET and name in given:
            name += "_"
        nodes.append(Node(record.op, name, tuple(record.inputs), tuple(record.outputs), _attrs(record)))
    return tuple(nodes)


def _attrs(record: NodeRecord) -> dict[str, AttrValue]:
    frozen: dict[str, AttrValue] = {}
    for name, value in record.attrs.items():
        frozen[name] = tuple(value) if isinstance(value, list) else value  # type: ignore[assignment]
    return frozen


def _parse_json(text: str, source: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise GraphError([f"{source}: key '{twice}' occurs twice in one object"])
        return result

    def refuse(token: str) -> NoReturn:
        hint = f'in float data write "{token}" as a string'
        raise GraphError([f"{source}:{_token_place(text)}: {token} is not JSON; {hint}"])

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise GraphError([f"{source}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}"]) from None
    except RecursionError:
        raise GraphError([f"{source}: nested too deeply"]) from None
    except ValueError:
        raise GraphError([f"{source}: an integer has more digits than any dtype can hold"]) from None


def _token_place(text: str) -> str:
    """Return ``line:column`` of the first NaN or Infinity outside a string."""
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|(NaN|-?Infinity)', text):
        if match[1]:
            before = text[: match.start()]
            return f"{before.count(chr(10)) + 1}:{match.start() - before.rfind(chr(10))}"
    raise ValueError("the text holds no such token")


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _lone_surrogate(raw: Any) -> str:
    """Return a text or key that UTF-8 cannot hold, as JSON may write with \\u; empty when there is none."""
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
    return ""


def _element_problems(raw: Any) -> Iterator[str]:
    """Yield the mistakes of each input, constant and node by itself."""
    sections = raw if isinstance(raw, dict) else {}
    for label, item, record in _elements(sections):
        try:
            msgspec.convert(item, record)
        except msgspec.ValidationError as error:
            yield f"{label}: {_worded(error, item, record)}"


def _elements(sections: dict[str, Any]) -> Iterator[tuple[str, Any, type[Struct]]]:
    for index, item in enumerate(_list(sections.get("inputs"))):
        name = item.get("name") if isinstance(item, dict) else None
        yield f"input '{name}'" if isinstance(name, str) else f"inputs[{index}]", item, InputRecord
    constants = sections.get("constants")
    for name, item in constants.items() if isinstance(constants, dict) else ():
        yield f"constant '{name}'", item, ConstantRecord
    for index, item in enumerate(_list(sections.get("nodes"))):
        yield _node_label(index, item), item, NodeRecord


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _node_label(index: int, item: Any) -> str:
    fields = item if isinstance(item, dict) else {}
    name, op = fields.get("name"), fields.get("op")
    label = f"node '{name}'" if isinstance(name, str) else f"nodes[{index}]"
    return f"{label} ({op})" if isinstance(op, str) else label


def _worded(error: msgspec.ValidationError, raw: Any, record: type[Struct]) -> str:
    """Reword a message of msgspec in this project's form, with the value found and the allowed ones."""
    message, _, place = str(error).partition(" - at `")
    if place.startswith("key` in"):
        return "a constant has an empty name"
    path, value = _follow(place.rstrip("`"), raw)
    where = f"{path}: " if path else ""
    quoted = re.findall(r"`([^`]*)`", message)
    if "missing required field" in message:
        return f"{where}key '{quoted[0]}' is missing"
    if "unknown field" in message:
        known = record.__struct_fields__
        listed = ", ".join(known) + hint(quoted[0], known)
        return f"{where}unknown key '{quoted[0]}'; known are {listed}"
    if message.startswith("Invalid enum value"):
        return f"{path} {_short(value)} is unknown; allowed are {', '.join(DTYPES)}"
    expected = f"an integer from {OLDEST_OPSET} to {NEWEST_OPSET}" if path == "opset" else _expected(message)
    return f"{path or 'it'} must be {expected}; found {_short(value)}"


def _follow(place: str, raw: Any) -> tuple[str, Any]:
    """Return the path in a msgspec message (``$.shape[0]``, ``$.attrs[...]``), and the value there."""
    path, value = "", raw
    for key, index, any_entry in re.findall(r"\.(\w+)|\[(\d+)\]|(\[\.\.\.\])", place):
        if any_entry:  # msgspec does not say which entry of an object it was
            key = next(name for name, entry in value.items() if not _converts(entry, Attr))
        value = value[int(index)] if index else value[key]
        path += f"[{index}]" if index else f".{key}"
    return path.removeprefix("."), value


def _converts(value: Any, type_: Any) -> bool:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError:
        return False
    return True


_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "array": "a list",
    "object": "an object",
}


def _expected(message: str) -> str:
    """Put msgspec's "Expected `int | float`, got `null`" into words: "an integer or a number"."""
    match = re.fullmatch(r"Expected `([^`]*)`(?:, got `[^`]*`)?(.*)", message)
    if match is None:
        return message
    names = [_WORDS.get(name, name) for name in match[1].split(" | ")]
    listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return listed + match[2]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


if __name__ == "__main__":
    print(schema_text(), end="")
