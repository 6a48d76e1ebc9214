"""Pseudo-instructions of the RISC-V assembly manual, and addresses that take several instructions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

from asm.diagnostics import Fault
from asm.syntax.expressions import (
    Address,
    Atom,
    Binary,
    CircularValue,
    Function,
    Node,
    Paren,
    Unary,
    UnknownValue,
    evaluate,
    literal,
)
from asm.syntax.parse import Operands, RegisterOffset, Term
from tx8isa.riscv.format import Scalar
from tx8isa.riscv.registers import REGISTERS
from tx8isa.table.compressed import compressed_by_mnemonic
from tx8isa.table.scalar import scalar_by_mnemonic

from .constants import RS1, load_constant
from .immediates import with_number
from .operands import expression
from .reach import AbsoluteSlot, PairSlot, absolute_pattern
from .scalar import Constant, Given, RegisterSlot, place_fields, place_scalar, positional, scalar_template
from .template import Encode, Place, Slot, SymbolicLine, Template, not_plain, single_atom

SIMPLE: dict[str, tuple[str, ...]] = {
    "nop": ("addi zero zero 0",),
    "mv": ("addi $0 $1 0",),
    "move": ("addi $0 $1 0",),
    "scall": ("ecall",),
    "sbreak": ("ebreak",),
    "not": ("xori $0 $1 -1",),
    "neg": ("sub $0 zero $1",),
    "negw": ("subw $0 zero $1",),
    "sext.w": ("addiw $0 $1 0",),
    "sext.b": ("slli $0 $1 56", "srai $0 $0 56"),
    "sext.h": ("slli $0 $1 48", "srai $0 $0 48"),
    "zext.b": ("andi $0 $1 255",),
    "zext.h": ("slli $0 $1 48", "srli $0 $0 48"),
    "zext.w": ("slli $0 $1 32", "srli $0 $0 32"),
    "seqz": ("sltiu $0 $1 1",),
    "snez": ("sltu $0 zero $1",),
    "sltz": ("slt $0 $1 zero",),
    "sgtz": ("slt $0 zero $1",),
    "sgt": ("slt $0 $2 $1",),
    "sgtu": ("sltu $0 $2 $1",),
    "beqz": ("beq $0 zero $1",),
    "bnez": ("bne $0 zero $1",),
    "blez": ("bge zero $0 $1",),
    "bgez": ("bge $0 zero $1",),
    "bltz": ("blt $0 zero $1",),
    "bgtz": ("blt zero $0 $1",),
    "bgt": ("blt $1 $0 $2",),
    "ble": ("bge $1 $0 $2",),
    "bgtu": ("bltu $1 $0 $2",),
    "bleu": ("bgeu $1 $0 $2",),
    "j": ("jal zero $0",),
    **{
        f"{name}.{size}": (f"{real}.{size} $0 $1 $1",)
        for size in "sd"
        for name, real in (("fmv", "fsgnj"), ("fabs", "fsgnjx"), ("fneg", "fsgnjn"))
    },
    **{
        f"{name}.{size}": (f"{real}.{size} $0 $2 $1",)
        for size in "sd"
        for name, real in (("fgt", "flt"), ("fge", "fle"))
    },
    "fmv.x.s": ("fmv.x.w $0 $1",),
    "fmv.s.x": ("fmv.w.x $0 $1",),
    **dict.fromkeys(("frcsr", "frsr"), ("csrrs $0 fcsr zero",)),
    "frrm": ("csrrs $0 frm zero",),
    "frflags": ("csrrs $0 fflags zero",),
    **dict.fromkeys(("fscsr", "fssr"), ("csrrw $0 fcsr $1",)),
    "fsrm": ("csrrw $0 frm $1",),
    "fsflags": ("csrrw $0 fflags $1",),
    "fsrmi": ("csrrwi $0 frm $1",),
    "fsflagsi": ("csrrwi $0 fflags $1",),
    "rdcycle": ("csrrs $0 cycle zero",),
    "rdtime": ("csrrs $0 time zero",),
    "rdinstret": ("csrrs $0 instret zero",),
    "csrr": ("csrrs $0 $1 zero",),
    "csrw": ("csrrw zero $0 $1",),
    "csrs": ("csrrs zero $0 $1",),
    "csrc": ("csrrc zero $0 $1",),
    "csrwi": ("csrrwi zero $0 $1",),
    "csrsi": ("csrrsi zero $0 $1",),
    "csrci": ("csrrci zero $0 $1",),
}
"""Instructions that replace each; ``$n`` is its n-th operand (The RISC-V Assembly Programmer's Manual)."""

SHORTER: dict[tuple[str, int], str] = {
    ("jal", 1): "jal ra $0",
    ("fence", 0): "fence iorw iorw",
    ("fscsr", 1): "csrrw zero fcsr $0",
    ("fssr", 1): "csrrw zero fcsr $0",
    ("fsrm", 1): "csrrw zero frm $0",
    ("fsflags", 1): "csrrw zero fflags $0",
    ("fsrmi", 1): "csrrwi zero frm $0",
    ("fsflagsi", 1): "csrrwi zero fflags $0",
}
"""Instructions that may be written with fewer operands."""

SHORTENED: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mv", "move"), frozenset(("c.mv",))),
    "li": frozenset(compressed_by_mnemonic()) - {"c.nop"},
    **dict.fromkeys(("jal", "jalr", "jr"), frozenset[str]()),
}
"""The forms that GNU as chooses under ``.option rvc``; jr and jalr only with a single register."""

