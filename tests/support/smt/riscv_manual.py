"""Encodings and meanings of RV64 instructions in z3's terms, written from the RISC-V manual, volume I.

It takes nothing from the records. An encoding is a condition on a 32-bit word, and its operands by the
manual's figures of immediate formats. A meaning is a bit-vector of 64 bits. The words for the data cache are
those of T-Head's extension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from solver import z3

Terms = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One instruction: the condition on its words, and its operands' values by their names in records.

    Values are bit-vectors: registers and other numbers without a sign of their own width, immediates
    sign-extended to 64 bits.
    """

    matches: Callable[[Any], Any]
    operands: Callable[[Any], Terms]


def bits(word: Any, high: int, low: int) -> Any:
    """inst[high:low] of the manual."""
    return z3.Extract(high, low, word)


def bit(word: Any, at: int) -> Any:
    return bits(word, at, at)


def _extended(*parts: Any) -> Any:
    whole = z3.Concat(*parts) if len(parts) > 1 else parts[0]
    return z3.SignExt(64 - whole.size(), whole)


def i_immediate(word: Any) -> Any:
    return _extended(bits(word, 31, 20))


def s_immediate(word: Any) -> Any:
    return _extended(bits(word, 31, 25), bits(word, 11, 7))


def b_immediate(word: Any) -> Any:
    zero = z3.BitVecVal(0, 1)
    return _extended(bit(word, 31), bit(word, 7), bits(word, 30, 25), bits(word, 11, 8), zero)


def u_number(word: Any) -> Any:
    """inst[31:12], the 20 bits that assembly writes; the manual's immediate is this times 4096."""
    return bits(word, 31, 12)


def j_immediate(word: Any) -> Any:
    zero = z3.BitVecVal(0, 1)
    return _extended(bit(word, 31), bits(word, 19, 12), bit(word, 20), bits(word, 30, 21), zero)


def rd(word: Any) -> Any:
    return bits(word, 11, 7)


def rs1(word: Any) -> Any:
    return bits(word, 19, 15)


def rs2(word: Any) -> Any:
    return bits(word, 24, 20)


READERS: dict[str, Callable[[Any], Any]] = {
    "rd": rd,
    "rs1": rs1,
    "rs2": rs2,
    "rs3": lambda word: bits(word, 31, 27),
    "imm": i_immediate,
    "store": s_immediate,
    "upper": u_number,
    "branch": b_immediate,
    "jump": j_immediate,
    "shamt6": lambda word: bits(word, 25, 20),
    "shamt5": lambda word: bits(word, 24, 20),
    "csr": lambda word: bits(word, 31, 20),
    "zimm": rs1,
    "rm": lambda word: bits(word, 14, 12),
    "pred": lambda word: bits(word, 27, 24),
    "succ": lambda word: bits(word, 23, 20),
}
NAMES = {
    "store": "imm",
    "upper": "imm",
    "branch": "target",
    "jump": "target",
    "shamt6": "shamt",
    "shamt5": "shamt",
}
"""The records' names of operands that the manual gives several formats."""


def _entry(mask: int, match: int, operands: str) -> Entry:
    kinds = operands.split()

    def matches(word: Any) -> Any:
        fixed = word & mask == match
        if "rm" not in kinds:
            return fixed
        mode = bits(word, 14, 12)  # 101 and 110 are reserved (chapter "F", frm)
        return z3.And(fixed, mode != 0b101, mode != 0b110)

    return Entry(matches, lambda word: {NAMES.get(kind, kind): READERS[kind](word) for kind in kinds})


OPCODE, FUNCT3, FUNCT7, FUNCT6, RS2, REST = 0x7F, 7 << 12, 0x7F << 25, 0x3F << 26, 31 << 20, 31 << 7
WHOLE = 0xFFFFFFFF


