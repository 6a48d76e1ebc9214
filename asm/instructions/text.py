"""Instructions as text, derived from their records."""

from __future__ import annotations

from collections.abc import Mapping

from tx8isa.records.record import Engine, Operand
from tx8isa.riscv.format import Encoding
from tx8isa.riscv.registers import CSR_NAMES, FLOAT_REGISTER_NAMES, REGISTER_NAMES, ROUNDING_MODES
from tx8isa.table.encoding import DecodedInstruction, unpack_lanes


def quote(text: str) -> str:
    """A string in double quotes, as the assembler reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(map(_spelt, escaped))}"'


def _spelt(letter: str) -> str:
    """A letter in a string; the bytes of one that does not print, as octal numbers."""
    if letter.isprintable() or "\ud800" <= letter <= "\udfff":
        return letter
    return "".join(f"\\{byte:03o}" for byte in letter.encode())


def scalar_text(record: Encoding, values: Mapping[str, int], at: int, labels: Mapping[int, str]) -> str:
    """A scalar instruction; ``labels`` name addresses, any other target is a distance."""
    texts = {field.name: _field(field.name, field.kind, values[field.name]) for field in record.fields}
    if "target" in values:
        distance = values["target"]
        texts["target"] = labels.get(at + distance, f". {'-' if distance < 0 else '+'} {abs(distance)}")
    operands = []
    for operand in record.operands:
        name, _, base = operand.rstrip(")").partition("(")
        if operand != record.operands[-1] or record.omitted is None or values[name] != record.omitted:
            text = texts.get(name, name)
            operands.append(f"{text}({texts.get(base, base)})" if base else text)
    return f"{record.mnemonic} {', '.join(operands)}".rstrip()


def _field(name: str, kind: str, value: int) -> str:
    if kind == "register":
        return REGISTER_NAMES[value]
    if kind == "float":
        return FLOAT_REGISTER_NAMES[value]
    if kind == "rounding":
        return next(mode for mode, code in ROUNDING_MODES.items() if code == value)
    if kind == "csr":
        return CSR_NAMES.get(value, f"{value:#x}")
    if kind == "order":
        return "".join(letter for bit, letter in enumerate("iorw") if value & 8 >> bit) or "0"
    return f"{value:#x}" if kind == "unsigned" and name == "imm" else str(value)


def wide_text(decoded: DecodedInstruction) -> str | None:
    """An engine instruction; None if it has bits that no text can produce."""
    instruction, fmt = decoded.instruction, decoded.format
    parts = []
    for index, operand in enumerate(instruction.operands):
        if operand.hidden or operand.name == "format":
            continue
        value, register = decoded.values[index], bool(decoded.registers >> index & 1)
        given = register or value != _default(decoded, operand)
        if operand.switched_by:
            switched = decoded.values[instruction.index(operand.switched_by)]
            if given and not switched:
                return None
            given = bool(switched)
        if given:
            text = REGISTER_NAMES[value] if register else _value(operand, value)
            parts.append(f"{operand.name}={text}")
    if decoded.worker:
        if instruction.engine is Engine.DTE:
            return None
        parts.append(f"worker={decoded.worker}")
    suffix = f".{fmt.token}" if fmt is not None else ""
    if fmt is not None and fmt not in instruction.formats:
        return None
    return f"{instruction.mnemonic}{suffix} {', '.join(parts)}".rstrip()


def _default(decoded: DecodedInstruction, operand: Operand) -> int | None:
    if isinstance(operand.default, str):
        return decoded.values[decoded.instruction.index(operand.default)]
    return operand.default


def _value(operand: Operand, value: int) -> str:
    for name, code in operand.choices:
        if code == value:
            return name
    if operand.lanes and value:
        return f"[{', '.join(map(str, unpack_lanes(operand, value)))}]"
    return f"{value:#x}" if operand.is_address or operand.scalar or operand.high >= 1 << 32 else str(value)
