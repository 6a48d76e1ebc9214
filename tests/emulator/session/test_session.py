"""Sessions of programs written by hand: states, bound arrays, replaced constants, files and refusals."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import asm
from chip_bench import W, chip
from emulator import Fault, InputError, Program
from emulator.memory.areas import GRANULE_SHIFT
from emulator.memory.image_file import LEAST
from emulator.session import ProgramSession, SessionError, StateFileError

MACHINE = chip(2, 0x4000)
GRANULE = 1 << GRANULE_SHIFT
EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"
ROOM = 3 * GRANULE
"""Bytes of the state: it begins and ends inside of granules that hold other bytes too."""
TEXT = f"""
        .input  x, fp32, 16
        .input  at, int32, 1
        .input  stop, int32, 1
        .section .ddr.bss
        .balign 64
left:   .space 64
        .input  past, fp32, {ROOM // 4}
        .output y, fp32, 16
        .const  more, fp32, 16, "more.bin"
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        li      t5, {W.ddr_engine - W.ddr_cached}
        la      a0, at
        sub     a0, a0, t5              # where the core sees it
        lw      a0, 0(a0)
        slli    a0, a0, 2
        la      a1, past
        add     a1, a1, a0              # the place that x is added to
        rdma.fp32 dst=0x100, src=a1, n=16
        rdma.fp32 dst=0x200, src=x, n=16
        rdma.fp32 dst=0x300, src=more, n=16
        ct.add.vv.fp32 dst=0x100, src0=0x100, src1=0x200, n=16
        ct.add.vv.fp32 dst=0x100, src0=0x100, src1=0x300, n=16
        wdma.fp32 dst=a1, src=0x100, n=16
        wdma.fp32 dst=y, src=0x100, n=16
        la      a2, left                # what a run leaves elsewhere is gone in the next one
        sub     a2, a2, t5
        ncc.wait
        lw      a3, 0(a2)
        bnez    a3, bad
        li      a3, 1
        sw      a3, 0(a2)
        la      a4, stop
        sub     a4, a4, t5
        lw      a4, 0(a4)
        beqz    a4, done
bad:    ebreak
done:   {EXIT}
"""
X = np.arange(16, dtype=np.float32)
NONE = np.zeros(1, np.int32)


@pytest.fixture(scope="module")
def program() -> Program:
    """Adds x and more to the 16 numbers of the state from ``at``."""
    return stateful(TEXT, (10 * X).astype("<f4").tobytes())


def stateful(text: str, constant: bytes) -> Program:
    """The program of a text, whose output ``present`` is the memory of its input ``past``."""
    image = asm.assemble(text, machine=MACHINE, given={"more.bin": constant})
    past = next(buffer for buffer in image.buffers if buffer.name == "past")
    present = replace(past, name="present", kind="output")
    return Program(replace(image, buffers=(*image.buffers, present)), MACHINE)


def at(place: int) -> np.ndarray:
    return np.array([place], np.int32)


def step(session: ProgramSession, place: int = 0, x: np.ndarray = X, stop: int = 0) -> np.ndarray:
    return session.run({"x": x, "at": at(place), "stop": at(stop)})["y"]


def test_the_image_says_which_buffers_are_a_state(program: Program) -> None:
    assert [(past.name, present.name) for past, present in program.states] == [("past", "present")]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_stays_and_nothing_else_does(program: Program, threads: int) -> None:
    """Compared with a loop on the host that passes each run the states of the one before."""
    places = [0, 5, GRANULE // 4 - 8, ROOM // 4 - 16, 0, GRANULE // 4 - 8]
    wanted = np.zeros(ROOM // 4, np.float32)
    past = wanted.copy()
    session = ProgramSession(program, threads=threads)
    for number, place in enumerate(places):
        x = X + number
        wanted[place : place + 16] += x + 10 * X
        once = program.run({"x": x, "at": at(place), "stop": NONE, "past": past})
        past = once["present"]
        np.testing.assert_array_equal(step(session, place, x), wanted[place : place + 16])
        np.testing.assert_array_equal(session.state["past"], wanted)
        np.testing.assert_array_equal(past, wanted)
    assert session.steps == len(places)


def test_a_stopped_step_leaves_the_state_as_it_was(program: Program) -> None:
    session = ProgramSession(program)
    for place in (0, GRANULE // 4 + 100):
        step(session, place)
        before = session.state["past"]
        with pytest.raises(Fault, match="ebreak"):
            step(session, place, stop=1)
        np.testing.assert_array_equal(session.state["past"], before)
        np.testing.assert_array_equal(step(session, place), 2 * (11 * X))
    assert session.steps == 4


def test_a_step_that_takes_too_long_is_none(program: Program) -> None:
    session = ProgramSession(program, max_instructions=5)
    with pytest.raises(Fault, match="the limit given"):
        step(session)
    assert session.steps == 0
    assert not session.state["past"].any()


def test_an_interrupt_leaves_the_state_as_it_was(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the program has written its state, before the step is complete."""
    session = ProgramSession(program)
    step(session)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("emulator.session.tensors.BoundTensor.read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(session)
    np.testing.assert_array_equal(session.state["past"][:16], 11 * X)
    np.testing.assert_array_equal(step(session), 22 * X)


def test_an_interrupt_between_run_and_end_leaves_the_state_as_it_was(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ProgramSession(program)
    step(session)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("emulator.session.session._uninterrupted", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(session, 1)
    np.testing.assert_array_equal(session.state["past"][:16], 11 * X)
    np.testing.assert_array_equal(step(session), 22 * X)
    assert session.steps == 2


def test_sessions_know_nothing_of_each_other(program: Program) -> None:
    one, other = ProgramSession(program), ProgramSession(program)
    for _ in range(3):
        step(one)
    step(other)
    np.testing.assert_array_equal(one.state["past"][:16], 33 * X)
    np.testing.assert_array_equal(other.state["past"][:16], 11 * X)


def test_sessions_run_at_the_same_time(program: Program) -> None:
    sessions = [ProgramSession(program) for _ in range(3)]
    futures = [[s.submit({"x": X, "at": at(0), "stop": NONE}) for _ in range(5)] for s in sessions]
    for some in futures:
        for number, future in enumerate(some, 1):
            np.testing.assert_array_equal(future.result()["y"], number * 11 * X)
    for session in sessions:
        session.close()


def test_submitted_inputs_are_copied_and_bound_ones_are_not(program: Program) -> None:
    session = ProgramSession(program)
    x, bound = X.copy(), NONE.copy()
    session.bind({"at": bound, "stop": NONE})
    first = session.submit({"x": x})
    x[:] = 0
    np.testing.assert_array_equal(first.result()["y"], 11 * X)
    bound[:] = 100
    session.submit({"x": X}).result()
    np.testing.assert_array_equal(session.state["past"][100:116], 11 * X)


def test_a_failed_step_of_the_queue_is_that_of_its_future(program: Program) -> None:
    session = ProgramSession(program)
    futures = [session.submit({"x": X, "at": NONE, "stop": at(stop)}) for stop in (0, 1, 0)]
    with pytest.raises(Fault):
        futures[1].result()
    np.testing.assert_array_equal(futures[2].result()["y"], 22 * X)


def test_outputs_are_written_where_they_are_bound(program: Program) -> None:
    session, y = ProgramSession(program), np.zeros(16, np.float32)
    session.bind({"y": y, "x": X, "at": NONE, "stop": NONE})
    assert session.run()["y"] is y
    np.testing.assert_array_equal(y, 11 * X)


def test_a_state_begins_with_what_is_given_and_comes_back_to_it(program: Program) -> None:
    session = ProgramSession(program)
    first = np.arange(ROOM // 4, dtype=np.float32)
    session.begin_with({"past": first})
    step(session)
    session.reset()
    np.testing.assert_array_equal(session.state["past"], first)
    assert session.steps == 0
    session.set_state({"past": first + 1})
    np.testing.assert_array_equal(step(session, 16), first[16:32] + 1 + 11 * X)


def test_constants_are_replaced_in_one_session(program: Program) -> None:
    session, other = ProgramSession(program), ProgramSession(program)
    session.replace({"more": -X})
    for number in range(1, 4):
        np.testing.assert_array_equal(step(session), 0 * X)
        np.testing.assert_array_equal(step(other), number * 11 * X)
    session.replace({"more": X})
    np.testing.assert_array_equal(step(session), 2 * X)


def test_saved_states_go_on_in_another_session(program: Program, tmp_path: Path) -> None:
    one, other = ProgramSession(program), ProgramSession(program)
    for _ in range(3):
        step(one, 7)
    assert one.save(tmp_path / "three") > ROOM
    other.load(tmp_path / "three")
    assert other.steps == 3
    np.testing.assert_array_equal(step(other, 7), 44 * X)
    one.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "three").read_bytes()


def damaged(data: bytes) -> dict[str, bytes]:
    return {
        "truncated: 10 bytes, the header has": data[:10],
        "truncated: 76 of": data[:100],
        "does not match its checksum": data[:-1] + bytes([data[-1] ^ 1]),
        "no states of a session": b"TX8STATE" + data[8:],
        "format version 9": data[:8] + b"\x09" + data[9:],
        "its header promises": data[:16] + b"\xff" * 8 + data[24:],
    }


def test_damaged_files_are_refused(program: Program, tmp_path: Path) -> None:
    session = ProgramSession(program)
    step(session)
    session.save(tmp_path / "good")
    for message, data in damaged((tmp_path / "good").read_bytes()).items():
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(StateFileError, match=message):
            session.load(tmp_path / "bad")
    np.testing.assert_array_equal(step(session), 22 * X)


def test_states_of_another_program_are_refused(program: Program, tmp_path: Path) -> None:
    ProgramSession(program).save(tmp_path / "saved")
    text = TEXT.replace("li      a3, 1", "li      a3, 2")
    with pytest.raises(StateFileError, match="saved by a session of another program"):
        ProgramSession(stateful(text, bytes(64))).load(tmp_path / "saved")


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"x": X, "at": NONE}, "input 'stop' is missing: bind it, or give it to the step"),
        ({"x": X[:8], "at": NONE, "stop": NONE}, "input 'x' is 8 float32, expected 16 float32"),
        ({"x": X.astype(np.int64), "at": NONE, "stop": NONE}, "input 'x' is 16 int64, expected 16 float32"),
        ({"z": X}, "the program has no input 'z'; known: x, at, stop"),
        ({"past": X}, "input 'past' is a state, which the session keeps: set it with set_state"),
    ],
)
def test_wrong_inputs_are_refused(program: Program, inputs: dict[str, np.ndarray], message: str) -> None:
    session = ProgramSession(program)
    for call in (session.run, session.submit):
        with pytest.raises((SessionError, InputError)) as caught:
            result = call(inputs)
            result.result()  # type: ignore[union-attr]
        assert message in str(caught.value)
    assert session.steps == 0


