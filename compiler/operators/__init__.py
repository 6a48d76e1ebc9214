"""The operators that graphs may use, one record each (:class:`compiler.operators.record.Operator`).

To add an operator, add a record to the file of its family: checks, inference, the reference run and the table
in docs/graph_json.md follow from it.
"""

from __future__ import annotations

from compiler.graph import Node
from compiler.operators import (  # noqa: F401  (each module registers its records)
    casting,
    comparison,
    composite_math,
    composite_norm,
    composite_rearrange,
    composite_reduce,
    composite_shapes,
    composite_slicing,
    composite_windows,
    conv,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pointwise,
    pool,
    quantization,
    reduce,
    resize,
    slicing,
)
from compiler.operators.record import OPERATORS, Attribute, Call, Input, Operator, Rule, call_of

__all__ = ["OPERATORS", "Attribute", "Call", "Input", "Node", "Operator", "Rule", "call_of", "support_table"]

#: Operator sets up to this one are not told apart in the table: graph.json cannot ask for older ones.
OLDEST_JSON_OPSET = 17


def support_table() -> str:
    """The supported operators as Markdown, one section each; docs/graph_json.md ends with this text."""
    return "\n".join(_section(OPERATORS[name]) for name in sorted(OPERATORS) if not OPERATORS[name].internal)


def _section(record: Operator) -> str:
    since = f" Since opset {record.since}." if record.since > OLDEST_JSON_OPSET else ""
    lines = [f"### {record.name}", "", f"{record.summary}.{since}", ""]
    lines += [f"- input `{item.name}`: {_input_text(item)}" for item in record.inputs]
    lines += [f"- attribute `{item.name}`: {_attribute_text(item)}" for item in record.attributes]
    lines += [f"- rule: {item.text}." for item in record.rules]
    return "\n".join(lines) + "\n"


def _input_text(item: Input) -> str:
    words = [", ".join(item.types.allowed)]
    words += ["optional"] * item.optional + ["one or more"] * item.variadic + ["a constant"] * item.constant
    words += [f"since opset {item.since}"] * (item.since > OLDEST_JSON_OPSET)
    return "; ".join(words)


def _attribute_text(item: Attribute) -> str:
    words = ["list of integers" if item.kind == "ints" else {"int": "integer"}.get(item.kind, item.kind)]
    if item.allowed:
        words.append("one of " + ", ".join(map(str, item.allowed)))
    if item.minimum is not None:
        words.append(f"at least {item.minimum}")
    if item.required:
        words.append("required")
    elif item.default is not None:
        words.append(f"default {item.default}")
    words += [f"since opset {item.since}"] * (item.since > OLDEST_JSON_OPSET)
    words += [f"up to opset {item.until}"] * (item.until is not None)
    return "; ".join(words)
