"""The machine description: its facts, its schema, and every way a file can be wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from machine_files import Table, toml
from tx8isa.machine.description import TX81, Machine, MachineError, load_machine

SCHEMA = msgspec.json.schema(Machine)


def put(table: Table, key: str, value: object) -> None:
    """Set the value at a dotted key."""
    *path, last = key.split(".")
    for name in path:
        table = table[name]
    table[last] = value


def load_table(table: Table, folder: Path) -> Machine:
    path = folder / "m.toml"
    path.write_text(toml(table))
    return load_machine(path)


def message_of(table: Table, folder: Path) -> str:
    """The error for a spoilt description, without the file name; checks that it is one line of one file."""
    with pytest.raises(MachineError) as caught:
        load_table(table, folder)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{folder / 'm.toml'}: ")
    return text.removeprefix(f"{folder / 'm.toml'}: ")


def leaves(node: Table, key: str = "") -> Iterator[tuple[str, Table]]:
    """Every key with a plain value, and its part of the JSON Schema."""
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[1]]
    if "allOf" in node or "anyOf" in node:
        raise AssertionError(f"schema form not expected at {key}: {node}")
    if node.get("type") != "object":
        yield key, node
        return
    for name, child in node["properties"].items():
        yield from leaves(child, f"{key}.{name}" if key else name)


LEAVES = dict(leaves(SCHEMA))
OPTIONAL = {key for key in LEAVES if key.endswith((".least", ".most", "chips.good"))}
NUMBERS = {key: node for key, node in LEAVES.items() if node.get("type") in ("integer", "number")}


def test_tx81_is_the_documented_chip() -> None:
    m = load_machine()
    assert (m.name, m.grid.x, m.grid.y, m.tiles, m.tile.workers, m.tile.dte_blocks) == (
        "tx81",
        4,
        4,
        16,
        3,
        4,
    )
    assert (m.spm.bytes, m.spm.reserved, m.spm.banks, m.spm.bank_bytes) == (3 << 20, 0x2F0000, 8, 256)
    assert m.spm.reset_byte == 0xFF
    assert m.ddr.bytes == 64 << 30
    assert msgspec.structs.astuple(m.queues) == (6, 6, 6, 6, 4)
    at = m.windows
    assert (at.ddr_cached, at.ddr_uncached, at.ddr_engine) == (0x80000000, 0x180000000, 0x280000000)
    assert (at.spm_weak, at.spm_strong) == (0x30400000, 0x30800000)
    assert (at.dte, at.dte_stride, at.ncc, at.ncc_stride, at.pmu) == (
        0x400000,
        0x200,
        0x1000000,
        0x100000,
        0x590000,
    )


def test_peaks_agree_with_each_other() -> None:
    """Published twice in different units: as bytes of a 1024-bit port, and as card totals."""
    m = load_machine()
    ct, ne = m.engines.ct, m.engines.ne
    assert ct.fp16.value * 2 == ct.bf16.value * 2 == ct.fp32.value * 4 == m.spm.engine_rate.value == 1024 / 8
    assert m.spm.bank_rate.value == m.spm.bank_bytes
    assert ne.int8.value * m.tiles == 256e12
    assert ne.fp16.value * m.tiles == ne.bf16.value * m.tiles == ne.tf32.value * m.tiles == 128e12
    assert ne.fp32.value * m.tiles == pytest.approx(21e12, rel=0.02)
    step = m.engines.ne_array
    assert step.m * step.k * step.n == 1024
    assert (m.ddr.peak.value, m.noc.link_out.value, m.noc.link_in.value) == (200e9, 128e9, 128e9)
    assert (m.card.c2c_out.value, m.card.c2c_in.value, m.card.host.value) == (25e9, 25e9, 64e9)


def test_every_figure_says_where_it_is_from() -> None:
    figures = [key.removesuffix(".value") for key in NUMBERS if key.endswith(".value")]
    assert len(figures) == 19 + 65  # those of ``timing`` stand in test_time_costs.py
    for key in figures:
        node: Any = load_machine()
        for name in key.split("."):
            node = getattr(node, name)
        assert node.evidence in ("spec", "board", "inferred", "assumed")
        assert node.source
    assert load_machine().ddr.nominal.evidence == "board"


def test_tile_numbers() -> None:
    m = load_machine()
    assert [m.tile_xy(tile) for tile in (0, 1, 4, 7, 15)] == [(0, 0), (0, 1), (1, 0), (1, 3), (3, 3)]
    assert sorted(m.tile_xy(tile) for tile in range(16)) == [(x, y) for x in range(4) for y in range(4)]
    assert [m.hartid(0, 15), m.hartid(1, 0), m.hartid(3, 5)] == [15, 16, 53]
    for tile in (-1, 16):
        with pytest.raises(MachineError, match=rf"^tile {tile}: expected 0\.\.15 on machine tx81$"):
            m.tile_xy(tile)
        with pytest.raises(MachineError, match=f"tile {tile}"):
            m.hartid(0, tile)


def test_tile_numbers_of_a_grid_that_is_not_square(table: Table, tmp_path: Path) -> None:
    put(table, "grid.x", 2)
    put(table, "grid.y", 3)
    m = load_table(table, tmp_path)
    assert m.tiles == 6
    assert [m.tile_xy(tile) for tile in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_memory_map_is_sorted_and_disjoint() -> None:
    windows = load_machine().memory_map()
    names = "spm dte pmu ncc spm_weak spm_strong ddr_cached ddr_uncached ddr_engine"
    assert " ".join(w.name for w in windows) == names
    for low, high in pairwise(windows):
        assert low.base + low.size <= high.base
    sizes = {w.name: w.size for w in windows}
    assert sizes["spm"] == sizes["spm_weak"] == sizes["spm_strong"] == 3 << 20
    assert sizes["ddr_cached"] == sizes["ddr_uncached"] == 4 << 30
    assert (sizes["ddr_engine"], sizes["ncc"]) == (64 << 30, 3 * 0x100000)


def test_memory_map_of_a_small_ddr(table: Table, tmp_path: Path) -> None:
    put(table, "ddr.bytes", 1 << 30)
    sizes = {w.name: w.size for w in load_table(table, tmp_path).memory_map()}
    assert sizes["ddr_cached"] == sizes["ddr_uncached"] == sizes["ddr_engine"] == 1 << 30


def test_machine_is_a_value(table: Table, tmp_path: Path) -> None:
    m = load_machine()
    assert m == load_machine(TX81) == load_machine(str(TX81)) == load_table(table, tmp_path)
    assert len({m, load_machine()}) == 1
    with pytest.raises(AttributeError):
        m.spm.bytes = 0  # type: ignore[misc]


def test_schema_accepts_the_packaged_file_and_is_valid(table: Table) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(table)
    keys = {line.split(" = ")[0] for line in toml(table).splitlines()}
    assert keys <= set(LEAVES)
    assert set(LEAVES) - keys < OPTIONAL
    assert all("minimum" in node and "maximum" in node for node in NUMBERS.values())


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("side", ["minimum", "maximum"])
def test_ranges_end_where_the_schema_says(key: str, side: str, table: Table, tmp_path: Path) -> None:
    """One step outside is refused by key, by parser and schema alike; the bound itself is in range."""
    node = NUMBERS[key]
    step = node.get("multipleOf", 1) if node["type"] == "integer" else node[side] / 2 or 1
    bound = node[side]
    beyond = bound - step if side == "minimum" else bound + step
    validator = jsonschema.Draft202012Validator(SCHEMA)
    put(table, key, beyond)
    message = message_of(table, tmp_path)
    assert message.startswith(f"key {key}: found ")
    assert f", expected {'an integer' if node['type'] == 'integer' else 'a number'} from " in message
    assert not validator.is_valid(table)
    put(table, key, bound)
    assert validator.is_valid(table)
    try:
        load_table(table, tmp_path)
    except MachineError as error:  # in range, but it may contradict another key
        assert not re.search(rf"key {re.escape(key)}: found .* from .* to ", str(error))


@pytest.mark.parametrize("key", [key for key, node in NUMBERS.items() if node.get("multipleOf", 1) > 1])
def test_granularity(key: str, table: Table, tmp_path: Path) -> None:
    put(table, key, NUMBERS[key]["minimum"] + NUMBERS[key]["multipleOf"] + 1)
    message = message_of(table, tmp_path)
    assert message.startswith(f"key {key}: found ")
    step = NUMBERS[key]["multipleOf"]
    assert message.endswith(f", a multiple of {step:#x}" if step >= 4096 else f", a multiple of {step}")


@pytest.mark.parametrize("key", LEAVES)
def test_another_type_is_refused(key: str, table: Table, tmp_path: Path) -> None:
    put(table, key, True)
    assert message_of(table, tmp_path).startswith(f"key {key}: found True, expected ")


@pytest.mark.parametrize("key", [key for key in LEAVES if key not in OPTIONAL])
def test_every_key_is_needed(key: str, table: Table, tmp_path: Path) -> None:
    *path, last = key.split(".")
    inner = table
    for name in path:
        inner = inner[name]
    inner["zzzzzz"] = inner.pop(last)
    message = message_of(table, tmp_path)
    prefix = ".".join([*path, ""])
    assert message.startswith(f"key {prefix}zzzzzz: unknown, expected one of ")
    assert f"; key {key}: missing, expected " in message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("spm.bytes", 0, "found 0, expected an integer from 256 to 0x100000000, a multiple of 256"),
        ("spm.reset_byte", 256, "found 256, expected an integer from 0 to 255"),
        ("grid.x", 4.5, "found 4.5, expected an integer from 1 to 256"),
        ("grid.y", "4", "found '4', expected an integer from 1 to 256"),
        ("grid.y", [4], "found an array, expected an integer from 1 to 256"),
        ("grid.y", {"n": 4}, "found a table, expected an integer from 1 to 256"),
        ("queues.ct", 1 << 70, f"found {1 << 70:#x}, expected an integer from 1 to 255"),
        ("name", "", "found '', expected a non-empty string"),
        ("engines.clock.unit", "MHz", "found 'MHz', expected 'Hz'"),
        ("ddr.peak.unit", "bit/s", "found 'bit/s', expected 'byte/s'"),
        ("ddr.peak.evidence", "sure", "found 'sure', expected 'spec' or 'board' or 'inferred' or 'assumed'"),
        ("ddr.peak.source", "", "found '', expected a non-empty string"),
        ("ddr.peak", 200, "found 200, expected a table"),
        ("noc", "fast", "found 'fast', expected a table"),
        ("spm.reserved", 0x300100, "found 0x300100, expected at most 0x300000 (spm.bytes)"),
        ("spm.banks", 7, None),
        ("ddr.nominal.most", 201e9, "found 201000000000.0, expected at most 200000000000.0 (ddr.peak.value)"),
        (
            "ddr.nominal.least",
            151e9,
            "found 151000000000.0, expected at most 150000000000.0 (ddr.nominal.value)",
        ),
        (
            "windows.pmu",
            0x1200000,
            "found 0x1200000..0x120ffff, expected it apart from ncc at 0x1000000..0x12fffff",
        ),
        ("windows.dte", 0, "found 0x0..0xfff, expected it apart from spm at 0x0..0x2fffff"),
        (
            "windows.ddr_engine",
            0x7080000000,
            "found 0x7080000000..0x807fffffff, expected an end below 0x8000000000",
        ),
    ],
)
def test_messages(key: str, value: object, message: str | None, table: Table, tmp_path: Path) -> None:
    put(table, key, value)
    expected = "spm.bytes: found 0x300000, expected a multiple of 1792 (spm.banks x spm.bank_bytes)"
    assert message_of(table, tmp_path) == "key " + (f"{key}: {message}" if message else expected)


def test_value_and_range_are_held_against_the_peak(table: Table, tmp_path: Path) -> None:
    put(table, "ddr.nominal.value", 201e9)
    assert message_of(table, tmp_path) == (
        "key ddr.nominal.most: found 164000000000.0, expected at least 201000000000.0 (ddr.nominal.value); "
        "key ddr.nominal.value: found 201000000000.0, expected at most 200000000000.0 (ddr.peak.value)"
    )


def test_a_larger_scratchpad_needs_room(table: Table, tmp_path: Path) -> None:
    put(table, "spm.bytes", 5 << 20)
    assert message_of(table, tmp_path) == (
        "key windows.dte: found 0x400000..0x400fff, expected it apart from spm at 0x0..0x4fffff; "
        "key windows.spm_strong: found 0x30800000..0x30cfffff, "
        "expected it apart from spm_weak at 0x30400000..0x308fffff"
    )
    put(table, "windows.spm_strong", 0x31000000)
    put(table, "windows.dte", 0x700000)
    put(table, "windows.pmu", 0x800000)
    assert load_table(table, tmp_path).spm.bytes == 5 << 20


def test_dte_window_holds_its_blocks(table: Table, tmp_path: Path) -> None:
    put(table, "windows.dte_stride", 0x1000)
    allowed = "expected at least 0x4000 (tile.dte_blocks x windows.dte_stride)"
    assert message_of(table, tmp_path) == f"key windows.dte_bytes: found 0x1000, {allowed}"


def test_all_faults_are_reported_and_near_misses_suggested(table: Table, tmp_path: Path) -> None:
    table["quues"] = table.pop("queues")
    table["spm"]["bytez"] = 1
    table["grid"]["x"] = 0
    assert message_of(table, tmp_path).split("; ") == [
        "key quues: unknown, did you mean 'queues'?",
        "key grid.x: found 0, expected an integer from 1 to 256",
        "key spm.bytez: unknown, did you mean 'bytes'?",
        "key queues: missing, expected a table",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"name = ", r"not a TOML file: Invalid value \(at end of document\)"),
        (b"[grid]\nx = 1\nx = 2\n", r"not a TOML file: .*\(at line 3, column 6\)"),
        (b"name = '\xff'", "not a TOML file: byte 8 is not UTF-8 text"),
        (b'"a\\nb" = 1', r"key 'a\\nb': unknown, expected one of name grid tile "),
        (
            b"engines.clock.value = nan",
            ".*key engines.clock.value: found nan, expected a number from 1e-06 to 1e",
        ),
        (
            b"engines.clock.value = inf",
            ".*key engines.clock.value: found inf, expected a number from 1e-06 to 1e",
        ),
        (b"", "key name: missing, expected a non-empty string; key grid: missing, expected a table; "),
    ],
)
def test_files_that_are_no_description(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_bytes(data)
    with pytest.raises(MachineError, match=f"^{re.escape(str(path))}: {message}") as caught:
        load_machine(path)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"none\.toml: cannot read the machine description: No such file"):
        load_machine(tmp_path / "none.toml")
    with pytest.raises(MachineError, match="cannot read the machine description: Is a directory"):
        load_machine(tmp_path)


def test_machine_does_not_load_numpy_nor_read_a_file() -> None:
    program = (
        "import sys, tx8isa.machine.description; print({'numpy', 'tomllib', 'difflib'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
