"""Kernels of the vector instructions: one body applied to packed elements.

Each kind of rounding has its own loop. Nearest even is done by the hardware. The directed modes begin with
that result and step to its neighbour if it is on the wrong side, also without branches. The stochastic mode
rounds by the definition, element after element, because the LFSR takes a step for each.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, any_store, directed_store, nearest_store, single_body
from emulator.kernels.shared.checked import body_events, watched
from emulator.kernels.shared.lfsr import random_bits, step
from emulator.kernels.shared.vectors import Element, Pass, loop, over_vectors
from emulator.memory.state import RANDOM, SIZE
from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format, Rounding, round_to_odd
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Elementwise, Form
from tx8isa.records.record import Instruction

Body = Callable[..., float]


def make_elementwise(instruction: Instruction, fmt: Format, nearest: bool, checked: bool) -> Kernel:
    """Make the kernel of a V, VV, VS, VuV or VuV_loop record; ``checked``: it records numeric exceptions."""
    meaning: Elementwise = instruction.meaning
    names = [operand.name for operand in instruction.operands]
    mode_at = names.index("rnd") if "rnd" in names else -1
    if checked:
        element = _wide(meaning, meaning.body, fmt) if nearest or mode_at < 0 else _any_mode(meaning, fmt)
        run = watched(element, body_events(meaning, fmt), fmt, meaning.form)
    elif meaning.usual is not None:
        run = _two_passes(meaning, fmt)
    elif nearest or mode_at < 0:
        run = loop(_nearest(meaning, fmt), fmt, meaning.form)
    else:
        run = _by_mode(meaning, fmt)
    return over_vectors(instruction, run, fmt, mode_at)


def _nearest(meaning: Elementwise, fmt: Format) -> Element:
    """Round to nearest even, without branches: in binary32 if the record allows it, otherwise in binary64."""
    load = ACCESS[fmt].load
    narrow = single_body(meaning.body) if meaning.single and fmt is not Format.TF32 else None
    if narrow is None:
        return _wide(meaning, meaning.body, fmt)
    body, store = narrow, ACCESS[fmt].store

    def unary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(load(a)))

    def binary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(load(a), load(b)))

    return unary if meaning.form is Form.V else binary


def _wide(meaning: Elementwise, body: Body, fmt: Format) -> Element:
    """Round to nearest even in binary64, for the body of a meaning or a part of it."""
    load, store = ACCESS[fmt].load, nearest_store(fmt, meaning.binary32)

    def unary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(float64(load(a))))

    def binary(a: int, b: int, mode: int, state: int) -> int:
        return store(body(float64(load(a)), float64(load(b))))

    return unary if meaning.form is Form.V else binary


def _two_passes(meaning: Elementwise, fmt: Format) -> Pass:
    """Compute every element by the usual branch-free form, then recompute the rare elements one by one."""
    usual, seldom = meaning.usual, meaning.seldom
    if usual is None:
        raise ValueError("the body has no usual part")
    fast, exact = loop(_wide(meaning, usual, fmt), fmt, Form.V), _wide(meaning, meaning.body, fmt)
    load, view = ACCESS[fmt].load, ACCESS[fmt].view

    def both(target: int, first: int, scalar: int, n: int, mode: int, state: int) -> None:
        fast(target, first, scalar, n, mode, state)
        to, of = view(target, n), view(first, n)
        found = 0
        for i in range(u64(n)):
            found += 1 if abs(load(s64(of[i]))) >= single(seldom) else 0
        if found > 0:
            for i in range(u64(n)):
                if abs(load(s64(of[i]))) >= single(seldom):
                    to[i] = exact(s64(of[i]), scalar, mode, state)

    return both


def _by_mode(meaning: Elementwise, fmt: Format) -> Pass:
    """Choose the loop by the mode in the operand, outside of the loop."""
    toward_zero, up, down = (loop(_directed(meaning, fmt, mode), fmt, meaning.form) for mode in (1, 2, 3))
    stochastic = loop(_any_mode(meaning, fmt), fmt, meaning.form)

    def run(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        if mode == 1:
            toward_zero(target, first, second, n, mode, state)
        elif mode == 2:
            up(target, first, second, n, mode, state)
        elif mode == 3:
            down(target, first, second, n, mode, state)
        else:
            stochastic(target, first, second, n, mode, state)

    return run


def _error(meaning: Elementwise) -> Callable[[float, float, float], float]:
    if meaning.error is None:
        raise ValueError("a vector instruction with rounding modes needs the error of its body")
    return meaning.error


def _directed(meaning: Elementwise, fmt: Format, mode: int) -> Element:
    """Round in one direction: from the binary64 result, which is moved to the odd neighbour if inexact."""
    body, error = meaning.body_in(mode), _error(meaning)
    load, store = ACCESS[fmt].load, directed_store(fmt, mode)

    def element(a: int, b: int, mode: int, state: int) -> int:
        x, y = float64(load(a)), float64(load(b))
        result = body(x, y)
        return store(round_to_odd(result, error(x, y, result)))

    return element


def _any_mode(meaning: Elementwise, fmt: Format) -> Element:
    """Round in any mode, by the definition, from the binary64 result and the sign of its error."""
    body, down, error = meaning.body, meaning.body_in(Rounding.RDN), _error(meaning)
    load, store = ACCESS[fmt].load, any_store(fmt)

    def element(a: int, b: int, mode: int, state: int) -> int:
        x, y = float64(load(a)), float64(load(b))
        result = down(x, y) if mode == 3 else body(x, y)
        random = 0
        if mode == 4:
            memory = view_i64(state, SIZE)
            memory[RANDOM] = step(memory[RANDOM])
            random = random_bits(memory[RANDOM])
        return store(round_to_odd(result, error(x, y, result)), mode, random)

    return element
