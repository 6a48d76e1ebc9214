"""Members that encode a whole instruction: one for each record of CT and TDMA, in the order of the opcodes.

All names are the vendor's (spec). The same holds for the parameters of the members that the public C runtime
uses. The parameters of the other members are proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tx8isa.records.record import Engine, Instruction
from tx8isa.table.packets import PACKETS
from tx8isa.table.registry import by_mnemonic

from ..packets import constant
from .members import Member, MemberError, parameters

_VECTOR, _FORMAT = "uint64_t dst_addr, uint32_t elem_count", "Data_Format fmt"
_UNIT = f"uint64_t src0_addr, uint64_t src1_addr, {_VECTOR}, uint32_t unit_elem_count"
_GROUPS = "uint64_t src0_addr, uint64_t src1_addr, uint64_t dst_addr, St_Elem_Shape *elems"
UNARY = f"uint64_t src0_addr, {_VECTOR}"
BINARY = f"uint64_t src0_addr, uint64_t src1_addr, {_VECTOR}"
SHAPES = "uint64_t src0_addr, Data_Shape src_shape, uint64_t dst_addr, Data_Shape dst_shape"

_FIELDS = {
    **{name: name for name in ("elem_count", "unit_elem_count", "full_elem_count")},
    **{"src0_addr": "src0", "src_addr": "src0", "lut16_addr": "src0", "lut32_addr": "src0"},
    **{"src1_addr": "src1", "const_value": "src1", "mask": "src1", "scale": "src1", "value": "src1"},
    **{"dst1_addr": "dst1", "dst2_addr": "dst2", "fmt": "src0_format", "rnd_mode": "rnd_mode"},
    **{"dim": "dims", "dims": "dims", "zp": "int8_bn_bias", "probability": "int8_scale_val0"},
    **{"scale_w": "int8_scale_val0", "scale_h": "int8_scale_val1", "size": "elem_count"},
    **{"src_elem_count": "elem_count", "lut_elem_count": "full_elem_count", "src_elem_num": "elem_count"},
    **{"shape": "src0_tfr", "src_shape": "src0_tfr", "src_shape0": "src0_tfr", "dst_shape": "dst_tfr"},
    **{"pad": "pdr", "pdr": "pdr", "swr": "swr"},
}
"""The packet field of each parameter. Proposed: the fields of value, zp and scale, and that the table of a
look-up is src0."""

_LEVELS = tuple(f"{word}{level}" for level in range(3) for word in ("stride", "iteration"))
_LOOPS = {"src_si": "src_", "dst_si": "dst_", "si": "dst_"}
"""Prefix of the fields that a loop nest fills."""


def _places(record: Instruction, type_: str, name: str) -> Iterator[tuple[str, str]]:
    """Packet field and C expression of each number in an argument."""
    if name in _LOOPS:
        yield from ((f"{_LOOPS[name]}{level}", f"{name}->{level}") for level in _LEVELS)
    elif name == "elems":
        counts = ("elem_count", "unit_elem_count", "full_elem_count", "full_unit_elem_count")
        yield from ((count, f"elems->{count}") for count in counts)
    elif name in ("dst_addr", "dst0_addr"):
        yield ("dst0" if record.engine is Engine.CT else "dst"), f"(uint32_t){name}"
    elif name in _FIELDS:
        field = PACKETS[record.engine].field(_FIELDS[name])
        cast = f"(uint{8 * field.bytes}_t)"
        # The scales are signed; the bits above their 32 bits must stay zero.
        cast += "(uint32_t)" if type_ == "int32_t" and field.bytes > 4 else ""
        yield field.name, f"tsm_shape({name})" if type_ == "Data_Shape" else f"{cast}{name}"


def member(name: str, mnemonic: str, text: str, *, published: bool, extra: str = "") -> Member:
    """Make the member that encodes an instruction, with the parameters of a C text.

    ``extra``: ``field=expression`` for fields without an operand. MemberError when an operand of the record
    has no value.
    """
    record = by_mnemonic()[mnemonic]
    packet = PACKETS[record.engine]
    fields = {operand.field for operand in record.operands}
    fills = {
        "inter_type": f"TSM_TYPE(instr, TX8_ENGINE_{record.engine.name})",
        packet.opcode: constant(record),
    }
    found = parameters(text)
    for parameter in found:
        places = _places(record, parameter.type, parameter.name)
        fills |= {field: expression for field, expression in places if field in fields}
    for operand in record.operands:
        if operand.field in fills:
            continue
        if not isinstance(operand.default, int):
            raise MemberError(f"member {name}: operand '{operand.name}' of {mnemonic} gets no value")
        fills[operand.field] = str(operand.default)
    if extra:
        field, _, expression = extra.partition("=")
        fills[field] = expression
    return Member(name, packet, found, tuple(fills.items()), published, record)


def joined(*parts: str) -> str:
    """Joins lists of parameters, leaving out empty ones."""
    return ", ".join(part for part in parts if part)


_ROUND = "RND_MODE rnd_mode"
_OPERATIONS = ("Abs", "Recip", "Square", "Sqrt", "Rsqrt", "Neg")
_COMPARISONS = {
    "eq": "Equal",
    "ne": "UnEqual",
    "ge": "GreaterEqual",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "LessThen",
}
"""The vendor's names of the relations; one is misspelt there."""


