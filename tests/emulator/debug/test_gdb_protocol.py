"""The packets of ``tx8emu --gdb``: valid requests, and clients that are not a debugger, or leave."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from emulator import cli, program
from emulator.chip.system import System
from emulator.debug.gdb.connection import user_of
from emulator.debug.gdb.run.scheduler import Action, DebugScheduler
from emulator.debug.gdb.run.stops import Ended
from gdb_tools import Client, Server, assembled, serving
from other_user import NOBODY, as_other_user

SUM = """\
        .output y, int32, 16
_start: csrr    t0, mhartid
        la      a0, y
        li      t1, 0x180000000
        li      t2, 0x280000000
        sub     a0, a0, t2
        add     a0, a0, t1
        slli    t3, t0, 2
        add     a0, a0, t3
        li      t4, 200000
loop:   addi    t4, t4, -1
        bnez    t4, loop
        addi    t5, t0, 100
        sw      t5, 0(a0)
        li      a0, 0
        li      a7, 93
        ecall
"""
EXPECTED = [100 + tile for tile in range(16)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembled(tmp_path_factory.mktemp("gdb"), SUM)


@pytest.fixture
def server(image: Path) -> Iterator[Server]:
    (image.parent / "out/y.npy").unlink(missing_ok=True)
    with serving(image, "--output-dir", "out") as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server) as connected:
        yield connected


@pytest.fixture(scope="module")
def stopped(image: Path) -> Iterator[Client]:
    """A client of a program that never continues; its tests leave no state to each other."""
    with serving(image) as server, Client(server) as connected:
        yield connected


def ran_on(server: Server, image: Path) -> str:
    """The messages of a program that came to its end without its debugger, its results written."""
    status, _, messages = server.end()
    assert status == 0, messages
    assert np.load(image.parent / "out/y.npy").tolist() == EXPECTED
    return messages


# --- questions ----------------------------------------------------------------------------


def test_what_is_known_is_answered(stopped: Client) -> None:
    assert "vContSupported+" in stopped.ask("qSupported:swbreak+")
    assert stopped.ask("?") == "T0520:0000008000000000;thread:1;"
    assert stopped.ask("qC") == "QC1"
    assert stopped.ask("qAttached") == "1"
    assert stopped.ask("qfThreadInfo") == "m" + ",".join(f"{n:x}" for n in range(1, 17))
    assert stopped.ask("qsThreadInfo") == "l"
    assert bytes.fromhex(stopped.ask("qThreadExtraInfo,10")) == b"tile 15: running"
    assert stopped.ask("vCont?") == "vCont;c;C;s;S;r"
    assert stopped.ask("T10") == "OK"
    assert stopped.ask("Hg3") == "OK" and stopped.ask("Hc-1") == "OK"
    assert stopped.ask("vMustReplyEmpty") == "" and stopped.ask("qNonsense") == "" and stopped.ask("!") == ""


def test_the_description_names_all_registers(stopped: Client) -> None:
    text, at = "", 0
    while True:
        part = stopped.ask(f"qXfer:features:read:target.xml:{at:x},400")
        text, at = text + part[1:], at + 0x400
        if part[0] == "l":
            break
    target = ET.fromstring(text)
    names = [register.get("name") for register in target.iter("reg")]
    assert names[:3] == ["zero", "ra", "sp"] and names[32] == "pc" and names[33] == "ft0"
    assert names[65:68] == ["fflags", "frm", "fcsr"] and "mhartid" in names and len(set(names)) == len(names)
    assert len(stopped.ask("g")) == 2 * 8 * 65
    stopped.ask("Hg6")
    assert stopped.ask(f"p{names.index('mhartid'):x}") == "0500000000000000"
    threads = ET.fromstring(stopped.ask("qXfer:threads:read::0,fff")[1:])
    assert [(t.get("id"), t.get("name")) for t in threads][15] == ("10", "tile 15: running")


TENSORS = """\
        .input  x, fp16, 2x3
        .output y, fp16, 2x3
_start: csrr    t0, mhartid
        bnez    t0, done
        rdma.fp16      dst=0x100, src=x, n=6
        ct.add.vv.fp16 dst=0x200, src0=0x100, src1=0x100, n=6
        wdma.fp16      dst=y, src=0x200, n=6
        ncc.wait