def test_what_cannot_be_bound_is_refused(program: Program) -> None:
    session, fixed = ProgramSession(program), np.zeros(16, np.float32)
    fixed.flags.writeable = False
    for arrays, message in (
        ({"y": fixed}, "output 'y' is bound to an array that cannot be written"),
        ({"y": X[:4]}, "output 'y' is 4 float32, expected 16 float32"),
        ({"x": [1, 2]}, "'x' is bound to list; expected a NumPy array"),
        ({"present": X}, "no input or output 'present'; known: y, x, at, stop"),
    ):
        with pytest.raises((SessionError, InputError), match=message):
            session.bind(arrays)  # type: ignore[arg-type]


def test_states_and_constants_of_the_wrong_shape_are_refused(program: Program) -> None:
    session = ProgramSession(program)
    with pytest.raises(InputError, match=f"input 'past' is 16 float32, expected {ROOM // 4} float32"):
        session.set_state({"past": X})
    with pytest.raises(InputError, match="constant 'more' is 8 float32, expected 16 float32"):
        session.replace({"more": X[:8]})
    with pytest.raises(SessionError, match=r"no constant 'mor'; known: more; did you mean 'more'\?"):
        session.replace({"mor": X})
    with pytest.raises(SessionError, match=r"no state 'pats'; known: past; did you mean 'past'\?"):
        session.set_state({"pats": X})


