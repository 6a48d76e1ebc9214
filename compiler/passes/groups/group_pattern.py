"""Pass ``group_pattern``: every operation that needs code is put into a group, alone or as a pattern says.

A match begins at an anchor or a pointwise operator and follows the only user of each result. If two anchors
could take the same step, the later one does, because the result of the other is complete by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from compiler.dialect.ops import ControlOperation, TensorOperation
from compiler.passes.base import Context, computes, operations
from compiler.passes.patterns import Pattern, PatternTrie

from .grouping import Fusion, Members, group, is_anchor, sole_user

SINGLE = "single"
"""Tag of a group of one operation."""


class GroupPatternPass:
    """Wraps operations in groups."""

    name = "group_pattern"

    def run(self, context: Context, module: ModuleOp) -> None:
        found = [operation for operation in operations(module) if _needs_group(operation)]
        matcher = _Matcher(Fusion(context), context.patterns)
        if context.patterns is not None:
            for operation in reversed(found):
                if is_anchor(operation):
                    matcher.claim(operation)
            for operation in found:
                if not is_anchor(operation):
                    matcher.claim(operation)
        for operation in found:
            if operation not in matcher.taken:
                group([operation], SINGLE)
        for members, pattern in matcher.matches:
            group(members, pattern.tag)


def _needs_group(operation: TensorOperation) -> bool:
    """True if an operation needs a group; control flow does not, because its phases are inside."""
    return computes(operation) and not isinstance(operation, ControlOperation)


@dataclass
class _Matcher:
    fusion: Fusion
    patterns: PatternTrie | None
    matches: list[tuple[Members, Pattern]] = field(default_factory=list)
    taken: set[TensorOperation] = field(default_factory=set)

    def claim(self, first: TensorOperation) -> None:
        """Take the best match that begins at an operation, if there is one."""
        assert self.patterns is not None
        if first in self.taken:
            return
        found = [match for trie in self.patterns.after(first.op) for match in self._matches([first], trie)]
        if found:
            best = max(found, key=lambda match: (match[1].priority, len(match[0])))
            self.matches.append(best)
            self.taken |= set(best[0])

    def _matches(self, members: Members, trie: PatternTrie) -> list[tuple[Members, Pattern]]:
        """All patterns that begin with these members; ``trie`` has the patterns after them."""
        found = [(members, trie.pattern)] if trie.pattern is not None and len(members) > 1 else []
        following = sole_user(members[-1].results[0])
        if following is None or following in self.taken or not self._follows(members, following):
            return found
        for child in trie.after(following.op):
            found += self._matches([*members, following], child)
        return found

    def _follows(self, members: Members, following: TensorOperation) -> bool:
        if not _needs_group(following):
            return False
        if is_anchor(members[0]):
            return self.fusion.is_step(following, members[-1].results[0])
        return self.fusion.joins(members, [following])
