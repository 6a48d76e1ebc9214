"""The engine records as numbers, with which compiled code decodes and checks an instruction.

The table is one int64 array. Record r starts at word ``r * HEADER``; rows of operands, ranges and rules
follow all headers, each ``ROW`` words. Extents and rules are functions of the records; compiled code calls
them by number through a chain of comparisons that is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from emulator.native.inline import Names
from emulator.native.primitives.memory import get
from tx8isa.machine.description import Machine
from tx8isa.records.meaning import Convolution, Direction
from tx8isa.records.operands import rule
from tx8isa.records.record import Engine, Extent, Instruction, Operand, Rule
from tx8isa.table.registry import instructions

if TYPE_CHECKING:
    from tx8isa.cost import instructions as cost

# Words of a record's header
ENGINE = 0  # its code
OPERANDS = 2
OPERAND_ROWS = 3  # the first row of its operands
RANGES = 4  # operands that are addresses
RANGE_ROWS = 5  # the first row of its ranges
RULES = 6
RULE_ROWS = 7  # the first row of its rules
SLOT = 8  # the first slot of its kernels
FORMAT = 9  # position of the operand ``format``, or -1
ROUNDING = 10  # position of the operand ``rnd``, or -1
RETURNS = 12  # 1 when it leaves results in the write-back registers
HEADER = 16

# Words of a row: an operand
O_WORDS = 0  # words of the text that hold it; 0: it is in the control word
O_AT = 1  # its lowest bit there
O_MASK = 2
O_LOW = 3  # smallest value
O_HIGH = 4  # largest value, -1: any
O_LANES = 5  # lanes of a packed operand
O_LANE_BOUNDS = 6  # smallest and largest value of each
O_SCALAR = 6  # without lanes: 1 when it is the bits of a scalar
O_CHOICES = 14  # bit v set: value v is legal; 0: no choices
O_ZERO_LANES = 15  # 1: all lanes zero is legal (an absent packed operand)
ROW = 16

# Words of a row: a range
R_OPERAND = 0  # position of the address operand
R_SPACE = 1  # SPM, DDR or ANY
R_WRITE = 2  # whether it is written
R_EXTENT = 3  # number of the extent function
R_ALIGN = 4  # argument word of the alignment, in bits
R_AGAIN = 5  # 1: the same extent as the row before, which depends on no address that issue changes
R_COUNT = 6  # arguments of the extent
R_ARGUMENTS = 7  # their words

# Words of a row: a rule
U_RULE = 0  # number of the rule function
U_COUNT = 1  # its arguments
U_ARGUMENTS = 2  # their words

# Words of a record in the table of costs, a separate one because it depends on the machine
C_FIXED = 0  # ticks of the command alone
C_EXCLUSIVE = 1  # 1 when the data phase needs the path of CT and TDMA
C_DATA = 2  # number in cost.FUNCTIONS of the time of the data phase
C_OPERATIONS = 3  # number of the function that counts operations
C_MOVED = 4  # number of the function that counts bytes moved
C_DATA_COUNT = 5  # arguments of each
C_OPERATIONS_COUNT = 6
C_MOVED_COUNT = 7  # 0: the bytes that move are those of the ranges
C_MOVED_ARGUMENTS = 8  # their words
C_DATA_ARGUMENTS = 16
C_OPERATIONS_ARGUMENTS = 32
C_PRICES = 48  # values that an argument selects by the format
C_RUNS = 64  # number of the function that counts contiguous runs of DDR
C_RUNS_COUNT = 65  # 0: the instruction has none
C_RUNS_ARGUMENTS = 66
COSTS = 80

SPM, DDR, ANY = range(3)
_SPACES = {"spm": SPM, "ddr": DDR, "any": ANY}

# Kinds of an argument word: kind | a << 8 | b << 40
CONSTANT = 0  # the number a
VALUE = 1  # operand a
LANE = 2  # 16 bits of operand a from bit b on
BITS = 3  # storage bits of the format in operand a
CHOSEN = 4  # only in costs: operand a selects one of the words at b of the table

WORKER_SHIFT = 16
"""Bit of the worker, above a record number, in predecoded words and commands to ``issue``."""
_RETURNING = range(175, 179)
"""Opcodes of the CT instructions that leave results in the write-back registers (spec)."""

# Added to the number of a kernel variant
ROUNDED = 16  # for other rounding modes than nearest even
CHECKED = 32  # notes numeric exceptions
SLOTS_PER_RECORD = 64
"""Kernel variants of a record: 16 formats, each with and without these two."""


@cache
def records() -> tuple[Instruction, ...]:
    """Return the engine records; the position of each is its record number."""
    return instructions()


MOST_BYTES = 1 << 32
_MOST_PRODUCTS = 1 << 36


def _bounded(bits: int, n: int, i0: int, i1: int, i2: int) -> bool:
    """block bytes times all trip counts must be at most 2**32, the emulator's limit for one instruction"""
    return i0 * i1 <= MOST_BYTES // i2 and i0 * i1 * i2 <= MOST_BYTES // max((bits * n + 7) >> 3, 1)