done:   ebreak
"""
X = np.arange(6, dtype=np.float16).reshape(2, 3)


def test_tensors_are_shown_and_saved(tmp_path: Path) -> None:
    """By name and by place, of SPM and DDR, in any layout; no file of the run is overwritten."""
    program = assembled(tmp_path, TENSORS)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "results.npy").write_bytes(b"of last week")
    (tmp_path / "linked.npy").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.npy")
    given = (tmp_path / "x.npy").read_bytes()
    with serving(program, "--input", "x=x.npy", "--output-dir", ".") as server, Client(server) as client:
        assert client.ask("vCont;c").startswith("T05")
        shown = "DDR 0x280001000: 2x3 fp16, ntensor\n[[0. 1. 2.]\n [3. 4. 5.]]\n"
        for spec in ("x", "ddr:0x280001000:fp16:2x3:ntensor"):
            assert client.monitor(f"tensor {spec}") == shown
        assert client.monitor("tensor 0:0x200:fp16:6").endswith("[ 0.  2.  4.  6.  8. 10.]\n")
        assert client.monitor("tensor 0:0x200:fp16:1x1x1x6:ncx cx.npy").endswith("ncx saved in cx.npy\n")
        assert client.monitor("tensor y y-now.npy").endswith("saved in y-now.npy\n")
        for file, what in (("x.npy", "an array of --input"), ("./y.npy", "output 'y' in --output-dir")):
            said = f"monitor: {file}: the tensor would replace {what}; name another file\n"
            assert client.monitor(f"tensor y {file}") == said
        for file in ("results.npy", "./linked.npy", "pipe.npy"):
            said = "exists, and the debugger replaces only files that it saved; name another file"
            assert client.monitor(f"tensor y {file}") == f"monitor: {file}: {said}\n"
        assert client.monitor("tensor y ./y-now.npy").endswith("saved in ./y-now.npy\n")
        said = "monitor: a tensor saved in 'prog.s', expected the name of a .npy file\n"
        assert client.monitor("tensor y prog.s") == said
        client.send(b"$k#6b")
    assert np.array_equal(np.load(tmp_path / "cx.npy").ravel(), 2 * X.ravel())
    assert np.array_equal(np.load(tmp_path / "y-now.npy"), 2 * X)
    assert (tmp_path / "x.npy").read_bytes() == given
    assert (tmp_path / "results.npy").read_bytes() == b"of last week"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_another_user_is_no_debugger(family: socket.AddressFamily, image: Path) -> None:
    """The connection is refused; the next one, of this user, is served."""
    host = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::ffff:127.0.0.1"}[family]
    with serving(image) as server:

        def answer() -> bytes:
            with socket.socket(family) as stranger:
                stranger.connect((host, server.port))
                stranger.sendall(b"+$?#3f")
                with suppress(ConnectionError):
                    return stranger.recv(100)
                return b""

        assert as_other_user(answer) == "b''"
        assert server.process.stderr is not None
        assert server.process.stderr.readline() == f"tx8emu: gdb: refused a connection of user {NOBODY}\n"
        with Client(server) as client:
            assert client.ask("?").startswith("T05")


def test_a_client_that_has_gone_is_nobody() -> None:
    """Its end of the connection no longer names its user."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            assert user_of(accepted) == os.geteuid()
            client.close()
            assert user_of(accepted) is None


def test_registers_and_memory_are_written(stopped: Client) -> None:
    assert stopped.ask("P5=8877665544332211") == "OK"
    assert stopped.ask("p5") == "8877665544332211"
    assert stopped.ask("P0=0100000000000000") == "OK" and stopped.ask("p0") == "00" * 8
    every = stopped.ask("g")
    assert stopped.ask("G" + every[:32] + "0102030405060708" + every[48:]) == "OK"
    assert stopped.ask("p2") == "0102030405060708"
    assert stopped.ask("M30410000,4:01020304") == "OK"
    assert stopped.ask("m30810000,6") == "01020304ffff", "the other window shows the same byte"
    assert stopped.ask(b"X30410001,3:a}\x03}]") == "OK", "escaped: # and }"
    assert stopped.ask("m30410000,4") == "0161237d"
    stopped.ask("Hg2")
    assert stopped.ask("m30410000,4") == "ffffffff", "every tile has an SPM of its own"
    assert stopped.ask("M80100000,2:aabb") == "OK"
    assert stopped.ask("m180100000,2") == "aabb" and stopped.ask("m280100000,2") == "aabb"
    assert stopped.ask("m1000740,8") == "E0e", "device registers are not read"
    assert stopped.ask("m30700000,1") == "E0e" and stopped.ask("Mffffffffffffffff,1:00") == "E0e"


