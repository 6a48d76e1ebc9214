"""The generated C header: up to date, laid out as the packets say, its end addresses those of the records."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import asm
from c_tools import HEADERS, build, compile_object, needs_gcc, run_with
from tx8isa.c import header as c_header
from tx8isa.c.functions import Functions, Untranslatable
from tx8isa.c.packets import EFFECTS, PREFIXES, constant, engine_packets
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.records.record import Engine, Instruction
from tx8isa.table import encoding
from tx8isa.table.packets import PACKETS, Packet, PacketField, Unit
from tx8isa.table.registry import instructions
from tx8isa.table.scalar import decode

LIMIT = 1 << 45


def test_the_header_is_what_the_records_say() -> None:
    assert c_header.TARGET.read_text(encoding="utf-8") == c_header.page(), "run python -m tx8isa.c.header"


def test_check_reports_a_stale_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    stale = tmp_path / "tx8_packets.h"
    stale.write_text(c_header.page() + "/* edited */\n")
    monkeypatch.setattr(c_header, "TARGET", stale)
    assert c_header.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "tx8_packets.h differs from the records: run python -m tx8isa.c.header\n"
    )
    assert c_header.main([]) == 0
    assert c_header.main(["--check"]) == 0


def test_usage(capsys) -> None:
    assert c_header.main(["--chek"]) == 2
    assert capsys.readouterr().err == "usage: python -m tx8isa.c.header [--check | --where]\n"
    assert c_header.main(["--where"]) == 0
    assert Path(capsys.readouterr().out.strip(), "tx8.h").exists()


# --- compiled -----------------------------------------------------------------------------


@needs_gcc
@pytest.mark.parametrize("optimise", ["-O0", "-O2"])
def test_the_headers_compile_without_a_warning(optimise: str, tmp_path: Path) -> None:
    flags = ["-ffreestanding", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", optimise]
    compile_object("#include <tx8.h>\nvoid f(CT_Param *p) { tx8_execute(p); }\n", tmp_path, flags)


@needs_gcc
def test_maintenance_of_the_cache_is_what_the_records_say(tmp_path: Path) -> None:
    """GCC's assembler writes the instructions by their fields; loops go over all lines of an object."""
    source = """#include <tx8.h>
        void lines(void *p) { tx8_clean(p, 65); tx8_invalidate(p, 65); }
        void whole(void) { tx8_clean_all(); tx8_invalidate_all(); }
    """
    path = compile_object(source, tmp_path, ["-ffreestanding", "-Os", "-march=rv64imfd_zicsr_zifencei"])
    with path.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text").data()
    found = [decode(word) for (word,) in struct.iter_unpack("<I", text)]
    names = [each[0].mnemonic for each in found if each and each[0].kind in ("cache", "cache line", "fence")]
    cleaned = ["th.dcache.call", "th.dcache.ciall", "th.dcache.cva", "th.dcache.iva"]
    assert sorted(names) == ["fence"] * 4 + cleaned, "GCC chooses where the code of a loop is"


@needs_gcc
def test_layout_as_gcc_sees_it(tmp_path: Path) -> None:
    packets = engine_packets()
    names = [(p.name, f.name) for p in packets for f in p.fields]
    values = [f"offsetof({p}, {f}), sizeof((({p} *)0)->{f})" for p, f in names]
    values += [f"sizeof({p.name})" for p in packets]
    source = f"#include <tx8.h>\nconst uint32_t table[] = {{{', '.join(values)}}};\n"
    assert constants(source, tmp_path) == [
        *(number for p in packets for f in p.fields for number in (f.offset, f.bytes)),
        *(p.size for p in packets),
    ]


def constants(source: str, folder: Path) -> list[int]:
    """The 32-bit words of the constant ``table`` of a C text."""
    compiled, raw = compile_object(source, folder, []), folder / "table.bin"
    tool = shutil.which("riscv64-unknown-elf-objcopy") or "objcopy"
    subprocess.run([tool, "-O", "binary", "-j", ".rodata*", str(compiled), str(raw)], check=True)
    data = raw.read_bytes()
    return [word for (word,) in struct.iter_unpack("<I", data)]


@needs_gcc
def test_opcodes_as_gcc_sees_them(tmp_path: Path) -> None:
    records = [i for i in instructions() if i.engine in PACKETS and PACKETS[i.engine].opcode]
    names = ", ".join(constant(i) for i in records)
    source = f"#include <tx8.h>\nconst uint32_t table[] = {{{names}}};\n"
    assert constants(source, tmp_path) == [i.opcode for i in records]


# --- end addresses ------------------------------------------------------------------------


def example_values(record: Instruction) -> encoding.DecodedInstruction:
    image = asm.assemble(record.example)
    decoded = encoding.decode(next(s.data for s in image.segments if s.section == ".text"))
    assert isinstance(decoded, encoding.DecodedInstruction)
    return decoded


def packed_field(field: PacketField, value: int, bits: int) -> int:
    if field.unit is Unit.TRIPS_LESS_ONE:
        return value - 1
    return value * bits // 8 if field.unit is Unit.BYTES else value