@rule("dst_shape.n", "dst_shape.h", "dst_shape.w", "dst_shape.c", "window.kx", "window.ky", "shape.c")
def _few_products(n: int, h: int, w: int, c: int, kx: int, ky: int, channels: int) -> bool:
    """elements of the result times kx * ky * shape.c must be at most 2**36, the emulator's limit for one
    instruction"""
    return n * h * w * c <= _MOST_PRODUCTS // max(kx * ky * channels, 1)


@rule(
    "dst_shape.n",
    "dst_shape.h",
    "dst_shape.w",
    "dst_shape.c",
    "shape.n",
    "shape.h",
    "shape.w",
    "pad.top",
    "pad.bottom",
    "pad.left",
    "pad.right",
    "window.sx",
    "window.sy",
)
def _few_gradients(
    ky: int,
    kx: int,
    maps: int,
    channels: int,
    n: int,
    h: int,
    w: int,
    top: int,
    bottom: int,
    left: int,
    right: int,
    sx: int,
    sy: int,
) -> bool:
    """elements of the result times shape.n * ((h + top + bottom) / sy + 1) * ((w + left + right) / sx + 1)
    must be at most 2**36, the emulator's limit for one instruction"""
    positions = n * ((h + top + bottom) // max(sy, 1) + 1) * ((w + left + right) // max(sx, 1) + 1)
    return ky * kx * maps * channels <= _MOST_PRODUCTS // max(positions, 1)


_LIMITS = {Direction.FORWARD: (_few_products,), Direction.BACKWARD: (_few_gradients,)}


@cache
def checks(record: Instruction) -> tuple[Rule, ...]:
    """Return the rules that the emulator checks: a bound on the instruction's work, then the record's rules.

    The bounds keep products of trip counts inside 64 bits. They keep an instruction inside a minute, because
    nothing ends one that has begun, not even Ctrl-C (proposed).
    """
    names = {operand.name for operand in record.operands}
    block: tuple[str | int, str] = ("@format" if record.formats else 8, "n")
    sides = [side for side in ("", "src_", "dst_") if f"{side}iter2" in names]
    bounds = [rule(*block, *(f"{side}iter{level}" for level in range(3)))(_bounded) for side in sides]
    meaning = record.meaning
    limits = _LIMITS.get(meaning.direction, ()) if isinstance(meaning, Convolution) else ()
    return (*bounds, *limits, *record.rules)


@cache
def numbers() -> dict[str, int]:
    """Return the record number by mnemonic."""
    return {record.mnemonic: number for number, record in enumerate(records())}


def slot_parts(slot: int) -> tuple[Instruction, int, bool, bool]:
    """(record, format code, nearest, checked) of a kernel slot."""
    record, variant = divmod(slot, SLOTS_PER_RECORD)
    return records()[record], variant & 15, variant & ROUNDED == 0, variant & CHECKED != 0


def _argument(instruction: Instruction, argument: str | int) -> int:
    if isinstance(argument, int):
        return CONSTANT | argument << 8
    if argument.startswith("@"):
        return BITS | instruction.index(argument[1:]) << 8
    name, _, lane = argument.partition(".")
    index = instruction.index(name)
    if not lane:
        return VALUE | index << 8
    lanes = [entry.name for entry in instruction.operands[index].lanes]
    shift = 16 * (len(lanes) - 1 - lanes.index(lane))
    return LANE | index << 8 | shift << 40


def _operand_row(operand: Operand) -> list[int]:
    bounds = [bound for lane in operand.lanes for bound in (lane.low, lane.high)] or [int(operand.scalar)]
    choices = sum(1 << code for _, code in operand.choices) if operand.words else 0
    high = operand.high if operand.high < 1 << 63 else -1
    mask = (1 << min(operand.width, 63)) - 1
    row = [operand.words, operand.at, mask, operand.low, high, len(operand.lanes), *bounds]
    row += [0] * (O_CHOICES - len(row)) + [choices, int(operand.default == 0)]
    return row


def _range_row(
    instruction: Instruction, index: int, operand: Operand, extent: Extent, before: Extent | None
) -> list[int]:
    arguments = [_argument(instruction, a) for a in extent.arguments]
    first = extent.arguments[0]
    element = arguments[0] if isinstance(first, int) or first.startswith("@") else CONSTANT | 8 << 8
    write = int(operand.role == "write")
    row = [index, _SPACES[operand.memory], write, extents().index(extent.length), element]
    row += [int(extent == before), len(arguments), *arguments]
    return row + [0] * (ROW - len(row))


def _rule_row(instruction: Instruction, check: Rule) -> list[int]:
    arguments = [_argument(instruction, a) for a in check.arguments]
    row = [rules().index(check.holds), len(arguments), *arguments]
    return row + [0] * (ROW - len(row))


def _position(instruction: Instruction, name: str) -> int:
    names = [operand.name for operand in instruction.operands]
    return names.index(name) if name in names else -1


@cache
def table() -> npt.NDArray[np.int64]:
    """Return the whole table, whose address is ``state.RECORDS``."""
    headers: list[list[int]] = []
    rows: list[list[int]] = []
    first_row = len(records()) * HEADER // ROW
    for number, record in enumerate(records()):
        ranges = [(i, o, o.extent) for i, o in enumerate(record.operands) if o.extent]
        at = first_row + len(rows)
        rows += [_operand_row(o) for o in record.operands]
        before = [None, *(extent for _, _, extent in ranges)]
        rows += [_range_row(record, *found, b) for found, b in zip(ranges, before, strict=False)]
        rows += [_rule_row(record, check) for check in checks(record)]
        after_operands = at + len(record.operands)
        header = {
            ENGINE: record.engine,
            OPERANDS: len(record.operands),
            OPERAND_ROWS: at,
            RANGES: len(ranges),
            RANGE_ROWS: after_operands,
            RULES: len(checks(record)),
            RULE_ROWS: after_operands + len(ranges),
            SLOT: number * SLOTS_PER_RECORD,
            FORMAT: _position(record, "format"),
            ROUNDING: _position(record, "rnd"),
            RETURNS: int(record.engine is Engine.CT and record.opcode in _RETURNING),
        }
        headers.append([header.get(position, 0) for position in range(HEADER)])
    return np.array(headers + rows, dtype=np.int64).reshape(-1)


@cache
def costs(machine: Machine) -> npt.NDArray[np.int64]:
    """Return the table of costs: record r starts at word ``r * COSTS``.

    Compiled code evaluates a term with ``issue.gather_arguments`` on this table and calls the function by its
    number, through ``write_dispatcher(list(cost.FUNCTIONS), queues.ARGUMENTS)``. Only the table depends on
    the machine.
    """
    from tx8isa.cost import instructions as cost  # imported here: most runs have no simulated time

    table = np.zeros((len(records()), COSTS), dtype=np.int64)
    for number, record in enumerate(records()):
        found = cost.cost(record, machine)
        table[number, [C_FIXED, C_EXCLUSIVE]] = found.fixed, found.exclusive
        for term, function, count, first in (
            (found.data, C_DATA, C_DATA_COUNT, C_DATA_ARGUMENTS),
            (found.operations, C_OPERATIONS, C_OPERATIONS_COUNT, C_OPERATIONS_ARGUMENTS),
            (found.moved, C_MOVED, C_MOVED_COUNT, C_MOVED_ARGUMENTS),
            (found.runs, C_RUNS, C_RUNS_COUNT, C_RUNS_ARGUMENTS),
        ):
            if term is None:
                continue
            words = [_cost_argument(record, argument, number) for argument in term.arguments]
            table[number, [function, count]] = cost.FUNCTIONS.index(term.function), len(words)
            table[number, first : first + len(words)] = words
            for argument in term.arguments:
                if isinstance(argument, tuple):
                    table[number, C_PRICES : C_PRICES + cost.FORMATS] = argument
    return table.reshape(-1)


def _cost_argument(record: Instruction, argument: cost.Argument, number: int) -> int:
    if isinstance(argument, tuple):
        return CHOSEN | record.index("format") << 8 | (number * COSTS + C_PRICES) << 40
    return _argument(record, argument)


@cache
def extents() -> list[Callable[..., int]]:
    """Return the distinct extent functions; the position of each is its number."""
    return _distinct(o.extent.length for r in records() for o in r.operands if o.extent)


@cache
def rules() -> list[Callable[..., bool]]:
    """Return the distinct rule functions."""
    return _distinct(check.holds for r in records() for check in checks(r))


def _distinct(functions: Any) -> list[Callable[..., Any]]:
    found: list[Callable[..., Any]] = []
    for function in functions:
        if function not in found:
            found.append(function)
    return found


def write_dispatcher(functions: list[Callable[..., Any]], scratch: int) -> Callable[[int, int], int]:
    """Write a plain function (number, queues) that calls ``functions[number]`` on the queues' arguments."""
    names = Names()
    read = names.name(get)
    lines = ["def dispatch(number, q):"]
    for number, function in enumerate(functions):
        count = function.__code__.co_argcount
        arguments = [f"{read}(q, {scratch + i})" for i in range(count)]
        lines += [f"    if number == {number}:", f"        return int({names.call(function, arguments)})"]
    lines.append("    return 0")
    return names.function("\n".join(lines), "dispatch")
