"""The frames of control flow: what chooses a graph, or executes one again, around the code of these graphs.

Every tile reads the condition when all tiles have met, so all of them take the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.lowering.record import EVERY_TYPE, Work, always, lowering


def place_of_body(prefix: str, number: int) -> str:
    """The line of a frame where the code of one of its graphs belongs."""
    return f"        # body {number} of {prefix}"


@lowering("If", types=EVERY_TYPE, on_core=always)
def _if(kernel: Kernel, work: Work) -> None:
    other, end = f"{kernel.prefix}.else", f"{kernel.prefix}.endif"
    with _if_true(kernel, work, other):
        kernel.out.lines.append(place_of_body(kernel.prefix, 0))
        _jump(kernel, end)
    kernel.out.label(other)
    kernel.out.lines.append(place_of_body(kernel.prefix, 1))
    kernel.out.label(end)


@lowering("Loop", types=EVERY_TYPE, on_core=always, prefetch=True)
def _loop(kernel: Kernel, work: Work) -> None:
    begin, end = f"{kernel.prefix}.again", f"{kernel.prefix}.done"
    kernel.out.label(begin)
    kernel.synchronize()
    with _if_true(kernel, work, end):
        kernel.out.lines.append(place_of_body(kernel.prefix, 0))
        _jump(kernel, begin)
    kernel.out.label(end)


@contextmanager
def _if_true(kernel: Kernel, work: Work, otherwise: str) -> Iterator[None]:
    """The code of the body runs if the condition of the work holds; else the tile goes on at a label."""
    core = ScalarCode(kernel)
    with kernel.registers.scope():
        kernel.out.instruction("bnez", core.load(work.input(0), 0), "1f")
    _jump(kernel, otherwise)
    kernel.out.label("1")
    yield


def _jump(kernel: Kernel, label: str) -> None:
    """Go on at a label at any distance: a graph can have more code than a branch or a jump reaches."""
    with kernel.registers.scope():
        register = kernel.registers.take()
        kernel.out.instruction("la", register, label)
        kernel.out.instruction("jr", register)
