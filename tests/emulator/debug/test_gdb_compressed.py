"""The debugger on compressed instructions: breakpoints of two bytes, steps, watchpoints, time backwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator import program
from gdb_tools import Client, assembled, serving

TEXT = """\
        csrr    t0, mhartid
        bnez    t0, end
        li      s0, 0x30420000
        c.li    a1, 3
loop:   c.sw    a1, 4(s0)
        addi    a2, a2, 5
here:   c.addi  a1, -1
        c.bnez  a1, loop
        c.lw    a3, 4(s0)
end:    li      a0, 0
        li      a7, 93
        ecall
"""


def at(client: Client, answer: str) -> int:
    """Return the pc of thread 1, which has stopped."""
    assert answer.startswith("T05") and answer.endswith("thread:1;"), answer
    return int.from_bytes(bytes.fromhex(client.ask("p20")), "little")


def test_breakpoints_and_steps(tmp_path: Path) -> None:
    path = assembled(tmp_path, TEXT)
    symbols = program.load(path).image.symbols
    loop, here = symbols["loop"].address, symbols["here"].address
    assert here - loop == 6 and (loop % 4 == 2 or here % 4 == 2)
    with serving(path) as server, Client(server) as client:
        for place in (loop, here):
            assert client.ask(f"Z0,{place:x},2") == "OK"
        found = []
        for _ in range(3):  # a client steps over a breakpoint before it continues
            found += [at(client, client.ask(packet)) for packet in ("vCont;c:1", "vCont;s:1")]
        assert found == [loop, loop + 2, here, here + 2, loop, loop + 2]
        for place in (loop, here):
            assert client.ask(f"z0,{place:x},2") == "OK"
        found = [at(client, client.ask("vCont;s:1")) for _ in range(4)]
        assert found == [here, here + 2, loop, loop + 2]
        assert client.ask(f"P20={here.to_bytes(8, 'little').hex()}") == "OK"
        assert at(client, client.ask("vCont;s:1")) == here + 2
        assert client.ask("vCont;c") == "W00"


@pytest.mark.long
def test_watchpoints_and_going_back(tmp_path: Path) -> None:
    path = assembled(tmp_path, TEXT)
    loop = program.load(path).image.symbols["loop"].address
    with serving(path) as server, Client(server) as client:
        assert client.ask("Z2,30420004,4") == "OK"
        for left in (3, 2, 1):
            answer = client.ask("vCont;c:1")
            assert "watch:30420004" in answer
            assert int.from_bytes(bytes.fromhex(client.ask("pb")), "little") == left
        assert client.ask("z2,30420004,4") == "OK"
        before = at(client, "T05thread:1;")
        assert before == loop, "a write is shown before it happens"
        assert at(client, client.ask("bs")) == loop + 8, "the branch back to the loop"
        assert at(client, client.ask("bs")) == loop + 6
        assert client.ask("vCont;c") == "W00"