def _listing() -> dict[str, Entry]:
    """The manual's listing of RV32I, RV64I, M, F, D, Zicsr and Zifencei, and the words of the cache."""
    found: dict[str, Entry] = {}

    def add(names: str, opcode: int, mask: int, match: Callable[[int], int], operands: str) -> None:
        for place, name in enumerate(names.split()):
            if name != "-":
                found[name] = _entry(OPCODE | mask, opcode | match(place), operands)

    def funct3(place: int) -> int:
        return place << 12

    add("lui", 0b0110111, 0, lambda _: 0, "rd upper")
    add("auipc", 0b0010111, 0, lambda _: 0, "rd upper")
    add("jal", 0b1101111, 0, lambda _: 0, "rd jump")
    add("jalr", 0b1100111, FUNCT3, funct3, "rd rs1 imm")
    add("beq bne - - blt bge bltu bgeu", 0b1100011, FUNCT3, funct3, "rs1 rs2 branch")
    add("lb lh lw ld lbu lhu lwu", 0b0000011, FUNCT3, funct3, "rd rs1 imm")
    add("sb sh sw sd", 0b0100011, FUNCT3, funct3, "rs1 rs2 store")
    add("addi - slti sltiu xori - ori andi", 0b0010011, FUNCT3, funct3, "rd rs1 imm")
    add("addiw", 0b0011011, FUNCT3, funct3, "rd rs1 imm")
    for names, upper, wide in (
        ("- slli - - - srli", 0, True),
        ("- - - - - srai", 1 << 30, True),
        ("- slliw - - - srliw", 0, False),
        ("- - - - - sraiw", 1 << 30, False),
    ):
        mask, opcode = (FUNCT6, 0b0010011) if wide else (FUNCT7, 0b0011011)
        add(
            names,
            opcode,
            FUNCT3 | mask,
            lambda place, upper=upper: funct3(place) | upper,
            f"rd rs1 {'shamt6' if wide else 'shamt5'}",
        )
    for names, opcode, funct7 in (
        ("add sll slt sltu xor srl or and", 0b0110011, 0b0000000),
        ("sub - - - - sra", 0b0110011, 0b0100000),
        ("addw sllw - - - srlw", 0b0111011, 0b0000000),
        ("subw - - - - sraw", 0b0111011, 0b0100000),
        ("mul mulh mulhsu mulhu div divu rem remu", 0b0110011, 0b0000001),
        ("mulw - - - divw divuw remw remuw", 0b0111011, 0b0000001),
    ):
        add(
            names,
            opcode,
            FUNCT3 | FUNCT7,
            lambda place, upper=funct7 << 25: funct3(place) | upper,
            "rd rs1 rs2",
        )
    add("- csrrw csrrs csrrc", 0b1110011, FUNCT3, funct3, "rd rs1 csr")
    add("- - - - - csrrwi csrrsi csrrci", 0b1110011, FUNCT3, funct3, "rd zimm csr")
    found |= _whole_words() | _floats()
    return found


def _whole_words() -> dict[str, Entry]:
    """Instructions without operands, and those with few."""
    words = {
        "fence.tso": 0x8330000F,
        "fence.i": 0x0000100F,
        "ecall": 0x00000073,
        "ebreak": 0x00100073,
        "mret": 0x30200073,
        "wfi": 0x10500073,
        "th.dcache.call": 0x0010000B,
        "th.dcache.iall": 0x0020000B,
        "th.dcache.ciall": 0x0030000B,
        "th.sync": 0x0180000B,
        "th.sync.s": 0x0190000B,
    }
    lines = {"th.dcache.cva": 0x0250000B, "th.dcache.iva": 0x0260000B, "th.dcache.civa": 0x0270000B}
    fence = _entry(0xF00FFFFF, 0x0000000F, "pred succ")
    by_address = {name: _entry(0xFFF07FFF, word, "rs1") for name, word in lines.items()}
    return {name: _entry(WHOLE, word, "") for name, word in words.items()} | by_address | {"fence": fence}


