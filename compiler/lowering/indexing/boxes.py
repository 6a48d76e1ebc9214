"""Non-maximum suppression: each tile has images and classes of its own, and a heap of their scores.

The arithmetic is that of onnxruntime in binary32, step by step, so the same boxes are selected.
"""

from __future__ import annotations

import numpy as np

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.lowering.movement.movement import convert_tensor
from compiler.lowering.pointwise.casts import fp32_scratch
from compiler.lowering.record import EVERY_TYPE, Work, always, lowering
from compiler.operators.record import Call
from compiler.operators.reductions.boxes import GRAIN
from tx8isa.numbers.division import round_up
from tx8isa.numbers.formats import Format

_OVERLAP, _LEAST, _HALF, _ZERO = "fa0", "fa1", "fa2", "fa7"
_OWN, _OTHER = ("fa3", "fa4", "fa5", "fa6"), ("ft0", "ft1", "ft2", "ft3")
"""Least and largest x, least and largest y, first of the box in question, then of a selected one."""


@lowering("SelectBoxes", types=EVERY_TYPE, on_core=always)
def select_boxes(kernel: Kernel, work: Work) -> None:
    """Scores above the threshold make a heap; its boxes are taken while the class has room."""
    boxes, scores = (_in_fp32(kernel, work.input(at)) for at in (0, 1))
    limits = [_in_fp32(kernel, work.input(at)) if work.has(at) else None for at in (3, 4)]
    kernel.ensure_synchronized()
    images, classes, count = scores.shape
    stride = round_up(count, GRAIN)
    keys = DdrTensor(
        kernel.scratch("heap", 8 * images * classes * stride).symbol, Format.INT64, (images * classes, stride)
    )
    core = ScalarCode(kernel)
    core.begin()
    with kernel.items(images * classes) as pair:
        image = kernel.let(pair // classes)
        selection = _Selection(core, work, (boxes, scores, keys), pair)
        selection.thresholds(work.spec, limits)
        selection.candidates()
        selection.order()
        selection.take(core.address(boxes, image * (4 * count)))
    core.publish()


def _in_fp32(kernel: Kernel, tensor: DdrTensor) -> DdrTensor:
    if tensor.fmt in (Format.FP32, Format.TF32):
        return tensor
    single = fp32_scratch(kernel, tensor)
    convert_tensor(kernel, tensor, single)
    return single


class _Selection:
    """The code for one image and class; values are in registers to its end."""

    def __init__(
        self, core: ScalarCode, work: Work, tensors: tuple[DdrTensor, DdrTensor, DdrTensor], pair: Value
    ) -> None:
        self.core, self.work, self.prefix = core, work, core.kernel.prefix
        _, scores, keys = tensors
        self.boxes = scores.shape[2]
        self.scores = core.address(scores, pair * self.boxes)
        self.heap = core.address(keys, pair * keys.shape[1])
        self.row = core.address(work.output, pair * work.output.shape[1])
        self.size = core.number(0)
        self.has_least = False

    def label(self, name: str) -> None:
        self.core.kernel.out.label(f"{self.prefix}.{name}")

    def jump(self, name: str, mnemonic: str = "j", *registers: str) -> None:
        self.core.emit(mnemonic, *registers, f"{self.prefix}.{name}")

    def thresholds(self, call: Call, given: list[DdrTensor | None]) -> None:
        """Load the thresholds, and the constants of the arithmetic."""
        core = self.core
        known = call.number("overlap"), call.attrs.get("score")
        self.has_least = given[1] is not None or known[1] is not None
        for register, tensor, value in zip((_OVERLAP, _LEAST), given, known, strict=True):
            with core.kernel.registers.scope():
                if tensor is not None:
                    core.emit("fmv.w.x", register, core.load(tensor, 0))
                elif value is not None:
                    core.emit("fmv.w.x", register, core.number(_bits(float(str(value)))))
        with core.kernel.registers.scope():
            core.emit("fmv.w.x", _HALF, core.number(_bits(0.5)))
            core.emit("fmv.w.x", _ZERO, "zero")

    def candidates(self) -> None:
        """Write keys of boxes whose scores exceed the threshold; of equal scores, the later box has the
        smaller key."""
        core = self.core
        with core.kernel.registers.scope():
            box, key, low = core.number(0), core.register(), core.register()
            end = core.load(self.work.input(5), 0) if self.work.has(5) else core.number(self.boxes)
            flip = core.number((1 << 31) - 1)
            self.label("score")
            self.jump("scored", "bge", box, end)
            core.emit("flw", "ft0", f"0({self.scores})")
            if self.has_least:
                core.emit("flt.s", key, _LEAST, "ft0")
                self.jump("below", "beqz", key)
            core.emit("fadd.s", "ft0", "ft0", _ZERO)  # both zeros are equal
            core.emit("fmv.x.w", key, "ft0")
            core.emit("bgez", key, "1f")
            core.emit("xor", key, key, flip)
            core.kernel.out.label("1")
            core.emit("slli", key, key, "32")
            self._complement(low, box)
            core.emit("or", key, key, low)
            self._place(low, self.size)
            core.emit("sd", key, f"0({low})")
            core.emit("addi", self.size, self.size, "1")
            self.label("below")
            core.emit("addi", box, box, "1")
            core.emit("addi", self.scores, self.scores, "4")
            self.jump("score")
            self.label("scored")

    def _complement(self, target: str, source: str) -> None:
        """Complement the low 32 bits, and clear the others."""
        self.core.emit("not", target, source)
        self.core.emit("slli", target, target, "32")
        self.core.emit("srli", target, target, "32")

    def _place(self, target: str, number: str) -> None:
        """The address of a key of the heap."""
        self.core.emit("slli", target, number, "3")
        self.core.emit("add", target, target, self.heap)

    def order(self) -> None:
        """Make a heap of the keys, the largest first."""
        core = self.core
        with core.kernel.registers.scope():
            parent, place, key = core.register(), core.register(), core.register()
            core.emit("srli", parent, self.size, "1")
            self.label("order")
            core.emit("addi", parent, parent, "-1")
            self.jump("ordered", "bltz", parent)
            core.emit("mv", place, parent)
            self._place(key, place)
            core.emit("ld", key, f"0({key})")
            self._sink(place, key, "order")
            self.jump("order")
            self.label("ordered")

    def _sink(self, place: str, key: str, title: str) -> None:
        """Put a key into the heap at a place, or below it; ``title`` is part of the labels."""
        core = self.core
        with core.kernel.registers.scope():
            child, at, larger, other = (core.register() for _ in range(4))
            self.label(f"{title}_sink")
            core.emit("slli", child, place, "1")
            core.emit("addi", child, child, "1")
            self.jump(f"{title}_sunk", "bge", child, self.size)
            self._place(at, child)
            core.emit("ld", larger, f"0({at})")
            core.emit("addi", other, child, "1")
            self.jump(f"{title}_child", "bge", other, self.size)
            core.emit("ld", at, f"8({at})")
            self.jump(f"{title}_child", "bge", larger, at)
            core.emit("mv", larger, at)
            core.emit("mv", child, other)
            self.label(f"{title}_child")
            self.jump(f"{title}_sunk", "bge", key, larger)
            self._place(at, place)
            core.emit("sd", larger, f"0({at})")
            core.emit("mv", place, child)
            self.jump(f"{title}_sink")
            self.label(f"{title}_sunk")
            self._place(at, place)
            core.emit("sd", key, f"0({at})")

    def take(self, boxes: str) -> None:
        """Take the boxes of the largest keys that do not overlap with those taken before."""
        core = self.core
        with core.kernel.registers.scope():
            count, limit, top = core.number(0), self._limit(), core.register()
            place, key, at = core.register(), core.register(), core.register()
            self.label("take")
            self.jump("full", "beqz", self.size)
            self.jump("full", "bge", count, limit)
            core.emit("ld", top, f"0({self.heap})")
            core.emit("addi", self.size, self.size, "-1")
            self._place(key, self.size)
            core.emit("ld", key, f"0({key})")
            core.emit("li", place, "0")
            self._sink(place, key, "take")
            self._complement(top, top)
            self._corners(_OWN, boxes, top)
            core.emit("slli", key, count, "3")
            core.emit("add", key, key, self.row)
            core.emit("mv", at, self.row)
            self.label("compare")
            self.jump("select", "bge", at, key)
            core.emit("ld", place, f"8({at})")
            core.emit("addi", at, at, "8")
            self._corners(_OTHER, boxes, place)
            self._go_unless_overlapping("compare", place)
            self.jump("take")
            self.label("select")
            core.emit("sd", top, f"8({key})")
            core.emit("addi", count, count, "1")
            self.jump("take")
            self.label("full")
            self._finish(count)

    def _limit(self) -> str:
        """A register with the most boxes of this class."""
        core = self.core
        limit = core.number(self.work.spec.integer("room"))
        if self.work.has(2):
            with core.kernel.registers.scope():
                most = core.load(self.work.input(2), 0)
                core.emit("bge", most, limit, "1f")
                core.emit("mv", limit, most)
                core.kernel.out.label("1")
        return limit

    def _corners(self, registers: tuple[str, str, str, str], boxes: str, number: str) -> None:
        """Load the box of a number."""
        core, (x0, x1, y0, y1) = self.core, registers
        with core.kernel.registers.scope():
            box = core.register()
            core.emit("slli", box, number, "4")
            core.emit("add", box, box, boxes)
            for at, register in enumerate(("ft4", "ft5", "ft6", "ft7")):
                core.emit("flw", register, f"{4 * at}({box})")
        if self.work.spec.integer("center_point_box"):
            for size, middle, low, high in (("ft6", "ft4", x0, x1), ("ft7", "ft5", y0, y1)):
                core.emit("fmul.s", size, size, _HALF)
                core.emit("fsub.s", low, middle, size)
                core.emit("fadd.s", high, middle, size)
            return
        for one, other, low, high in (("ft5", "ft7", x0, x1), ("ft4", "ft6", y0, y1)):
            core.emit("fmin.s", low, one, other)
            core.emit("fmax.s", high, one, other)

    def _go_unless_overlapping(self, label: str, flag: str) -> None:
        """Go to a label unless the intersection is more than the threshold's part of the union."""
        core, sides = self.core, ("ft4", "ft5")
        for side, low, high in zip(sides, (0, 2), (1, 3), strict=True):
            core.emit("fmax.s", "ft6", _OWN[low], _OTHER[low])
            core.emit("fmin.s", "ft7", _OWN[high], _OTHER[high])
            core.emit("fle.s", flag, "ft7", "ft6")
            self.jump(label, "bnez", flag)
            core.emit("fsub.s", side, "ft7", "ft6")
        core.emit("fmul.s", "ft4", *sides)
        for area, box in (("ft5", _OWN), ("ft6", _OTHER)):
            core.emit("fsub.s", area, box[1], box[0])
            core.emit("fsub.s", "ft7", box[3], box[2])
            core.emit("fmul.s", area, area, "ft7")
        core.emit("fadd.s", "ft7", "ft5", "ft6")
        core.emit("fsub.s", "ft7", "ft7", "ft4")
        for size in ("ft4", "ft5", "ft6", "ft7"):
            core.emit("fle.s", flag, size, _ZERO)
            self.jump(label, "bnez", flag)
        core.emit("fdiv.s", "ft4", "ft4", "ft7")
        core.emit("flt.s", flag, _OVERLAP, "ft4")
        self.jump(label, "beqz", flag)

    def _finish(self, count: str) -> None:
        """Store the number of selected boxes, and zeros after the last one."""
        core = self.core
        core.emit("sd", count, f"0({self.row})")
        with core.kernel.registers.scope():
            place, end = core.register(), core.register()
            core.emit("slli", place, count, "3")
            core.emit("add", place, place, self.row)
            core.emit("li", end, str(8 * (self.work.output.shape[1] - 1)))
            core.emit("add", end, end, self.row)
            self.label("clear")
            self.jump("cleared", "bge", place, end)
            core.emit("sd", "zero", f"8({place})")
            core.emit("addi", place, place, "8")
            self.jump("clear")
            self.label("cleared")


def _bits(value: float) -> int:
    """The bits of an FP32 number, with their sign."""
    return int(np.float32(value).view(np.int32))
