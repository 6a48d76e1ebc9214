"""Saved states that claim, or unpack to, more than a run on the machine can have."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from chip_bench import TX81, chip
from emulator.chip.pause import Pause
from emulator.cli import main
from emulator.debug.snapshot import file as snapshot_file
from emulator.debug.snapshot.chip import save
from emulator.debug.snapshot.file import VERSION, decode, encode, most_bytes, read
from emulator.debug.snapshot.types import SnapshotError
from saved_runs import Run
from tx8isa.machine.description import Machine

SMALL = chip(1, 0x10000)
_HEADER = struct.Struct("<8sIIQQ")


def forged(payload: bytes, size: int, unpacked: int) -> bytes:
    """A file with a right checksum and such lengths."""
    return _HEADER.pack(b"TX8STATE", VERSION, zlib.crc32(payload), size, unpacked) + payload


def refusal(action: Callable[[], object], most: int) -> str:
    """Return the message; AssertionError if more than ``most`` bytes are allocated."""
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotError) as error:
            action()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_a_machine_allows_follows_from_its_memories() -> None:
    memories = TX81.ddr.bytes + TX81.tiles * TX81.spm.bytes
    assert memories < most_bytes(TX81) < 1.2 * memories
    assert most_bytes(SMALL) < most_bytes(TX81)


@pytest.mark.parametrize("machine", [SMALL, TX81])
@pytest.mark.parametrize("field", ["size", "unpacked"])
@pytest.mark.parametrize("excess", [1, 1 << 40, (1 << 64) - 1])
def test_a_claim_beyond_the_machine_is_refused_before_memory_is_taken(
    machine: Machine, field: str, excess: int, tmp_path: Path
) -> None:
    claim = min(most_bytes(machine) + excess, (1 << 64) - 1)
    lengths = {"size": 10, "unpacked": 10, field: claim}
    data = forged(b"0123456789", **lengths)
    what = "bytes of state" if field == "unpacked" else "packed bytes"
    expected = (
        f"its header promises {claim} {what}; one of machine {machine.name} has at most {most_bytes(machine)}"
    )
    assert refusal(lambda: decode(data, "s", machine), 1 << 20) == f"s: {expected}"
    (tmp_path / "s").write_bytes(data)
    assert refusal(lambda: read(tmp_path / "s", machine), 1 << 20).endswith(expected)


def test_a_claim_beyond_the_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}[name])
    data = forged(b"0", 1, 4_096_001)
    expected = "this host has 4096000 bytes of memory, load it on a larger one"
    assert refusal(lambda: decode(data, "s", TX81), 1 << 20).endswith(expected)
    assert "damaged" in refusal(lambda: decode(forged(b"0", 1, 4_096_000), "s", TX81), 1 << 20)


@pytest.mark.long
@pytest.mark.parametrize("promised", [1, 1000, 1 << 16])
def test_no_more_is_unpacked_than_promised(promised: int) -> None:
    """A payload of 100 KB that unpacks to 100 MB."""
    payload = zlib.compress(bytes(100 << 20), 9)
    assert len(payload) < 200_000
    data = forged(payload, len(payload), promised)
    found = refusal(lambda: decode(data, "s", TX81), 2 << 20)
    assert found == f"s: damaged: more than {promised} bytes of state are packed, its header says {promised}"


def test_less_than_promised_is_damage() -> None:
    payload = zlib.compress(b"abc")
    expected = "s: damaged: 3 bytes of state are packed, its header says 4"
    assert refusal(lambda: decode(forged(payload, len(payload), 4), "s", TX81), 1 << 20) == expected


@pytest.mark.parametrize("rest", [b"x", zlib.compress(b"more")])
def test_nothing_follows_what_is_packed(rest: bytes) -> None:
    payload = zlib.compress(b"abc") + rest
    assert "damaged" in refusal(lambda: decode(forged(payload, len(payload), 3), "s", TX81), 1 << 20)


def test_a_long_file_is_read_as_far_as_promised(tmp_path: Path) -> None:
    """A right header is followed by 100 MB more."""
    path = tmp_path / "s"
    path.write_bytes(forged(b"abc", 3, 3))
    os.truncate(path, 100 << 20)
    assert refusal(lambda: read(path, TX81), 4 << 20).endswith("damaged: it does not match its checksum")


def test_a_device_without_end_is_no_saved_state() -> None:
    assert "not a saved state" in refusal(lambda: read("/dev/zero", TX81), 4 << 20)


def test_lists_that_claim_to_be_long_take_no_memory() -> None:
    """MessagePack: an array that claims 4 thousand million items and has none."""
    records = b"\xdd\xff\xff\xff\xff"
    payload = zlib.compress(records)
    data = forged(payload, len(payload), len(records))
    assert refusal(lambda: decode(data, "s", TX81), 4 << 20).startswith("s: damaged: ")


def test_a_state_whose_memory_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unpacker:
        def decompress(self, data: bytes, most: int) -> bytes:
            raise MemoryError

    monkeypatch.setattr(snapshot_file.zlib, "decompressobj", Unpacker)
    assert refusal(lambda: decode(forged(b"0", 1, 5), "s", TX81), 1 << 20) == (
        "s: no memory is left for its 5 bytes of state"
    )


def test_a_right_state_is_read_with_its_machine(tmp_path: Path) -> None:
    run = Run("ring")
    run.system.run(pause=Pause(25))
    saved = save(run.system)
    (tmp_path / "s").write_bytes(encode(saved))
    assert read(tmp_path / "s", run.system.machine) == saved == read(tmp_path / "s")
    records = len(msgspec.msgpack.encode(saved))
    assert _HEADER.unpack_from(encode(saved))[4] == records <= most_bytes(run.system.machine)


def test_the_command_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import asm
    from asm.image import write_image

    monkeypatch.chdir(tmp_path)
    Path("p.bin").write_bytes(write_image(asm.assemble("_start: li a7, 93\n ecall\n")))
    Path("huge").write_bytes(forged(b"", 0, 1 << 50))
    assert main(["-q", "p.bin", "--load-state", "huge"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        "tx8emu: error: huge: its header promises 1125899906842624 bytes of state; one of"
    )
    assert error.count("\n") == 1