def _floats() -> dict[str, Entry]:
    """F and D: fmt is 00 or 01, funct5 the operation."""
    found: dict[str, Entry] = {}
    op = 0b1010011
    for letter, fmt, width in (("s", 0, 0b010), ("d", 1, 0b011)):
        found[f"fl{'w' if fmt == 0 else 'd'}"] = _entry(
            OPCODE | FUNCT3, 0b0000111 | width << 12, "rd rs1 imm"
        )
        found[f"fs{'w' if fmt == 0 else 'd'}"] = _entry(
            OPCODE | FUNCT3, 0b0100111 | width << 12, "rs1 rs2 store"
        )
        for place, name in enumerate(("fmadd", "fmsub", "fnmsub", "fnmadd")):
            match = 0b1000011 | place << 2 | fmt << 25
            found[f"{name}.{letter}"] = _entry(OPCODE | 3 << 25, match, "rd rs1 rs2 rs3 rm")
        for funct5, name in enumerate(("fadd", "fsub", "fmul", "fdiv")):
            match = op | fmt << 25 | funct5 << 27
            found[f"{name}.{letter}"] = _entry(OPCODE | FUNCT7, match, "rd rs1 rs2 rm")
        root = op | fmt << 25 | 0b01011 << 27
        found[f"fsqrt.{letter}"] = _entry(OPCODE | FUNCT7 | RS2, root, "rd rs1 rm")
        for names, funct5 in (
            ("fsgnj fsgnjn fsgnjx", 0b00100),
            ("fmin fmax", 0b00101),
            ("fle flt feq", 0b10100),
        ):
            for place, name in enumerate(names.split()):
                match = op | place << 12 | fmt << 25 | funct5 << 27
                found[f"{name}.{letter}"] = _entry(OPCODE | FUNCT3 | FUNCT7, match, "rd rs1 rs2")
        for place, integer in enumerate(("w", "wu", "l", "lu")):
            for name, funct5 in (
                (f"fcvt.{integer}.{letter}", 0b11000),
                (f"fcvt.{letter}.{integer}", 0b11010),
            ):
                match = op | place << 20 | fmt << 25 | funct5 << 27
                found[name] = _entry(OPCODE | FUNCT7 | RS2, match, "rd rs1 rm")
        letter_x = "w" if fmt == 0 else "d"
        moves = (
            (f"fmv.x.{letter_x}", 0b11100, 0),
            (f"fclass.{letter}", 0b11100, 1),
            (f"fmv.{letter_x}.x", 0b11110, 0),
        )
        for name, funct5, low in moves:
            match = op | low << 12 | fmt << 25 | funct5 << 27
            found[name] = _entry(OPCODE | FUNCT7 | RS2 | FUNCT3, match, "rd rs1")
    for name, to, source in (("fcvt.s.d", 0, 1), ("fcvt.d.s", 1, 0)):
        match = op | source << 20 | to << 25 | 0b01000 << 27
        found[name] = _entry(OPCODE | FUNCT7 | RS2, match, "rd rs1 rm")
    return found


ENTRIES = _listing()
"""Encoding by mnemonic."""


# --- meanings ----------------------------------------------------------------------------------------------


def _word(term: Any) -> Any:
    """The low 32 bits, sign-extended, as the W instructions write them."""
    return z3.SignExt(32, z3.Extract(31, 0, term))


def _low(term: Any) -> Any:
    return z3.Extract(31, 0, term)


def _one_if(condition: Any) -> Any:
    return z3.If(condition, z3.BitVecVal(1, 64), z3.BitVecVal(0, 64))


def _shift(term: Any, mask: int) -> Any:
    """The low 5 or 6 bits of rs2, as wide as the shifted value."""
    return term & mask


def _upper_half(a: Any, b: Any) -> Any:
    """The upper XLEN bits of the full 2*XLEN-bit product of operands that were extended to it."""
    return z3.Extract(127, 64, a * b)


def _signed(term: Any) -> Any:
    return z3.SignExt(64, term)


def _unsigned(term: Any) -> Any:
    return z3.ZeroExt(64, term)


def _quotient(a: Any, b: Any) -> Any:
    """Unsigned quotient; division by zero gives all ones."""
    return z3.If(b == 0, z3.BitVecVal(-1, a.size()), z3.UDiv(a, b))


