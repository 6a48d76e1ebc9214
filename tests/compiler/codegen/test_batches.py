"""Batches of engine instructions begin at whole lines; batches of a dense block do so only by chance."""

from __future__ import annotations

import math
import random

import pytest

from compiler.codegen.expr import Value, Variable
from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.codegen.tree import Spaced, syntax_of
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place

_FORMATS = (Format.FP16, Format.BF16, Format.FP32)
_CHANNELS = (4, 8, 12, 32, 64, 65, 128)


def is_dense(fmt: Format, *shape: int) -> bool:
    """Return True if the batches of an aligned tensor follow each other without a gap."""
    placed = place(fmt, shape, Layout.NCX)
    return shape[0] == 1 or placed.batch_stride == placed.used_bytes


def is_taken(mnemonic: str, /, **arguments: Argument) -> bool:
    """Return True if code is written for an instruction."""
    try:
        syntax_of(mnemonic).check(arguments)
    except ValueError as error:
        assert "bytes between batches" in str(error)
        return False
    return True


@pytest.mark.parametrize("part", range(4))
def test_reductions_take_batches_of_whole_lines(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        _reduction(random.Random(seed))


def _reduction(chosen: random.Random) -> None:
    fmt, n = chosen.choice(_FORMATS), chosen.choice((1, 2, 3))
    h, w, c = chosen.randint(1, 5), chosen.randint(1, 5), chosen.choice(_CHANNELS)
    dims = chosen.choice(("h", "w", "c", "hw"))
    reduced = {"h": (1, w, c), "w": (h, 1, c), "c": (h, w, 1), "hw": (1, 1, c)}[dims]
    wanted = is_dense(fmt, n, h, w, c) and is_dense(fmt, n, *reduced)
    arguments: dict[str, Argument] = {"dst": 0, "src0": 4096, "dims": dims}
    name = f"ct.reduce.max.{fmt.token}"
    assert is_taken(name, shape=[n, h, w, c], **arguments) == wanted
    assert is_taken(name, shape=[Spaced(n), h, w, c], **arguments)


@pytest.mark.parametrize("part", range(4))
def test_products_take_batches_of_whole_lines(part: int) -> None:
    """Operands, result and initial sums, each in its own format and order."""
    for seed in range(100 * part, 100 * part + 100):
        _product(random.Random(seed))


def _product(chosen: random.Random) -> None:
    fmt, out, sums = (chosen.choice(_FORMATS) for _ in range(3))
    fmt = fmt if fmt is not Format.FP32 else Format.TF32
    out = out if out is Format.FP32 else fmt
    lb, rb = chosen.choice(((1, 1), (1, 3), (3, 1), (2, 2)))
    m, k, n = (chosen.choice((1, 2, 4, 16, 64)) for _ in range(3))
    lt, rt, with_sums = (chosen.randrange(2) for _ in range(3))
    batches = max(lb, rb)
    wanted = (
        is_dense(fmt, lb, *((k, m) if lt else (m, k)))
        and is_dense(fmt, rb, *((k, n) if rt else (n, k)))
        and is_dense(out, batches, m, n)
        and (not with_sums or is_dense(sums, batches, m, n))
    )
    arguments: dict[str, Argument] = {"a": 0, "b": 0, "out": 0, "m": m, "k": k, "n": n, "lt": lt, "rt": rt}
    if out is not fmt:
        arguments["out_format"] = out.token
    if with_sums:
        arguments |= {"psum": 0, "psum_format": sums.token}
    assert is_taken(f"ne.gemm.{fmt.token}", lb=lb, rb=rb, **arguments) == wanted
    if with_sums and sums is Format.FP32:  # the default
        del arguments["psum_format"]
        assert is_taken(f"ne.gemm.{fmt.token}", lb=lb, rb=rb, **arguments) == wanted


def test_compact_tensors_have_no_lines() -> None:
    assert is_taken("td.transpose.fp16", dst=0, src0=4096, shape=[3, 5, 7, 3], dst_shape=[3, 7, 5, 3])
    assert not is_taken("td.channelnorm.fp16", dst=0, src0=4096, shape=[3, 5, 7, 3], dst_shape=[3, 5, 7, 3])


def test_what_is_not_known_when_compiling_is_no_batch() -> None:
    count = Variable("t0", 1, 8)
    arguments: dict[str, Argument] = {"dst": 0, "src0": 0, "dims": "h"}
    shapes: tuple[list[Value], ...] = ([count, 4, 1, 64], [2, count, 1, 64])
    for shape in shapes:
        with pytest.raises(ValueError, match=r"^ct\.reduce\.sum: operand shape of batches is not known$"):
            syntax_of("ct.reduce.sum.fp32").check({**arguments, "shape": shape})
    assert is_taken("ct.reduce.sum.fp32", shape=[1, count, 1, 64], **arguments)


def test_code_with_gaps_is_not_written() -> None:
    kernel = Kernel("k", Target(1, 1 << 20, Format.FP32, load_machine()), 1 << 20)
    size = math.prod((2, 2, 4)) * 4
    data, largest = kernel.buffer("data", size), kernel.buffer("largest", size)
    with pytest.raises(ValueError) as error:
        kernel.emit("ct.reduce.max.fp32", dst=largest, src0=data, shape=[2, 2, 1, 4], dims="h")
    wanted = "operand dst: 240 bytes between batches, but dense blocks have none"
    assert str(error.value) == f"ct.reduce.max: {wanted}"
    assert kernel.out.count == 0