_PAIRS = {"call": ("ra", "ra"), "tail": ("t1", "zero")}
"""(register of auipc, register of jalr)."""

NAMES = (*SIMPLE, *_PAIRS, "jump", "li", "la", "lla", "jr", "ret")


def scalar_or_pseudo(mnemonic: str, operands: Operands) -> Template | None:
    """The template of a scalar instruction or pseudo-instruction, None when there is none of this name."""
    if mnemonic in compressed_by_mnemonic():
        return scalar_template(compressed_by_mnemonic()[mnemonic], positional(mnemonic, operands.items))
    record = scalar_by_mnemonic().get(mnemonic)
    if record is None and mnemonic not in NAMES:
        return None
    terms = positional(mnemonic, operands.items)
    either = with_number(mnemonic, terms, _named)
    if either is not None:
        return either
    template = _template(mnemonic, record, terms)
    if mnemonic in SHORTENED and not (mnemonic in ("jr", "jalr") and _is_register(terms)):
        template.allowed = SHORTENED[mnemonic]
    return template


def _named(mnemonic: str, terms: Sequence[Term]) -> Template:
    """The template of a scalar instruction or pseudo-instruction by its name."""
    return _template(mnemonic, scalar_by_mnemonic().get(mnemonic), terms)


def _is_register(terms: Sequence[Term]) -> bool:
    """Return True if the only operand is a register, as in ``jr a0``."""
    return len(terms) == 1 and isinstance(terms[0], Atom)


def _template(mnemonic: str, record: Scalar | None, terms: Sequence[Term]) -> Template:
    if mnemonic == "add" and len(terms) == 4 and isinstance(terms[3], Function):
        if terms[3].name != "tprel_add":
            raise Fault("add: %tprel_add(symbol) is expected", terms[3].at)
        template = _template(mnemonic, record, terms[:3])  # the mark of a linker
        template.fixed = True
        return template
    if (mnemonic, len(terms)) in SHORTER:
        return _simple(mnemonic, (SHORTER[mnemonic, len(terms)],), terms)
    if mnemonic in SIMPLE:
        return _simple(mnemonic, SIMPLE[mnemonic], terms)
    if mnemonic == "ret":
        return _return(terms)
    if mnemonic in ("jr", "jalr"):
        return _jump_register(mnemonic, terms)
    if mnemonic in (*_PAIRS, "jump"):
        return _far_jump(mnemonic, terms)
    if mnemonic == "li":
        return ConstantTemplate(*_two(mnemonic, terms))
    if mnemonic in ("la", "lla"):
        return AddressTemplate(*_two(mnemonic, terms))
    assert record is not None
    return _at_symbol(record, terms) or scalar_template(record, terms)


def _simple(mnemonic: str, statements: Sequence[str], terms: Sequence[Term]) -> Template:
    words = [word for statement in statements for word in statement.split()]
    wanted = 1 + max((int(word[1:]) for word in words if word.startswith("$")), default=-1)
    if len(terms) != wanted:
        plural = "s" if wanted != 1 else ""
        stands = "; ".join(statements).replace("$", "operand ")
        raise Fault(
            f"{mnemonic} takes {wanted} operand{plural}, found {len(terms)}", None, f"it stands for: {stands}"
        )
    base, slots = 0, list[Slot]()
    for index, statement in enumerate(statements):
        name, *words = statement.split()
        given = [_supplied(word, terms) for word in words]
        more, others = place_scalar(scalar_by_mnemonic()[name], given, 32 * index)
        base, slots = base | more, slots + others
    return Template(4 * len(statements), base, slots)


