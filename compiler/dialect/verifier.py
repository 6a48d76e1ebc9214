"""Verification of a module between passes: each pass changes little, so only what changed is looked at."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

State = tuple[object, ...]


class Verifier:
    """Verifies a module again and again.

    An operation is verified when it is new, or when anything has changed since that verifiers of the dialect
    look at: where it stands, its operands, types and attributes, whether its results are used, and all of
    what its regions hold.
    """

    def __init__(self) -> None:
        self._states: dict[Operation, State] = {}

    def verify(self, module: ModuleOp) -> None:
        """VerifyException for the first changed operation that is not valid."""
        states: dict[Operation, State] = {}
        self._visit(module, states)
        self._states = states

    def _visit(self, operation: Operation, states: dict[Operation, State]) -> bool:
        """Whether an operation has changed, itself or in its regions; it is valid then."""
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
    """What is compared; it stays as it is when the operation changes."""
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
