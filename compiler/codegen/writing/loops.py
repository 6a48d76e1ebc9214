"""Loops of the kernel core around engine instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.codegen.expr import Value, bounds, highest
from compiler.codegen.spm import InstructionSpan
from compiler.codegen.tree import Loop
from compiler.evaluation.sizes import always
from tx8isa.numbers.division import ceil_div

from .ahead import LoopCode, load_ahead
from .branches import exit_unless, shorten_exit, shorten_turn
from .conditions import inside
from .writer import CodeWriter


@contextmanager
def loop(code: CodeWriter, count: Value, start: Value, step: int) -> Iterator[Value]:
    """Run the body for each value from ``start`` to ``count`` - 1; a single value needs no loop."""
    registers = code.registers
    count = registers.forms.settled(count)
    if always(count == 1) and always(start == 0):
        with registers.scope():
            yield 0
        return
    number = len(code.spm.loops)
    begin, end = f"{code.prefix}.loop{number}", f"{code.prefix}.end{number}"
    code.begin_item()
    line = code.out.count
    with registers.scope():
        index = registers.counter(start, bounds(start)[0], highest(count) - 1)
        limit = registers.keep(count)
        parity = code.turns.variable(number, ceil_div(highest(count) - bounds(start)[0], step))
        code.loop_variables |= {index, *(() if parity is None else (parity,))}
        code.spm.loops.append(InstructionSpan(code.count))
        runs = registers.forms.is_below(start, count) or always(bounds(start)[1] < bounds(count)[0])
        first = None if runs else exit_unless(registers, index, limit, end)
        found = LoopCode(Loop(index, start, count, step, line, parity), number, limit, code.body, code.place)
        registers.label_of_loop(begin)
        with inside(code, found.loop, number, parity):
            found.inside = code.place
            yield index
        load_ahead(code, found)
        code.turns.change(parity)
        registers.add(index, step)
        last = exit_unless(registers, index, limit, end)
        code.out.instruction("j", begin)
        registers.label_of_loop(end)
        shorten_turn(registers, last, begin, line)
        shorten_exit(registers, first, end)
        found.loop.core += code.instructions_since()
    code.spm.loops[number].last = code.count - 1