def _supplied(word: str, terms: Sequence[Term]) -> Given:
    if word.startswith("$"):
        return terms[int(word[1:])]
    return Constant(word.lstrip("-"), word.startswith("-"))


def _jump_register(mnemonic: str, terms: Sequence[Term]) -> Template:
    """``jr rs``, ``jr imm(rs)``, ``jalr rs``, ``jalr rd, rs``, ``jalr rd, imm(rs)``, ``jalr rd, rs, imm``."""
    most = 1 if mnemonic == "jr" else 3
    if not 1 <= len(terms) <= most:
        help = (
            "write jr rs or jr imm(rs)"
            if most == 1
            else "write jalr rs, jalr rd, imm(rs) or jalr rd, rs, imm"
        )
        raise Fault(f"{mnemonic}: {len(terms)} operands found", None, help)
    rd: Node | Constant = Constant("zero" if mnemonic == "jr" else "ra")
    if len(terms) > 1:
        rd = expression(terms[0], "rd")
    target = terms[min(len(terms) - 1, 1)]
    offset: Node | Constant = expression(terms[2], "imm") if len(terms) == 3 else Constant("0")
    if isinstance(target, RegisterOffset) and len(terms) < 3:
        base, offset = target.base, target.offset
    else:
        node = expression(target, "rs1")
        base = node.inner if isinstance(node, Paren) else node
    jalr = scalar_by_mnemonic()["jalr"]
    return Template(4, *place_fields(jalr, {"rd": rd, "imm": offset, "rs1": base}, 0))


def _return(terms: Sequence[Term]) -> Template:
    if terms:
        raise Fault(f"ret takes no operand, found {len(terms)}")
    parts: dict[str, Node | Constant] = {"rd": Constant("zero"), "imm": Constant("0"), "rs1": Constant("ra")}
    return Template(4, *place_fields(scalar_by_mnemonic()["jalr"], parts, 0))


def _two(mnemonic: str, terms: Sequence[Term]) -> tuple[Node, Node]:
    if len(terms) != 2:
        raise Fault(f"{mnemonic} takes a register and a value, found {len(terms)} operands")
    return expression(terms[0], "rd"), expression(terms[1], mnemonic)


def _pair(
    register: Node | Constant, target: Node, second: Scalar, others: dict[str, Node | Constant]
) -> Template:
    """auipc register, then ``second`` with the low part of the distance as its immediate."""
    auipc = scalar_by_mnemonic()["auipc"]
    base, slots = place_fields(auipc, {"rd": register, "imm": Constant("0")}, 0)
    more, rest = place_fields(second, {**others, "rs1": register, "imm": Constant("0")}, 32)
    link = isinstance(register, Constant) and second.mnemonic == "jalr"
    turned = REGISTERS[register.text] * RS1 << 32 if link and isinstance(register, Constant) else 0
    return Template(8, base | more, [*slots, *rest, PairSlot(target, second.field("imm"), turned)])


def _far_jump(mnemonic: str, terms: Sequence[Term]) -> Template:
    """``call label``, ``call rd, label``, ``tail label`` and ``jump label, rt``; a label may end in @plt."""
    through: Node | Constant
    link: Node | Constant
    *registers, target = [expression(term, mnemonic) for term in terms] or [Atom(0, 0)]
    if mnemonic == "jump" and len(terms) == 2:
        (target, through), link = (registers[0], target), Constant("zero")
    elif mnemonic == "call" and len(terms) == 2:
        through, link = Constant("t1"), registers[0]
    elif len(terms) == 1 and mnemonic in _PAIRS:
        through, link = map(Constant, _PAIRS[mnemonic])
    else:
        takes = {"jump": "a label and a register", "call": "a label, perhaps after a register"}
        raise Fault(f"{mnemonic} takes {takes.get(mnemonic, 'a label')}, found {len(terms)} operands")
    if isinstance(target, Function) and target.name == "plt":
        target = target.argument
    return _pair(through, target, scalar_by_mnemonic()["jalr"], {"rd": link})


