"""Conditions of the kernel core around engine instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.codegen.expr import Value, Variable, bounds
from compiler.codegen.spm import InstructionSpan
from compiler.codegen.tree import STEP_OF_CONDITION, Loop
from compiler.evaluation.sizes import always

from .branches import exit_unless, shorten_exit
from .writer import CodeWriter


@contextmanager
def if_below(code: CodeWriter, index: Value, below: Value) -> Iterator[None]:
    """Run the body if ``index`` < ``below``; without a branch where that is known."""
    registers = code.registers
    is_below = registers.forms.is_below(index, below)
    if is_below or always(bounds(index)[1] < bounds(below)[0]):
        with registers.scope():
            yield
        return
    number, recorded = len(code.spm.loops), code.spm.recorded
    code.spm.loops.append(InstructionSpan(code.count))
    end = f"{code.prefix}.end{number}"
    code.begin_item()
    line = code.out.count
    with registers.scope():
        kept, limit = registers.keep(index, once=True), registers.keep(below, once=True)
        branch = exit_unless(registers, kept, limit, end)
        skipped = registers.state()
        variable = kept if isinstance(kept, Variable) else Variable("", *bounds(index))
        condition = Loop(variable, index, below, STEP_OF_CONDITION, line)
        with inside(code, condition, number, code.parity):
            yield
        registers.join(end, skipped)
        shorten_exit(registers, branch, end, is_reached=is_below is not False)
    if is_below is False:  # its lines are gone, so nothing uses its buffers
        del code.body[-1]
        code.spm.forget_since(recorded)
    code.spm.loops[number].last = code.count - 1


@contextmanager
def inside(code: CodeWriter, item: Loop, number: int, parity: Variable | None) -> Iterator[None]:
    """The body of a loop or condition, with a scope of its own for buffers and registers."""
    outside = code.scope, code.body, code.parity
    code.body.append(item)
    code.scope, code.body, code.parity = (*code.scope, number), item.body, parity
    code.registers.depth += not item.condition
    with code.registers.scope():
        yield
    code.registers.depth -= not item.condition
    code.scope, code.body, code.parity = outside