def _remainder(a: Any, b: Any) -> Any:
    """Unsigned remainder; division by zero gives the dividend."""
    return z3.If(b == 0, a, z3.URem(a, b))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "sll": lambda a, b: a << _shift(b, 63),
    "slt": lambda a, b: _one_if(a < b),
    "sltu": lambda a, b: _one_if(z3.ULT(a, b)),
    "xor": lambda a, b: a ^ b,
    "srl": lambda a, b: z3.LShR(a, _shift(b, 63)),
    "sra": lambda a, b: a >> _shift(b, 63),
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "addw": lambda a, b: _word(a + b),
    "subw": lambda a, b: _word(a - b),
    "sllw": lambda a, b: z3.SignExt(32, _low(a) << _shift(_low(b), 31)),
    "srlw": lambda a, b: z3.SignExt(32, z3.LShR(_low(a), _shift(_low(b), 31))),
    "sraw": lambda a, b: z3.SignExt(32, _low(a) >> _shift(_low(b), 31)),
    "mul": lambda a, b: a * b,
    "mulh": lambda a, b: _upper_half(_signed(a), _signed(b)),
    "mulhsu": lambda a, b: _upper_half(_signed(a), _unsigned(b)),
    "mulhu": lambda a, b: _upper_half(_unsigned(a), _unsigned(b)),
    "mulw": lambda a, b: z3.SignExt(32, _low(a) * _low(b)),
    "divu": _quotient,
    "remu": _remainder,
    "divuw": lambda a, b: z3.SignExt(32, _quotient(_low(a), _low(b))),
    "remuw": lambda a, b: z3.SignExt(32, _remainder(_low(a), _low(b))),
}
"""rd for rs1 and rs2. Signed quotients and remainders are in ``DIVISIONS``."""

IMMEDIATE = {
    **{f"{name}i": name for name in ("add", "slt", "xor", "or", "and", "sll", "srl", "sra")},
    "sltiu": "sltu",
    **{f"{name}iw": f"{name}w" for name in ("add", "sll", "srl", "sra")},
}
"""The instructions that take an immediate or a shift amount in place of rs2."""

CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "beq": lambda a, b: a == b,
    "bne": lambda a, b: a != b,
    "blt": lambda a, b: a < b,
    "bge": lambda a, b: a >= b,
    "bltu": z3.ULT,
    "bgeu": z3.UGE,
}
LOADS: dict[str, tuple[int, bool]] = {
    "lb": (8, True), "lh": (16, True), "lw": (32, True), "ld": (64, True),
    "lbu": (8, False), "lhu": (16, False), "lwu": (32, False),
}  # fmt: skip
"""Bits in memory, and True if their sign is extended."""
STORES = {"sb": 8, "sh": 16, "sw": 32, "sd": 64}

JUMPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "lui": lambda a, b, pc: b,
    "auipc": lambda a, b, pc: pc + b,
    "jal": lambda a, b, pc: pc + b,
    "jalr": lambda a, b, pc: (a + b) & ~z3.BitVecVal(1, 64),
}
"""rd of lui and auipc, the next address of jumps: for rs1, the immediate and the instruction's address."""

DIVISIONS = {
    "div": (64, "quotient"),
    "rem": (64, "remainder"),
    "divw": (32, "quotient"),
    "remw": (32, "remainder"),
}
"""Bits of the signed operands, and the result."""


def upper_immediate(number: Any) -> Any:
    """The 20 bits of lui and auipc as the 32-bit immediate with zeros below, sign-extended."""
    return _extended(number, z3.BitVecVal(0, 12))


def divides(a: Any, b: Any, quotient: Any, remainder: Any) -> Any:
    """Division of integers rounded toward zero, b not 0, as chapter "M" defines it.

    dividend = divisor * quotient + remainder; the remainder is smaller than the divisor, and has the sign of
    the dividend or is 0.
    """
    size = z3.And(-z3.Abs(b) < remainder, remainder < z3.Abs(b))
    sign = z3.Or(remainder == 0, (remainder < 0) == (a < 0))
    return z3.And(a == b * quotient + remainder, size, sign)