def _at_symbol(record: Scalar, terms: Sequence[Term]) -> Template | None:
    """``lw rd, symbol``, ``flw rd, symbol, rt`` and ``sw rs2, symbol, rt``; None for the ordinary forms."""
    if record.kind == "load" and record.field("rd").kind == "float":
        if len(terms) != 3:
            return None
        target, through = expression(terms[1], record.mnemonic), expression(terms[2], "rt")
        return _pair(through, target, record, {"rd": expression(terms[0], "rd")})
    if record.kind == "load" and len(terms) == 2 and not isinstance(terms[1], RegisterOffset | Paren):
        rd = expression(terms[0], "rd")
        return _pair(rd, expression(terms[1], record.mnemonic), record, {"rd": rd})
    if record.kind == "store" and len(terms) == 3:
        target, through = expression(terms[1], record.mnemonic), expression(terms[2], "rt")
        return _pair(through, target, record, {"rs2": expression(terms[0], "rs2")})
    return None


def _register(node: Node, atoms: Sequence[str]) -> int:
    """Number of the register that an operand names."""
    index, _ = single_atom(node)
    if index is None:
        raise Fault("an x register is expected, found an expression", node.at)
    slot = RegisterSlot(node, 0, scalar_by_mnemonic()["addi"].field("rd"))
    slot.special(atoms[index], isinstance(node, Unary))
    return REGISTERS[atoms[index]]


def _constant(value: int, register: int) -> Template:
    """The instructions that load a constant into a register."""
    size, base, one = load_constant(value)
    template = Template(size, base + register * one, ())
    template.allowed = SHORTENED["li"]
    return template


class ConstantTemplate(Template):
    """``li``: as many instructions as the constant takes."""

    def __init__(self, register: Node, value: Node) -> None:
        self.register, self.value = register, value
        super().__init__(0, 0, ())

    def choose(self, atoms: Sequence[str], place: Place) -> Template:
        number = _register(self.register, atoms)
        try:
            value = evaluate(self.value, atoms, place)
        except CircularValue:
            value = 0
        except UnknownValue as unknown:
            value = self._refuse(unknown.what)
        if isinstance(value, Address):
            value = self._refuse(f"an address in {value.section}")
        return _constant(value, number)

    def _refuse(self, what: str) -> int:
        message = f"li needs a number that is known here, found {what}"
        raise Fault(message, self.value.at, "use la for an address, or define the symbol above")

    def _encoder(self) -> Encode:
        index, negative = single_atom(self.value)
        if index != 1 or self.register != Atom(0, self.register.at):
            return not_plain

        def encode(atoms: Sequence[str]) -> bytes:
            value = literal(atoms[1], self.value.at)
            if value is None or atoms[0] not in REGISTERS or (negative and value > 1 << 63):
                raise SymbolicLine
            size, base, register = load_constant(-value if negative else value)
            return (base + REGISTERS[atoms[0]] * register).to_bytes(size, "little")

        return encode


class AddressTemplate(Template):
    """``la``: auipc and addi in the core's view, four instructions for .ddr, ``li`` for a number."""

    def __init__(self, register: Node, target: Node) -> None:
        self.register, self.target = register, target
        super().__init__(0, 0, (RegisterSlot(register, 0, scalar_by_mnemonic()["addi"].field("rd")),))

    def choose(self, atoms: Sequence[str], place: Place) -> Template:
        number = _register(self.register, atoms)
        if _is_far(self.target, atoms, place):
            return _absolute(self.target, number)
        try:
            value = evaluate(self.target, atoms, place)
        except UnknownValue:
            value = Address("", 0)
        if isinstance(value, int):
            return _constant(value, number)
        return self._near

    @cached_property
    def _near(self) -> Template:
        """The instructions for an address that auipc reaches, which register and address do not change."""
        addi = scalar_by_mnemonic()["addi"]
        return _pair(self.register, self.target, addi, {"rd": self.register})

    def _encoder(self) -> Encode:
        return not_plain


@lru_cache(maxsize=1024)
def _absolute(target: Node, register: int) -> Template:
    """The four instructions that load an address of the engines' view into a register."""
    base, one = absolute_pattern()
    return Template(16, base + register * one, (AbsoluteSlot(target, 0),))


def _is_far(node: Node, atoms: Sequence[str], place: Place) -> bool:
    """Return True if an address is of the engines' view, beyond the reach of auipc."""
    if isinstance(node, Function):
        return node.name == "ncc"
    if isinstance(node, Binary):
        return _is_far(node.left, atoms, place) or _is_far(node.right, atoms, place)
    if isinstance(node, Paren):
        return _is_far(node.inner, atoms, place)
    if isinstance(node, Unary) or literal(atoms[node.index], node.at) is not None:
        return False
    try:
        value = place.value_of(atoms[node.index], node.at)
    except UnknownValue:
        return False
    return isinstance(value, Address) and place.is_far(value.section)