@pytest.mark.parametrize(
    ("packet", "complaint"),
    [
        ("T11", "thread 17, expected 1..16"),
        ("Hg0x", "not a hexadecimal number"),
        ("p1000", "there is no register 4096"),
        ("P5=01", "1 bytes for register 5, which has 8"),
        ("P20=0100000000000000", "pc = 0x1: expected a multiple of 2"),
        ("Gff", "1 bytes for register 0"),
        ("m10", "'' is not a hexadecimal number"),
        ("m-5,1", "expected ADDRESS,LENGTH"),
        ("M30410000,4:00", "1 bytes follow, 4 were announced"),
        ("M30410000,1:zz", "hexadecimal bytes"),
        ("Z9,80000000,4", "a breakpoint of type '9', expected 0..4"),
        ("Z0,80000001,2", "no instruction at"),
        ("vCont;x", "action 'x', expected c, C, s, S or r"),
        ("vCont;c:99", "thread 153, expected 1..16"),
        ("c" + "f" * 17, "'fffffffffffffffff...' has more than 64 bits"),
        ("c-1", "pc = 0xffffffffffffffff: expected a multiple of 2"),
        ("s" + "1" * 40, "has more than 64 bits"),
        ("m" + "1" * 40 + ",1", "has more than 64 bits"),
        ("qRcmd,z", "not a sequence of hexadecimal bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(stopped: Client, packet: str, complaint: str) -> None:
    answer = stopped.ask(packet)
    assert answer.startswith("E.") and complaint in answer
    assert stopped.ask("qC") == "QC1", "the conversation goes on"


@pytest.mark.long
def test_a_packet_that_makes_no_sense_is_shown_to_the_user(
    client: Client, server: Server, image: Path
) -> None:
    client.ask("Z9,80000000,4")
    assert client.ask("D") == "OK"
    assert "packet 'Z9,80000000,4': a breakpoint of type '9', expected 0..4" in ran_on(server, image)


# --- running ------------------------------------------------------------------------------


def test_breakpoints_steps_and_ranges(client: Client, server: Server, image: Path) -> None:
    loop = program.load(image).image.symbols["loop"].address
    pc = f"20:{loop.to_bytes(8, 'little').hex()};"
    assert client.ask(f"Z0,{loop:x},4") == "OK"
    for thread in ("1", "1"):
        assert client.ask("vCont;c") == f"T05{pc}thread:{thread};"
    assert client.ask(f"z0,{loop:x},4") == "OK"
    assert client.ask("vCont;s:2") == "T0520:0400008000000000;thread:2;"
    assert client.ask(f"vCont;r80000000,{loop:x}:2") == f"T05{pc}thread:2;"
    assert client.ask("p1d") == (200_000).to_bytes(8, "little").hex()
    assert client.ask("vCont;c") == "W00"
    ran_on(server, image)


@pytest.mark.long
def test_a_watchpoint_leaves_breakpoints_and_other_bytes_alone(tmp_path: Path) -> None:
    text = """\
        li      t1, 0x30420000
        li      t2, 3
loop:   sw      t2, 0(t1)
        sw      t2, 8(t1)
        addi    t2, t2, -1
        bnez    t2, loop
        sh      t2, 6(t1)
end:    j       end
"""
    with serving(assembled(tmp_path, text)) as server, Client(server) as client:

        def stopped(where: str) -> str:
            return f"20:{where}00008000000000;thread:1;"

        assert client.ask("Z2,30420004,4") == "OK" and client.ask("Z0,80000008,4") == "OK"
        for _ in range(3):
            assert client.ask("vCont;c:1") == "T05" + stopped("08"), "no watchpoint at bytes 0..3 and 8..11"
            assert client.ask("z0,80000008,4") == "OK" and client.ask("vCont;s:1") == "T05" + stopped("0c")
            assert client.ask("Z0,80000008,4") == "OK"
        assert client.ask("vCont;c:1") == "T05watch:30420004;" + stopped("18"), "before the access"
        assert client.ask("m30420004,4") == "ffffffff"
        assert client.ask("vCont;s:1") == "T05" + stopped("1c")
        assert client.ask("m30420004,4") == "ffff0000"
        assert client.ask("Z4,0,4") == "E0e" and client.ask("Z2,30420004,0") == "E0e"


@pytest.mark.long
def test_an_interrupt_stops_a_running_program(tmp_path: Path) -> None:
    with serving(assembled(tmp_path, "loop:   j       loop\n")) as server, Client(server) as client:
        client.send(b"$vCont;c#a8")
        time.sleep(0.2)
        client.send(b"\x03")
        assert client.packet().startswith(b"T02")
        assert client.ask("vKill;1") == "OK"
        status, _, messages = server.end()
    assert (status, "fault: killed by the debugger" in messages) == (3, True)


def test_without_acknowledgements(client: Client) -> None:
    assert client.ask("QStartNoAckMode") == "OK"
    client.send(b"$qC#b4")
    assert client.byte() == b"$"


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_debugged_program_runs_in_the_same_rounds(image: Path, chunk: int) -> None:
    """A round may be left and continued anywhere: counts, results and time are the ordinary ones."""
    text = """\
        csrr    t0, mhartid
        li      t1, 0x30420000
        li      t5, 40
next:   sw      t5, 0(t1)
        addi    t2, t0, 1
        andi    t2, t2, 15
        dte.unicast dst=0x20100, src=0x20000, tile=t2, n=4
        dte.wait
        lw      t3, 0x100(t1)
        add     t4, t4, t3
        addi    t5, t5, -1
        bnez    t5, next
        ncc.barrier
        li      a0, 0
        li      a7, 93
        ecall
"""
    loaded = program.load(assembled(image.parent, text, f"ring{chunk}"))

    def finished(run: Callable[[System], object]) -> tuple[int | None, list[tuple[int, int, bytes]]]:
        system = loaded.start({}, timed=True)
        run(system)
        return system.cycles, [(t.retired, t.register(29), t.spm.data.tobytes()) for t in system.tiles]

    def debugged(system: System) -> None:
        rounds = DebugScheduler(system, 1 << 40)
        everyone = {tile.number: Action() for tile in system.tiles}
        stops = 0
        while not isinstance(found := rounds.resume(everyone, lambda: True, lambda: None), Ended):
            rounds.steps.chunk = chunk
            stops += 1
        assert found.code == 0 and stops > 16
        system.ended()

    assert finished(debugged) == finished(lambda system: system.run())


def test_leaving_in_the_middle_of_a_round_changes_nothing(image: Path) -> None:
    loaded = program.load(image)
    plain, left = loaded.start({}), loaded.start({})
    plain.run()
    rounds = DebugScheduler(left, 1 << 40)
    rounds.resume({5: Action(steps=True)}, lambda: False, lambda: None)
    rounds.resume({tile.number: Action() for tile in left.tiles}, lambda: True, lambda: None)
    rounds.leave()
    left.run()
    assert [t.retired for t in left.tiles] == [t.retired for t in plain.tiles]
    assert loaded.results(left)["y"].tolist() == EXPECTED


# --- clients that are lost ----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it sent 0x47 where a packet begins with '$'; this is not gdb"),
        (b"", "it closed the connection"),
        (b"$qC", "it closed the connection"),
        (b"$" + b"0" * 80_000, "it sent a packet of more than 16384 bytes"),
    ],
)
def test_a_lost_client_costs_no_results(
    client: Client, server: Server, image: Path, data: bytes, complaint: str
) -> None:
    try:
        client.send(data)
        time.sleep(0.05)
    except OSError:
        pass  # the server has already closed the connection
    client.close()
    messages = ran_on(server, image)
    assert f"tx8emu: gdb: the client is gone: {complaint}" in messages
    assert "the program runs on without it" in messages and "Traceback" not in messages


@pytest.mark.long
def test_a_client_may_be_lost_while_the_program_runs(image: Path) -> None:
    program = assembled(image.parent, SUM.replace("200000", "20000000"), "long")
    with serving(program, "--output-dir", "out") as server:
        with Client(server) as client:
            client.send(b"$vCont;c#a8")
            assert client.byte() == b"+"
        assert "tx8emu: gdb: the client is gone: " in ran_on(server, image)


@pytest.mark.long
def test_a_line_that_damages_every_packet_is_given_up(client: Client, server: Server, image: Path) -> None:
    for _ in range(3):
        client.send(b"$qC#00")
        assert client.byte() == b"-"
    client.send(b"$qC#00")
    assert client.byte() == b""
    messages = ran_on(server, image)
    assert "the client is gone: a packet has checksum '00', its bytes give b4; the" in messages


@pytest.mark.long
def test_a_damaged_packet_is_asked_for_again(client: Client, server: Server, image: Path) -> None:
    client.send(b"$qC#00")
    assert client.byte() == b"-"
    assert client.ask("qC") == "QC1"
    client.send(b"-")
    assert client.packet() == b"QC1", "and an answer is sent again"
    client.close()
    assert "has checksum '00', its bytes give b4; asked for it again" in ran_on(server, image)


def test_a_port_that_is_taken_is_one_line(image: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        call = "import sys; from emulator.cli import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run(
            [sys.executable, "-c", call, str(image), "--gdb", str(port)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(cli.__file__).parent.parent,
        )
    assert done.returncode == 1
    assert done.stderr == (
        f"tx8emu: error: --gdb {port}: cannot listen at 127.0.0.1:{port}: Address already in use\n"
    )


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1e3"])
def test_a_port_that_is_none_is_usage(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["prog.bin", "--gdb", port])
    assert left.value.code == 2
    assert f"'{port}' is not a port from 0 to 65535" in capsys.readouterr().err
