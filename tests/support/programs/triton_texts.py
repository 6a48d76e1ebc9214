"""Texts of TTIR for operations on whole arrays of any shape, and their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import emulator
from triton_launches import Array, compiled, travelling

ELEMENTS = {
    **{"float16": "f16", "bfloat16": "bf16", "float32": "f32"},
    **{"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"},
}
"""Elements of TTIR by the types of arrays."""


def element_of(array: Array) -> str:
    """The element of TTIR that an array has."""
    return ELEMENTS[array.dtype.name]


def kind(shape: Sequence[int], element: str) -> str:
    """The type of a block; a number has no axes."""
    return f"tensor<{'x'.join(map(str, shape))}x{element}>" if shape else element


def places(name: str, count: int, element: str) -> str:
    """%NAMEat: pointers to the first ``count`` elements of an argument."""
    block, pointers = f"tensor<{count}xi32>", f"tensor<{count}x!tt.ptr<{element}>>"
    return (
        f"    %{name}i = tt.make_range {{end = {count} : i32, start = 0 : i32}} : {block}\n"
        f"    %{name}p = tt.splat %{name} : !tt.ptr<{element}> -> {pointers}\n"
        f"    %{name}at = tt.addptr %{name}p, %{name}i : {pointers}, {block}\n"
    )


def strided(name: str, shape: Sequence[int], steps: Sequence[int], element: str, first: int = 0) -> str:
    """%NAMEat: pointers to a block of an argument with steps between the indices of each axis."""
    block, pointers = kind(shape, "i32"), kind(shape, f"!tt.ptr<{element}>")
    text = f"    %{name}s = arith.constant dense<{first}> : {block}\n"
    total = f"%{name}s"
    for axis, (extent, step) in enumerate(zip(shape, steps, strict=True)):
        line, own = kind((extent,), "i32"), f"{name}{axis}"
        one = kind([extent if at == axis else 1 for at in range(len(shape))], "i32")
        text += (
            f"    %{own}r = tt.make_range {{end = {extent} : i32, start = 0 : i32}} : {line}\n"
            f"    %{own}s = arith.constant dense<{step}> : {line}\n"
            f"    %{own}m = arith.muli %{own}r, %{own}s : {line}\n"
            f"    %{own}e = tt.reshape %{own}m : {line} -> {one}\n"
            f"    %{own}b = tt.broadcast %{own}e : {one} -> {block}\n"
            f"    %{own}t = arith.addi {total}, %{own}b : {block}\n"
        )
        total = f"%{own}t"
    return (
        f"{text}    %{name}p = tt.splat %{name} : !tt.ptr<{element}> -> {pointers}\n"
        f"    %{name}at = tt.addptr %{name}p, {total} : {pointers}, {block}\n"
    )


def loaded(name: str, array: Array) -> str:
    """%NAMEv: all elements of an array, as a block of its shape."""
    element = element_of(array)
    flat, shaped = kind((array.size,), element), kind(array.shape, element)
    return (
        f"{places(name, array.size, element)}"
        f"    %{name}f = tt.load %{name}at : {kind((array.size,), f'!tt.ptr<{element}>')}\n"
        f"    %{name}v = tt.reshape %{name}f : {flat} -> {shaped}\n"
    )


def stored(name: str, value: str, array: Array) -> str:
    """Stores a block of the shape of an array in it."""
    element, pointers = element_of(array), kind((array.size,), f"!tt.ptr<{element_of(array)}>")
    if not array.shape:
        return f"    tt.store %{name}, %{value} : !tt.ptr<{element}>\n"
    shaped, flat = kind(array.shape, element), kind((array.size,), element)
    return (
        f"{places(name, array.size, element)}"
        f"    %{name}f = tt.reshape %{value} : {shaped} -> {flat}\n"
        f"    tt.store %{name}at, %{name}f : {pointers}\n"
    )


def reduction(name: str, result: str, axis: int, values: Mapping[str, Array], function: str) -> str:
    """A tt.reduce or tt.scan (``name``) of blocks by their names; ``function`` combines %p0.. and %q0.."""
    elements = [element_of(array) for array in values.values()]
    shapes = [array.shape[:axis] + array.shape[axis + 1 :] for array in values.values()]
    if name == "tt.scan":
        shapes = [array.shape for array in values.values()]
    given = [kind(array.shape, element_of(array)) for array in values.values()]
    found = [kind(shape, element) for shape, element in zip(shapes, elements, strict=True)]
    parameters = [f"%{side}{at}: {element}" for side in "pq" for at, element in enumerate(elements)]
    operands = ", ".join(f"%{each}" for each in values)
    reverse = ", reverse = false" if name == "tt.scan" else ""
    types = f"({', '.join(found)})" if len(found) > 1 else found[0]
    return (
        f'    %{result} = "{name}"({operands}) <{{axis = {axis} : i32{reverse}}}> ({{\n'
        f"    ^bb0({', '.join(parameters)}):\n{function}"
        f"    }}) : ({', '.join(given)}) -> {types}\n"
    )


def results(
    lines: str, stores: Mapping[str, str], outputs: Mapping[str, Array], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Run ``lines`` on the inputs, blocks %NAMEv; ``stores`` has the value of each output."""
    text = "".join(loaded(name, array) for name, array in inputs.items()) + lines
    text += "".join(stored(name, stores[name], array) for name, array in outputs.items())
    return outcome(text, {**inputs, **outputs})


