"""Turns early returns, which are branches between blocks, into conditions with regions.

Triton prints an early return as ``cf.cond_br %c, ^bb1, ^bb2`` at the end of a block. Each of the two blocks
leads to a return of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .operations import Block, TtirError, TtirOperation

_BRANCHES = ("cf.br", "cf.cond_br")
_RETURN = "tt.return"


@dataclass(frozen=True)
class _Structure:
    """The blocks of a function by their labels; ``seen`` are the blocks already part of the result."""

    blocks: Mapping[str, Block]
    seen: set[str]

    def operations(self, label: str, branch: TtirOperation) -> tuple[TtirOperation, ...]:
        """Return the operations from a block to its return.

        TtirError for a block that several others branch to.
        """
        block = self.blocks.get(label)
        if block is not None and not block.parameters and _only_returns(block):
            return ()
        if block is None or block.parameters or label in self.seen:
            what = f"{branch.name}: branches to a block in which several go on, or with values"
            raise TtirError(f"{branch.location}: {what}, are not supported; let each branch return")
        self.seen.add(label)
        return self.ended(block.operations)

    def ended(self, operations: tuple[TtirOperation, ...]) -> tuple[TtirOperation, ...]:
        """Return operations whose last one may be a branch, with the branch replaced."""
        *before, last = operations
        if last.name not in _BRANCHES:
            return operations
        if last.name == "cf.br":
            return (*before, *self.operations(last.words[0], last))
        condition, *values = last.operands
        end = replace(last, name="scf.yield", operands=(), words=(), regions=())
        branches = [self.operations(label, last) for label in last.words[-2:]]
        if values:
            raise TtirError(f"{last.location}: {last.name}: branches with values are not supported")
        regions = tuple(Block((), (*each, end)) for each in branches)
        return (*before, replace(last, name="scf.if", operands=(condition,), words=(), regions=regions))


def _only_returns(block: Block) -> bool:
    return [each.name for each in block.operations] == [_RETURN]


def structured(blocks: Mapping[str, Block]) -> Block:
    """Join the blocks of a function into one, beginning with the first; TtirError as above."""
    first = next(iter(blocks.values()))
    return Block(first.parameters, _Structure(blocks, set()).ended(first.operations))
