"""Verification of a module between passes: a pass changes little, so only changed operations are verified."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

State = tuple[object, ...]


class Verifier:
    """Verifies the same module after each pass.

    An operation is verified when it is new, or when an input of the dialect's verifiers has changed: its
    place, operands, types and attributes, the use of its results, or the content of its regions.
    """

    def __init__(self) -> None:
        self._states: dict[Operation, State] = {}

    def verify(self, module: ModuleOp) -> None:
        """Raise VerifyException for the first changed operation that is not valid."""
        states: dict[Operation, State] = {}
        self._visit(module, states)
        self._states = states

    def _visit(self, operation: Operation, states: dict[Operation, State]) -> bool:
        """Verify an operation if it, or an operation in its regions, has changed; return True if it has."""
        state = _state(operation)
        changed = self._states.get(operation) != state
        for region in operation.regions:
            for block in region.blocks:
                for child in block.ops:
                    changed |= self._visit(child, states)
        if changed:
            operation.verify(verify_nested_ops=False)
        states[operation] = state
        return changed


def _state(operation: Operation) -> State:
    """Return copies of the parts that are compared between passes; later changes do not touch them."""
    operands, results = tuple(operation.operands), operation.results
    blocks = [block for region in operation.regions for block in region.blocks]
    return (
        operation.parent,
        operands,
        [value.type for value in operands],
        [(result.type, result.first_use is None) for result in results],
        operation.attributes.copy(),
        operation.properties.copy(),
        operation.successors[:],
        [(block, [argument.type for argument in block.args], *block.ops) for block in blocks],
    )