def test_a_closed_session_runs_no_more(program: Program) -> None:
    with ProgramSession(program) as session:
        session.bind({"x": X, "at": NONE, "stop": NONE})
        futures = [session.submit() for _ in range(3)]
    assert all(future.done() for future in futures)
    for call in (session.run, session.submit, session.reset):
        with pytest.raises(SessionError, match="the session is closed"):
            call()


def test_the_sanitizer_is_for_single_runs(program: Program) -> None:
    with pytest.raises(SessionError, match="looks at single runs"):
        ProgramSession(program, strict=True)


def test_steps_of_several_threads_come_one_after_the_other(program: Program) -> None:
    session = ProgramSession(program)
    threads = [threading.Thread(target=step, args=(session,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(session.state["past"][:16], 8 * 11 * X)


def test_programs_with_registers_of_devices_begin_anew() -> None:
    """The count of events of the PMU is part of the reset state of every step."""
    text = """
        .output y, int64, 1
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        csrr    t1, mcycle
        csrw    mscratch, t1
        la      t2, y
        li      t5, 0x100000000
        sub     t2, t2, t5
        sub     t2, t2, t5
        csrr    t3, minstret
        sd      t3, 0(t2)
done:"""
    program = Program(asm.assemble(text + EXIT, machine=MACHINE), MACHINE)
    with ProgramSession(program, timed=True) as session:
        counts = [int(session.run()["y"][0]) for _ in range(3)]
        assert counts == [int(program.run(timed=True)["y"][0])] * 3
        assert session.cycles is not None and session.cycles > 0


def test_large_constants_have_common_pages() -> None:
    """Sessions see the same pages until one of them writes, and then only the writer sees the change."""
    count = LEAST // 4 + 1000
    numbers = np.arange(count, dtype=np.int32)
    text = f"""
        .section .ddr
        .const  table, int32, {count}, "table.bin"
        .output y, int32, {count}
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        li      s0, {count // 1000}
        la      a0, table
        la      a1, y
1:      rdma.int32 dst=0, src=a0, n=1000
        wdma.int32 dst=a1, src=0, n=1000
        ncc.wait
        addi    a0, a0, 1000
        addi    a0, a0, 1000
        addi    a0, a0, 2000
        addi    a1, a1, 2000
        addi    a1, a1, 2000
        addi    s0, s0, -1
        bnez    s0, 1b
done:"""
    image = asm.assemble(text + EXIT, machine=MACHINE, given={"table.bin": numbers.tobytes()})
    program = Program(image, MACHINE)
    whole = count // 1000 * 1000
    one, other = ProgramSession(program), ProgramSession(program)
    one.replace({"table": numbers[::-1].copy()})
    for _ in range(2):
        np.testing.assert_array_equal(one.run()["y"][:whole], numbers[::-1][:whole])
        np.testing.assert_array_equal(other.run()["y"][:whole], numbers[:whole])
    np.testing.assert_array_equal(program.run()["y"][:whole], numbers[:whole])