def _broadcasts(name: str, mnemonic: str, rest: str) -> Iterator[Member]:
    """The forms with a short vector that is repeated, once or for each group."""
    yield member(f"{name}VuV", f"{mnemonic}.vuv", joined(_UNIT, rest), published=False)
    yield member(f"{name}VuVLoop", f"{mnemonic}.vuv_loop", joined(_GROUPS, rest), published=False)


def arithmetic() -> Iterator[Member]:
    """``TsmArith``: opcodes 0 to 29."""
    for name in _OPERATIONS:
        text = joined(UNARY, _FORMAT)
        yield member(f"{name}VV", f"ct.{name.lower()}.v", text, published=name != "Square")
    for name in ("Max", "Min", "Add", "Sub", "Mul", "Div"):
        mnemonic, rest = f"ct.{name.lower()}", joined(_ROUND, _FORMAT)
        scalar = joined(f"uint64_t src0_addr, uint32_t const_value, {_VECTOR}", rest)
        yield member(f"{name}VV", f"{mnemonic}.vv", joined(BINARY, rest), published=True)
        yield member(f"{name}VS", f"{mnemonic}.vs", scalar, published=name not in ("Max", "Min"))
        yield from _broadcasts(name, mnemonic, rest)


def relations() -> Iterator[Member]:
    """``TsmRelation``: opcodes 30 to 77."""
    scalar = joined(f"uint64_t src0_addr, uint64_t const_value, {_VECTOR}", _FORMAT)
    for code, name in _COMPARISONS.items():
        results = ((name, f"ct.{code}"), (f"Bool{name}", f"ct.{code}.bv"))
        for form, text in (("VV", joined(BINARY, _FORMAT)), ("VS", scalar)):
            for prefix, mnemonic in results:
                yield member(f"{prefix}{form}", f"{mnemonic}.{form.lower()}", text, published=True)
        for prefix, mnemonic in results:
            yield from _broadcasts(prefix, mnemonic, _FORMAT)


def logic() -> Iterator[Member]:
    """``TsmLogic``: opcodes 78 to 97."""
    names = ("And", "Or", "Xor")
    yield member("NotV", "ct.not.v", joined(UNARY, _FORMAT), published=False)
    for name in names:
        yield member(f"{name}VV", f"ct.{name.lower()}.vv", joined(BINARY, _FORMAT), published=True)
    repeated = [tuple(_broadcasts(name, f"ct.{name.lower()}", _FORMAT)) for name in names]
    yield from (short for short, _ in repeated)
    yield from (grouped for _, grouped in repeated)
    yield member("BoolNotV", "ct.not.bv.bv", UNARY, published=True)
    for name in names:
        yield member(f"Bool{name}V", f"ct.{name.lower()}.bv.bvbv", BINARY, published=True)
    for form, suffix, text in (("VuV", "", _UNIT), ("VuVLoop", "_loop", _GROUPS)):
        for name in names:
            mnemonic = f"ct.{name.lower()}.bv.bvubv{suffix}"
            yield member(f"Bool{name}{form}", mnemonic, text, published=False)


def functions(names: Iterable[str]) -> Iterator[Member]:
    """``TsmTranscendental`` and ``TsmActivation``: opcodes 98 to 110."""
    for name in names:
        mnemonic = f"ct.{'exp_lp' if name == 'Explp' else name.lower()}.v"
        yield member(name, mnemonic, joined(UNARY, _FORMAT), published=True)


def reductions() -> Iterator[Member]:
    """``TsmReduce``: opcodes 111 to 114; the packet also gets the shape of the result."""
    text = "uint64_t src_addr, uint64_t dst_addr, uint32_t dim, Data_Shape shape, Data_Format fmt"
    for name in ("Sum", "Avg", "Max", "Min"):
        derived = "dst_tfr=tsm_reduced(shape, dim)"
        yield member(f"Reduce{name}", f"ct.reduce.{name.lower()}", text, published=True, extra=derived)


def converts() -> Iterator[Member]:
    """``TsmConvert``: opcodes 139 to 174; a record says whether it takes a zero point or a rounding mode."""
    for mnemonic, record in by_mnemonic().items():
        if not mnemonic.startswith("ct.cvt."):
            continue
        fields = {operand.field for operand in record.operands}
        head = joined("uint64_t src0_addr", "uint32_t zp" if "int8_bn_bias" in fields else "", _VECTOR)
        text = joined(head, _ROUND if "rnd_mode" in fields else "")
        yield member(
            mnemonic.removeprefix("ct.cvt.").replace(".", "_").upper(), mnemonic, text, published=True
        )
