"""Elements of blocks in the scratchpad at computed places, and conditions that must hold."""

from __future__ import annotations

from compiler.codegen.expr import Value, Variable
from compiler.frontend.triton.kernels.engines.blocks import strides_of
from compiler.frontend.triton.kernels.values import KernelValue, SpmBlock, range_of, varies

from .compute import CoreCode
from .elements import LOADS, STORES, CoreLoop, loops_of, owned
from .messages import SIGNED, MessageCode, shown


class PickCode:
    """Writes code of the core that picks elements of blocks."""

    def __init__(self, core: CoreCode, messages: MessageCode) -> None:
        self.core, self.kernel, self.messages = core, core.kernel, messages

    def gather(self, data: SpmBlock, index: SpmBlock, axis: int, made: SpmBlock) -> None:
        """made[..., i, ...] = data[..., index[..., i, ...], ...]; the program stops at an index outside."""
        self.core.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [data, index, made])
            with loop.over(loops_of(made.shape, made.stored)) as place, loop.at(place, [index]) as (where,):
                self._within(where, data.shape[axis])
                at: Value = loop.bases[id(data)]
                for number, step in enumerate(strides_of(data.shape)):
                    chosen = Variable(where, 0, data.shape[axis] - 1) if number == axis else place[number]
                    at = at + chosen * (step * data.size)
                register = owned(self.kernel, at)
                loop.code.emit(LOADS[data.fmt.bits], register, f"0({register})")
                loop.code.emit(STORES[made.fmt.bits], register, f"0({loop.address(made, place)})")
        self.core.end()
        self.core.alive([data, index, made])

    def _within(self, register: str, extent: int) -> None:
        """Stop the program unless an index is in its axis."""
        with self.kernel.registers.scope():
            bound = self.kernel.registers.take()
            self.kernel.out.instruction("li", bound, str(extent))
            self.kernel.out.instruction("bltu", register, bound, "1f")
            self.kernel.registers.release(bound)
            number = Variable(register, *range_of("i64"))
            self.messages.stop(f"index {SIGNED} of an axis of {extent}", [number])
            self.kernel.out.label("1")

    def count(self, numbers: SpmBlock, chosen: KernelValue, counts: SpmBlock) -> None:
        """Add 1 to the count of each chosen number that has a count."""
        (ready,) = self.core.prepared([chosen])
        self.core.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [numbers, ready, counts])
            limits = loops_of(numbers.shape, numbers.stored)
            with loop.over(limits) as place, loop.at(place, [numbers, ready]) as (number, holds):
                extent = counts.shape[0]
                with self.kernel.if_below(0, Variable(holds, 0, 1)):
                    bins = Variable(number, *range_of(numbers.element))
                    with self.kernel.if_below(bins, extent), self.kernel.if_below(-1, bins):
                        at = loop.address(counts, (Variable(number, 0, extent - 1),))
                        before = self.kernel.registers.take()
                        loop.code.emit(LOADS[counts.fmt.bits], before, f"0({at})")
                        loop.code.emit("addi", before, before, "1")
                        loop.code.emit(STORES[counts.fmt.bits], before, f"0({at})")
        self.core.end()
        self.core.alive([numbers, ready, counts])

    def require(self, condition: KernelValue, message: str) -> None:
        """Stop the program with a message unless a condition holds for all elements."""
        (ready,) = self.core.prepared([condition])
        self.core.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [ready])
            limits = loops_of(ready.shape, varies(ready))
            with loop.over(limits) as place, loop.at(place, [ready]) as (holds,):
                loop.code.emit("bnez", holds, "1f")
                self.messages.stop(f"assertion failed: {shown(message)}", [], place)
                loop.code.out.label("1")
        self.core.alive([ready])

    def show(self, value: KernelValue, text: str, format: str) -> None:
        """Write a line for each element, in row-major order; floats are in FP32."""
        (ready,) = self.core.prepared([value])
        self.core.begin()
        with self.kernel.registers.scope():
            loop = CoreLoop(self.kernel, [ready])
            limits = loops_of(ready.shape, (True,) * len(ready.shape))
            with loop.over(limits) as place, loop.at(place, [ready]) as (number,):
                element = Variable(number, *range_of("i64"))
                self.messages.say(text, [element], place, format)
        self.core.alive([ready])
