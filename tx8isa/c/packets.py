"""Writes the packets in C: structures, setters, end addresses, and the stores that start an instruction."""

from __future__ import annotations

from collections.abc import Iterator

from tx8isa.numbers.limits import LANE_MASK
from tx8isa.records.record import Engine, Extent, Instruction
from tx8isa.table.packets import PACKETS, Packet, PacketField, Unit
from tx8isa.table.registry import instructions

from .functions import Functions

PREFIXES = {
    Engine.CT: "ct",
    Engine.NE: "ne",
    Engine.RDMA: "dma",
    Engine.WDMA: "dma",
    Engine.TDMA: "td",
    Engine.SCALAR: "sc",
}
"""Start of the names of the C functions, by engine."""

EFFECTS: dict[tuple[Engine, str], tuple[str, str]] = {
    (Engine.NE, "dilation"): ("dilation_conv", "1"),
    (Engine.NE, "psum"): ("inpsum_en", "1"),
    (Engine.NE, "bias"): ("bias_en", "1"),
    (Engine.NE, "scale_p"): ("scale_en", "1"),
    (Engine.NE, "scale_n"): ("scale_en", "1"),
    (Engine.NE, "relu_en"): ("lrelu_en", "value ? 0 : p->lrelu_en"),
    (Engine.NE, "lrelu_en"): ("relu_en", "value ? 0 : p->relu_en"),
}
"""Flags that a setter sets in addition to its field: the vendor's setters do so for the dilation, the scales
and the two activations (spec); psum and bias likewise (proposed)."""

_NO_SETTER = ("inter_type", "cmd_valid", "wb_data0", "wb_data1")
_STORED_BY_HARDWARE = ("wb_data0", "wb_data1")


def engine_packets() -> tuple[Packet, ...]:
    """One packet for each C type."""
    return tuple(p for p in PACKETS.values() if p.engine is not Engine.WDMA)


def groups(packet: Packet) -> dict[str, tuple[PacketField, ...]]:
    """Separate the fields of the control register from the others, by structure name in the packet."""
    fields = [f for f in packet.fields if f.register >= 0]
    return {
        "ctrl": tuple(f for f in fields if f.register == packet.control),
        "param": tuple(f for f in fields if f.register != packet.control),
    }


def structure(packet: Packet) -> str:
    """Write the struct and assert its layout. Each field has two names: ``p.src0``, ``p.param.src0``."""
    defines, unions = [], []
    checks = [f'_Static_assert(sizeof({packet.name}) == {packet.size}, "{packet.name}");\n']
    for group, fields in groups(packet).items():
        macro = f"TX8_{packet.name.upper()}_{group.upper()}"
        members = "".join(f" \\\n    {_declared(f)}" for f in fields)
        defines.append(f"#define {macro}{members}\n")
        unions.append(f"    union {{ struct {{ {macro} }}; struct {{ {macro} }} {group}; }};\n")
        checks += [_offset_check(packet, name, f) for f in fields for name in (f.name, f"{group}.{f.name}")]
    outside = [f for f in packet.fields if f.register < 0]
    checks += [_offset_check(packet, f.name, f) for f in outside]
    first = "".join(f"    {_declared(f)}\n" for f in outside)
    return (
        f"{''.join(defines)}typedef struct {{\n{first}{''.join(unions)}}} {packet.name};\n{''.join(checks)}"
    )


def _declared(field: PacketField) -> str:
    return f"uint{8 * field.bytes}_t {field.name};"


def _offset_check(packet: Packet, name: str, field: PacketField) -> str:
    return f'_Static_assert(offsetof({packet.name}, {name}) == {field.offset}, "{packet.name}.{name}");\n'


def setters(packet: Packet) -> Iterator[str]:
    """Write a setter for every field that a program sets."""
    for field in packet.fields:
        if field.name in _NO_SETTER or field.end_of:
            continue
        head = f"tx8_{PREFIXES[packet.engine]}_{field.name}({packet.name} *p, uint{8 * field.bytes}_t"
        if field.unit is Unit.TRIPS_LESS_ONE:
            yield f"static inline void {head} trips) {{ p->{field.name} = trips - 1; }}\n"
            continue
        also = EFFECTS.get((packet.engine, field.name))
        effect = f" p->{also[0]} = {also[1]};" if also else ""
        yield f"static inline void {head} value) {{ p->{field.name} = value;{effect} }}\n"