def outcome(
    text: str, arguments: Mapping[str, Any], grid: tuple[int, int, int] = (1, 1, 1)
) -> dict[str, Array]:
    """The arrays to which a kernel stores; arguments that are numbers are of i32.

    Assert that the run has no hazard, and gives the same bytes where engines write the rest of each line.
    """
    program = compiled(text, _parameters(arguments), grid, **arguments)
    once = emulator.Program(program.image, program.machine)
    feeds = travelling(_arrays(arguments), once)
    found: dict[str, Array] = dict(once.run(feeds, strict=True))
    assert once.hazards == ()
    again = once.run(feeds, write_span="hostile")
    for name, array in found.items():
        assert array.tobytes() == again[name].tobytes(), name
    return found


def result(lines: str, value: str, like: Array, **inputs: Array) -> Array:
    """The only result, of the shape and type of an array."""
    return results(lines, {"out": value}, {"out": np.full_like(like, 77)}, inputs)["out"]


def said(text: str, grid: tuple[int, int, int] = (1, 1, 1), **arguments: Any) -> str:
    """Return the fault that ends a kernel: the operation in the line that it names, and the message."""
    program = compiled(text, _parameters(arguments), grid, **arguments)
    loaded_program = emulator.Program(program.image, program.machine)
    with pytest.raises(emulator.Fault) as fault:
        loaded_program.run(travelling(_arrays(arguments), loaded_program))
    found = re.fullmatch(r"tile \d+ at 0x\w+ \(kernel\.ttir:(\d+)\): ebreak: (.*)", str(fault.value))
    assert found is not None, str(fault.value)
    words = text.splitlines()[int(found[1]) - 3].split()  # two lines are before the text
    return f"{words[2] if words[1] == '=' else words[0]}: {found[2]}"


def _arrays(arguments: Mapping[str, Any]) -> dict[str, Array]:
    return {name: each for name, each in arguments.items() if isinstance(each, np.ndarray)}


def _parameters(arguments: Mapping[str, Any]) -> list[str]:
    """The parameters of a kernel for arrays and numbers."""
    arrays = _arrays(arguments)
    kinds = {name: f"!tt.ptr<{element_of(arrays[name])}>" if name in arrays else "i32" for name in arguments}
    return [f"{name}: {each}" for name, each in kinds.items()]
