"""States of several networks in one program: those of the same name are the same memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import InputOp
from compiler.dialect.types import format_of
from compiler.graph import GraphError, Tensor
from compiler.passes.base import Context, operations


def shared_states(
    networks: Sequence[tuple[Context, ModuleOp]], inputs: Collection[str] = ()
) -> dict[str, str]:
    """Symbols of states, and of these ``inputs``, which an earlier network has too, with the symbol there.

    GraphError for every state that is not the same tensor in both.
    """
    first: dict[str, tuple[str, str, str]] = {}
    shared: dict[str, str] = {}
    problems = []
    for context, module in networks:
        states = {past for past, _ in context.graph.states} | set(inputs)
        tensors = {tensor.name: tensor for tensor in context.graph.inputs}
        for operation in operations(module):
            if not isinstance(operation, InputOp) or operation.node.data not in states:
                continue
            name, entry = operation.node.data, context.prefix.removesuffix(".")
            found = _described(tensors[name], format_of(operation.results[0].type).token)
            symbol, other, known = first.setdefault(name, (operation.symbol, entry, found))
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