def packet_bytes(packet: Packet, record: Instruction, values: tuple[int, ...]) -> bytes:
    """The packet of an instruction, its ends left 0xEE."""
    data = bytearray(packet.size)
    fmt = next((v for o, v in zip(record.operands, values, strict=True) if o.name == "format"), 0)
    contents = {
        o.field: packed_field(packet.field(o.field), v, STORAGE_BITS[fmt])
        for o, v in zip(record.operands, values, strict=True)
    }
    contents["inter_type"] = int(record.engine)
    if packet.opcode:
        contents[packet.opcode] = record.opcode
    for field in packet.fields:
        value = 0xEE if field.end_of else contents.get(field.name, 0)
        data[field.offset : field.offset + field.bytes] = value.to_bytes(field.bytes, "little")
    return bytes(data)


def expected_ends(packet: Packet, record: Instruction, values: tuple[int, ...]) -> dict[str, int]:
    found = {end.name: 0 for _, end in packet.ends()}
    names = {address.name: end.name for address, end in packet.ends()}
    for operand, value in zip(record.operands, values, strict=True):
        if operand.extent is not None:
            arguments = encoding.argument_values(record, operand.extent.arguments, values)
            length = operand.extent.length(*arguments)
            found[names[operand.field]] = value + length - 1 if length else 0
    return found


@needs_gcc
def test_end_addresses_are_those_of_the_extents(tmp_path: Path) -> None:
    """Every record's example, as a packet, through the C functions on the emulated core."""
    engines = [e for e in PACKETS if PACKETS[e].ends()]
    arrays, calls, inputs, expected = [], [], {}, {}
    for engine in engines:
        packet, records = PACKETS[engine], [i for i in instructions() if i.engine is engine]
        name = engine.name.lower()
        values = [example_values(r).values for r in records]
        inputs[name] = b"".join(packet_bytes(packet, r, v) for r, v in zip(records, values, strict=True))
        expected[name] = [expected_ends(packet, r, v) for r, v in zip(records, values, strict=True)]
        arrays.append(f"{packet.name} {name}[{len(records)}];")
        function = name if engine in (Engine.RDMA, Engine.WDMA) else PREFIXES[engine]
        calls.append(f"for (int i = 0; i < {len(records)}; i++) tx8_{function}_ends(&{name}[i]);")
    body = "if (tx8_tile() == 0) { " + " ".join(calls) + " }"
    source = f"#include <tx8.h>\n{' '.join(arrays)}\nint main(void) {{ {body} return 0; }}\n"
    program = build(source, tmp_path)
    outputs, _ = run_with(program, inputs, {name: len(data) for name, data in inputs.items()})
    for engine in engines:
        packet, name = PACKETS[engine], engine.name.lower()
        for number, ends in enumerate(expected[name]):
            data = outputs[name][number * packet.size :][: packet.size]
            found = {
                f.name: int.from_bytes(data[f.offset : f.offset + f.bytes], "little")
                for f in packet.fields
                if f.end_of
            }
            assert found == ends, (name, number)


def test_setters_do_what_they_also_do() -> None:
    text = (HEADERS / "tx8_packets.h").read_text()
    for (engine, field), (other, _) in EFFECTS.items():
        assert f"tx8_{PREFIXES[engine]}_{field}(" in text
        assert PACKETS[engine].field(other).bytes == 1


# --- translation --------------------------------------------------------------------------


def rows(count: int, width: int) -> int:
    """Loops, branches and calls."""
    size, twice = 4, 2 * width
    while size < width:
        size *= 2
    if count % 2 == 0 and not width > LIMIT:
        size = size // 3 + -count
    elif count < 3:
        size |= 1 << count
    else:
        size = size ^ width
    return max(size, count, 7, twice) * (halved(count) if 0 < count < 9 else 3)


def halved(register: int) -> int:
    """Its argument is a keyword of C."""
    return register >> 1


def text(words: int) -> str:
    return str(words)


def listed(words: int) -> int:
    return [words][0]


def branch(words: int) -> int:
    if words:
        inner = words + 1
        return inner * inner
    return 2


@needs_gcc
def test_translated_functions_compute_the_same(tmp_path: Path) -> None:
    functions = Functions()
    name = functions.name(rows)
    assert name == functions.name(rows) and len(functions.definitions) == 2
    loops = "for (int i = 0; i < 12; i++) for (int j = 0; j < 40; j++)"
    body = f"if (tx8_tile() == 0) {loops} table[i][j] = {name}(i, j);"
    source = f"#include <tx8.h>\nint64_t table[12][40];\n{''.join(functions.definitions)}"
    program = build(f"{source}int main(void) {{ {body} return 0; }}\n", tmp_path)
    outputs, _ = run_with(program, {}, {"table": 12 * 40 * 8})
    expected = [rows(i, j) for i in range(12) for j in range(40)]
    assert list(struct.unpack("<480q", outputs["table"])) == expected


def test_functions_of_one_name_are_refused() -> None:
    functions = Functions()
    functions.name(rows)
    other: dict[str, object] = {"__name__": __name__}
    exec("def rows(n):\n    return n\n", other)
    with pytest.raises(Untranslatable, match=r"test_c_header\.rows: 'tx8_bytes_test_c_header_rows' is taken"):
        functions.name(other["rows"])  # type: ignore[arg-type]


def swapped(words: int, others: int) -> int:
    words, others = others, words
    return words - others


@pytest.mark.parametrize("function", [text, listed, branch, swapped, len])
def test_what_has_no_translation(function) -> None:
    with pytest.raises(Untranslatable):
        Functions().name(function)