def execute(packet: Packet) -> str:
    """Write the function that stores the operands, then the control word with its valid bit."""
    name = _name(packet)
    worker = ", unsigned worker" if packet.engine is Engine.SCALAR else ""
    window = "worker" if worker else "tx8_worker_of(p->inter_type)"
    lines = [f"static inline void tx8_{name}_execute({packet.name} *p{worker}) {{"]
    lines.append(f"    const uintptr_t window = tx8_window({window});")
    if packet.ends():
        lines.append(f"    tx8_{name}_ends(p);")
    for register in packet.registers:
        fields = [f for f in packet.fields if f.register == register and f.name not in _STORED_BY_HARDWARE]
        result = packet.engine is Engine.SCALAR and register == packet.field("dst").register
        if register != packet.control and fields and not result:
            lines.append(f"    tx8_put64(window + {register:#05x}, {_register_value(fields)});")
    control = [f for f in packet.fields if f.register == packet.control and f.name != "cmd_valid"]
    word = [_register_value(control)] if control else []
    valid = f"(uint64_t)1 << {packet.valid_bit}"
    lines.append("    tx8_fence();")
    lines.append(f"    tx8_put64(window + {packet.control:#05x}, {' | '.join([*word, valid])});")
    return "\n".join([*lines, "}", ""])


def _register_value(fields: list[PacketField]) -> str:
    """Write the expression of a register; fields that share it are masked to their width."""
    parts = []
    for field in sorted(fields, key=lambda f: f.shift):
        value = f"(uint64_t)p->{field.name}"
        if len(fields) > 1 and field.width < 8 * field.bytes:
            value = f"({value} & {field.mask:#x})"
        parts.append(f"{value} << {field.shift}" if field.shift else value)
    return " | ".join(parts)


def _name(packet: Packet) -> str:
    """Name an engine's functions. RDMA and WDMA share the type but have separate registers."""
    shared = packet.engine in (Engine.RDMA, Engine.WDMA)
    return packet.engine.name.lower() if shared else PREFIXES[packet.engine]


def constant(instruction: Instruction) -> str:
    """The C constant of an opcode: ct.add.vv is TX8_CT_ADD_VV."""
    return f"TX8_{instruction.mnemonic.upper().replace('.', '_')}"


def ends(packet: Packet, functions: Functions) -> str:
    """Write the function that fills in the last byte touched through each address (docs/c.md)."""
    records = [i for i in instructions() if i.engine is packet.engine]
    name = _name(packet)
    zero = "".join(f"    p->{end.name} = 0;\n" for _, end in packet.ends())
    head = f"static inline void tx8_{name}_ends({packet.name} *p) {{\n{zero}"
    if not packet.opcode:
        return f"{head}{_assignments(packet, records[0], functions, '    ')}}}\n"
    groups: dict[str, list[str]] = {}
    for record in records:
        text = _assignments(packet, record, functions, "        ")
        groups.setdefault(text, []).append(constant(record))
    cases = "".join(
        "".join(f"    case {name}:\n" for name in names) + text + "        break;\n"
        for text, names in groups.items()
    )
    return f"{head}    switch (p->{packet.opcode}) {{\n{cases}    default:\n        break;\n    }}\n}}\n"


def _assignments(packet: Packet, record: Instruction, functions: Functions, indent: str) -> str:
    ends = {address.name: end.name for address, end in packet.ends()}
    lengths = {o.field: _length(packet, record, o.extent, functions) for o in record.operands if o.extent}
    return "".join(
        f"{indent}p->{ends[field]} = tx8_last(p->{field}, {length});\n" for field, length in lengths.items()
    )


def _length(packet: Packet, record: Instruction, extent: Extent, functions: Functions) -> str:
    arguments = ", ".join(_argument(packet, record, a) for a in extent.arguments)
    return f"{functions.name(extent.length)}({arguments})"


def _argument(packet: Packet, record: Instruction, argument: str | int) -> str:
    """The C expression of an argument of an extent, read from the packet."""
    if isinstance(argument, int):
        return str(argument)
    if argument.startswith("@"):
        return f"tx8_format_bits(p->{record.operand(argument[1:]).field})"
    name, _, lane = argument.partition(".")
    operand = record.operand(name)
    field = packet.field(operand.field)
    value = f"(int64_t)p->{field.name}"
    if lane:
        return f"(int64_t)(p->{field.name} >> {operand.lane_shift(lane)} & {LANE_MASK:#x})"
    if field.unit is Unit.TRIPS_LESS_ONE:
        return f"{value} + 1"
    if field.unit is Unit.BYTES:
        return f"{value} * 8 / tx8_format_bits(p->{record.operand('format').field})"
    return value
