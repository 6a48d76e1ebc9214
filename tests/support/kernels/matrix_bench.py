"""A bench for instructions of the matrix engine: kernel and reference on equal memories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator import native
from emulator.kernels import is_compact
from emulator.kernels.ne import make_kernel
from emulator.kernels.ne import problem as word
from emulator.kernels.reference import execute
from emulator.memory import state
from emulator.memory.areas import SCRATCH_BYTES, anonymous
from kernel_bench import patterns
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.records.record import Operand
from tx8isa.table.encoding import argument_values, pack_lanes
from tx8isa.table.registry import by_mnemonic

Array = np.ndarray[Any, Any]
SWITCHES = {"psum": "inpsum_en", "bias": "bias_en", "scale_p": "scale_en", "scale_n": "scale_en"}
_scratch = anonymous(SCRATCH_BYTES)


def ordinary(fmt: Format, n: int, rng: np.random.Generator) -> Array:
    """Stored numbers of ordinary size, integers of all sizes."""
    if fmt in (Format.INT8, Format.INT16, Format.INT32):
        return rng.integers(0, 1 << fmt.bits, n, dtype=np.uint64).astype(f"u{fmt.bits // 8}")
    single = rng.normal(size=n).astype(np.float32)
    if fmt is Format.FP16:
        return single.astype(np.float16).view(np.uint16)
    word = single.view(np.uint32)
    return (word >> 16).astype(np.uint16) if fmt is Format.BF16 else word


def run_problem(
    kernel: int, problem: Array, a: Array, b: Array, out: Array, area: Array, psum: Array | None = None
) -> None:
    """Call the compiled kernel of a problem on operands, and on ``area`` as its working memory."""
    partial = out if psum is None else psum
    memories = {word.A: a, word.B: b, word.OUT: out, word.PSUM: partial, word.WORK: area}
    for position, memory in memories.items():
        problem[position] = memory.ctypes.data
    assert native.call(kernel, problem.ctypes.data) == 0


class Engine:
    """A scratchpad and one instruction on it; operands that are not addresses are given, shapes as lists.

    ``given`` names the optional address operands to use. All ranges, padding included, hold random numbers.
    """

    def __init__(
        self,
        mnemonic: str,
        fmt: Format,
        given: tuple[str, ...] = (),
        *,
        seed: int = 1,
        numbers: Any = ordinary,
        spm_bytes: int = 1 << 19,
        **operands: int | list[int],
    ) -> None:
        self.record, self.fmt = by_mnemonic()[mnemonic], fmt
        self.rng = np.random.default_rng(seed)
        self.spm = self.rng.integers(0, 256, spm_bytes).astype(np.uint8)
        self.values = {o.name: o.default if isinstance(o.default, int) else 0 for o in self.record.operands}
        self.values.update(format=int(fmt), out_format=int(fmt))
        if fmt is Format.INT8:
            self.values["psum_format"] = int(Format.INT32)
        for name, value in operands.items():
            self.values[name] = pack_lanes(value) if isinstance(value, list) else value
        self.values.update({SWITCHES[name]: 1 for name in given})
        at = 256
        for operand in self.record.operands:
            if operand.is_address and operand.name not in operands:
                self.values[operand.name] = at
                size = self.size(operand)
                at += (size + 511) // 256 * 256
                stored = self._format(operand)
                count = (size * 8 + stored.bits - 1) // stored.bits
                if operand.role == "read" and size:
                    self.write(operand.name, numbers(stored, count, self.rng))
        for name in SWITCHES:  # operands that are not given are 0, as the assembler makes them
            if name in self.values and name not in given and name not in operands:
                self.values[name] = 0
        assert at <= spm_bytes, at

    def _format(self, operand: Operand) -> Format:
        if operand.name == "psum":
            return Format(self.values["psum_format"])
        if operand.name == "bias":
            return Format.INT32 if self.fmt is Format.INT8 else Format.FP32
        if operand.name.startswith("scale"):
            return Format.INT16 if self.fmt is Format.INT8 else Format.FP32
        return self.fmt

    def fields(self) -> list[int]:
        return [self.values[o.name] for o in self.record.operands]

    def size(self, operand: Operand) -> int:
        assert operand.extent is not None
        return operand.extent.length(*argument_values(self.record, operand.extent.arguments, self.fields()))

    def broken_rules(self) -> list[str]:
        """Texts of the violated rules."""
        return [
            rule.text
            for rule in self.record.rules
            if not rule.holds(*argument_values(self.record, rule.arguments, self.fields()))
        ]

    def write(self, name: str, array: Array) -> None:
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.spm[self.values[name] : self.values[name] + data.size] = data

    def write_tensor(self, name: str, array: Array, fmt: Format, layout: Layout = Layout.NCX) -> None:
        """Write stored patterns into an aligned tensor; its padding is unchanged."""
        words = self.spm[self.values[name] :].view(f"u{fmt.bits // 8}")
        placement = place(fmt, array.shape, layout)
        for index in np.ndindex(*array.shape):
            words[placement.offset(index) * 8 // fmt.bits] = array[index]

    def read_tensor(
        self, name: str, shape: tuple[int, ...], fmt: Format, layout: Layout = Layout.NCX
    ) -> Array:
        """Stored patterns of an aligned tensor."""
        words = self.spm[self.values[name] :].view(f"u{fmt.bits // 8}")
        placement = place(fmt, shape, layout)
        flat = [words[placement.offset(index) * 8 // fmt.bits] for index in np.ndindex(*shape)]
        return np.array(flat).reshape(shape)

    def run(self, post: bool = False, compiled: bool = True, scratch_bytes: int = SCRATCH_BYTES) -> None:
        """Execute the kernel."""
        assert not self.broken_rules()
        assert _scratch is not None
        words, fields = np.zeros(state.SIZE, np.int64), np.array([*self.fields(), 0], np.int64)
        words[state.SPM], words[state.SPM_BYTES] = self.spm.ctypes.data, self.spm.size
        words[state.SCRATCH], words[state.SCRATCH_BYTES] = _scratch.ctypes.data, scratch_bytes
        kernel = make_kernel(self.record, self.fmt, post)
        if compiled:
            name = f"{self.record.mnemonic} {self.fmt.token}"
            address = native.compile_kernel(kernel, name, 2, compact=is_compact(self.record))
            assert native.call(address, fields.ctypes.data, words.ctypes.data) == 0
        else:
            with np.errstate(all="ignore"):
                assert kernel(fields.ctypes.data, words.ctypes.data) == 0

    def check(self, post: bool = False, **how: Any) -> None:
        """Assert that kernel and slow reference change the scratchpad alike."""
        expected = bytearray(self.spm.tobytes())
        execute(self.record, self.fmt, self.fields(), expected, bytearray(), ne_post=post)
        self.run(post, **how)
        wrong = np.flatnonzero(self.spm != np.frombuffer(expected, np.uint8))
        if wrong.size:
            out = self.values["out"]
            pytest.fail(
                f"{wrong.size} bytes differ, first at out + {int(wrong[0]) - out:#x}, last at out + "
                f"{int(wrong[-1]) - out:#x}; operands {self.values}"
            )


def any_numbers(fmt: Format, n: int, rng: np.random.Generator) -> Array:
    """Stored numbers of all kinds: subnormals, zeros, infinities, NaN."""
    return patterns(fmt, n, rng)


def forward_extent(size: int, before: int, after: int, k: int, d: int, s: int, cut: int) -> int:
    return (size + before + after - (k - 1) * d - 1) // s + 1 - cut


def window_operands(
    shape: list[int],
    o: int,
    k: tuple[int, int],
    s: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    unpad: tuple[int, int, int, int] = (0, 0, 0, 0),
    d: tuple[int, int] | None = None,
) -> dict[str, list[int]]:
    """Operands of a convolution; k, s and d are (along h, along w)."""
    dy, dx = d or (1, 1)
    oh = forward_extent(shape[1], pad[0], pad[1], k[0], dy, s[0], unpad[0] + unpad[1])
    ow = forward_extent(shape[2], pad[2], pad[3], k[1], dx, s[1], unpad[2] + unpad[3])
    operands = {
        "shape": shape,
        "dst_shape": [shape[0], oh, ow, o],
        "window": [k[1], k[0], s[1], s[0]],
        "pad": list(pad),
        "unpad": list(unpad),
    }
    return operands if d is None else {**operands, "dilation": [dx, dy]}
