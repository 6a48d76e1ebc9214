"""Descriptions of several chips: packaged ones, derived ones, and refusals."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tx8isa.machine.description import MachineError, load_machine, packaged_machine
from tx8isa.machine.identity import described, differences, identity


def read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "m.toml"
    path.write_text(f'like = "tx81"\nname = "m"\n{text}', encoding="utf-8")
    return load_machine(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(MachineError) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'm.toml'}: ")
    return message.removeprefix(f"{tmp_path / 'm.toml'}: ")


@pytest.mark.parametrize(("name", "x", "y"), [("tx81", 1, 1), ("tx81-2x1", 2, 1), ("tx81-4x8", 4, 8)])
def test_the_descriptions_that_ship(name: str, x: int, y: int) -> None:
    found, one = load_machine(name), load_machine()
    assert found is load_machine(name) is packaged_machine(name)
    chips = found.chips
    assert not isinstance(chips, msgspec.UnsetType)
    assert (found.name, found.chip_count, chips.count, chips.shape) == (name, x * y, x * y, "mesh")
    assert (chips.x, chips.y, chips.latency.evidence, chips.latency.unit) == (x, y, "assumed", "cycle")
    assert (chips.latency.least, chips.latency.value, chips.latency.most) == (300, 1000, 3000)
    assert msgspec.structs.replace(found, name="tx81", chips=one.chips) == one
    assert identity(found) == name
    assert described(name, "an image") == found


def test_numbers_and_coordinates_are_those_of_tiles() -> None:
    chips = load_machine("tx81-4x8").chips
    assert not isinstance(chips, msgspec.UnsetType)
    assert [chips.xy(number) for number in (0, 1, 8, 31)] == [(0, 0), (0, 1), (1, 0), (3, 7)]
    assert [chips.number(x, y) for x in range(4) for y in range(8)] == list(range(32))
    assert [chips.number(*xy) for xy in ((4, 0), (0, 8), (-1, 0))] == [None] * 3
    assert load_machine("tx81-4x8").hartid(31, 15) == 511


def test_good_tiles(tmp_path: Path) -> None:
    found = read(tmp_path, "[chips]\nx = 2\ny = 1\ngood = [0xFFFF, 0x00FF]\n")
    chips = found.chips  # type: ignore[attr-defined]
    assert [chips.good_tiles(number, 16) for number in (0, 1)] == [0xFFFF, 0xFF]
    assert load_machine("tx81-2x1").chips.good_tiles(1, 16) == 0xFFFF  # type: ignore[union-attr]


def test_a_description_like_another_one_has_its_other_keys(tmp_path: Path) -> None:
    found = read(tmp_path, "[spm]\nbanks = 4\n[card]\nc2c_out = { value = 50e9 }\n")
    one = load_machine()
    assert (found.spm.banks, found.spm.bytes) == (4, one.spm.bytes)  # type: ignore[attr-defined]
    out = found.card.c2c_out  # type: ignore[attr-defined]
    assert (out.value, out.unit, out.evidence) == (50e9, one.card.c2c_out.unit, one.card.c2c_out.evidence)


def test_more_chips_of_a_machine() -> None:
    found = load_machine().of_chips(2, 3)
    assert (found.name, found.chip_count) == ("tx81 x 2x3", 6)
    assert differences(load_machine("tx81-2x1"), found) == ["chips.y is 1, 3 on tx81 x 2x3"]
    assert differences(load_machine(), found) == []
    with pytest.raises(
        MachineError, match=r"^6x6 chips of machine tx81: key chips: found 6 x 6 chips, .* 32$"
    ):
        load_machine().of_chips(6, 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chips]\nx = 33\n", "key chips.x: found 33, expected an integer from 1 to 32"),
        ("[chips]\nx = 8\ny = 8\n", "key chips: found 8 x 8 chips, expected at most 32"),
        ('[chips]\nshape = "ring"\n', "key chips.shape: found 'ring', expected 'mesh' or 'torus'"),
        (
            "[chips]\nlatency = { value = 0, least = 0 }\n",
            "key chips.latency: found 0, expected more: nothing",
        ),
        ("[chips]\ngood = [1, 2]\n", "key chips.good: found 2 bit maps, expected 1 (chips.x x chips.y)"),
        (
            "[chips]\ngood = [0x10000]\n",
            "key chips.good[0]: found 0x10000, expected a number from 1 to 0xffff",
        ),
        ("[chips]\ngood = 3\n", "key chips.good: found 3, expected an array of integers"),
        ("[chips]\nhops = 3\n", "key chips.hops: unknown, expected one of x y shape latency good"),
        (
            "[chips]\nx = 2\n[grid]\nx = 5\n",
            "key grid: found 20 tiles, expected at most 16 on one of several chips",
        ),
        (
            "[chips]\nx = 2\n[ddr]\nbytes = 0x1000_0000\n",
            "key chips: found 2 chips, expected DDR that the core sees at the table of cards at "
            "0x17f000000..0x17f0007ff",
        ),
    ],
)
def test_what_a_description_of_chips_must_not_say(text: str, message: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text).startswith(message)


def test_like_what_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('like = "tx82"\n', encoding="utf-8")
    with pytest.raises(MachineError, match=r"key like: found 'tx82', expected one of tx81 tx81-2x1 tx81-4x8"):
        load_machine(path)
    path.write_text("like = 3\n", encoding="utf-8")
    with pytest.raises(MachineError, match=r"key like: found 3, expected one of tx81"):
        load_machine(path)
