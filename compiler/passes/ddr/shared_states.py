"""States of several networks in one program; states with the same name are the same memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import InputOp
from compiler.dialect.types import format_of
from compiler.graph import GraphError, Tensor
from compiler.passes.base import Context, operations


def shared_states(
    networks: Sequence[tuple[Context, ModuleOp]], entries: Sequence[str] = ()
) -> dict[str, str]:
    """Symbols of states that an earlier network has too, each with the earlier symbol.

    ``entries``: the entry of each network if these are stages of pipelines, which share inputs of the entry.
    GraphError for every state that is not the same tensor in both.
    """
    first: dict[tuple[str, str], tuple[str, str, str]] = {}
    shared: dict[str, str] = {}
    problems = []
    for number, (context, module) in enumerate(networks):
        states = {past for past, _ in context.graph.states}
        tensors = {tensor.name: tensor for tensor in context.graph.inputs}
        entry = entries[number] if entries else context.prefix.removesuffix(".")
        for operation in operations(module):
            if not isinstance(operation, InputOp) or not (entries or operation.node.data in states):
                continue
            name = operation.node.data
            found = _described(tensors[name], format_of(operation.results[0].type).token)
            key = name, "" if name in states else entry
            symbol, other, known = first.setdefault(key, (operation.symbol, entry, found))
            if known != found:
                problems.append(
                    f"state {name}: {known} in entry {other}, {found} in entry {entry}; expected the same"
                )
            elif symbol != operation.symbol:
                shared[operation.symbol] = symbol
    if problems:
        raise GraphError(problems)
    return shared


def _described(tensor: Tensor, fmt: str) -> str:
    return f"{'x'.join(map(str, tensor.shape))} {tensor.dtype} stored as {fmt}"
