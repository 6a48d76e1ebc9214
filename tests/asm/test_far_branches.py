"""Branches that do not reach their label are reversed around a jump; GNU as gives every expected length."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.cli import assemble_main
from asm.diagnostics import AsmError
from chip_bench import final_registers
from gnu_tools import gnu_text, missing_gnu, our_text

BRANCHES = (
    *("beq a0, a1, {}", "bne s0, t1, {}", "blt a0, a1, {}", "bge a0, a1, {}", "bltu a0, a1, {}"),
    *("bgeu a0, a1, {}", "beqz a0, {}", "bnez s1, {}", "blez t0, {}", "bgez a0, {}", "bltz a0, {}"),
    *("bgtz a0, {}", "bgt a0, a1, {}", "ble a0, a1, {}", "bgtu a0, a1, {}", "bleu a0, a1, {}"),
)
JUMPS = ("j {}", "jal {}", "jal t0, {}", "call {}")


@pytest.fixture(scope="module", autouse=True)
def gnu() -> None:
    missing_gnu()


def agree(text: str, folder: Path, march: str = "rv64imfd_zicsr_zifencei") -> None:
    """Both assemblers give the same bytes; with compressed instructions GNU as pads the end."""
    ours, theirs = our_text(text), gnu_text(text, folder, march)
    wrong = [i for i in range(0, len(ours), 2) if ours[i : i + 2] != theirs[i : i + 2]]
    assert not wrong, f"first difference at {wrong[0]:#x}: {ours[wrong[0] :][:8].hex()}"
    assert set(struct.unpack(f"<{len(theirs) // 2}H", theirs)[len(ours) // 2 :]) <= {0x0001, 0x0013, 0}


def program(seed: int, compressed: bool) -> str:
    """Many branches whose labels are near the end of their reach, so that their lengths affect each other."""
    rng = random.Random(seed)
    size, lines = 3000, [".option rvc"] if compressed else []
    for number in range(size):
        if rng.random() < 0.35:
            step = rng.choice((-1, 1)) * rng.choice((rng.randint(850, 1150), rng.randint(30, 80), 1500))
            label = f"l{min(max(number + step, 0), size - 1)}"
            lines.append(f"l{number}: {rng.choice(BRANCHES * 3 + JUMPS).format(label)}")
        else:
            lines.append(f"l{number}: addi a0, a0, {rng.choice((1, 1000))}")
        if rng.random() < 0.01:
            lines.append(f".align {rng.randint(2, 5)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))])
def test_random_programs_have_the_lengths_of_gnu_as(seed: int, compressed: bool, tmp_path: Path) -> None:
    text = program(seed, compressed)
    agree(text, tmp_path)
    with pytest.raises(AsmError) as caught:
        asm.assemble(text, short_branches=True)
    assert len(caught.value.diagnostics) > 100


@pytest.mark.parametrize("branch", BRANCHES)
def test_every_branch_at_the_end_of_its_reach(branch: str, tmp_path: Path) -> None:
    for words in (1022, 1023):
        filled = f".rept {words}\nnop\n.endr\n"
        agree(f"{branch.format('1f')}\n{filled}1: nop\n", tmp_path)
        agree(f"1: nop\n{filled}{branch.format('1b')}\n", tmp_path)


@pytest.mark.parametrize("rvc", ["", ".option rvc\n"])
@pytest.mark.parametrize(
    "text",
    [
        "beqz a0, here\n.weak here\nnop\nhere: nop\n",
        ".weak here\nhere: nop\nbeqz a0, here\nbeqz a0, here + 4\n",
        "1: beqz a0, 2f\n.space 5000\n2: bnez a1, 1b\n",
        "beq a0, a1, . + 5000\n.space 5000\nnop\n",
        "bge a0, a1, far\n.space 8000\n.set far, . + 4\nnop\nnop\n",
        ".macro skip r\nbeqz \\r, 9f\n.endm\nskip a0\n.space 4096\nskip t5\n9: nop\n",
    ],
)
def test_programs_have_the_bytes_of_gnu_as(text: str, rvc: str, tmp_path: Path) -> None:
    agree(rvc + text, tmp_path)


def test_a_reversed_branch_runs_as_the_branch_does() -> None:
    text = "li a0, {}\nli a1, 5\nbltu a0, a1, 1f\nli a2, 1\nebreak\n.space 6000\n1: li a2, 2\nebreak\n"
    assert [final_registers(text.format(value))[12] for value in (4, 5)] == [2, 1]


def test_rows_and_listing_belong_to_the_line() -> None:
    image = asm.assemble("nop\nbeqz a0, 1f\n.space 4096\n1: ret\n", "p.s")
    assert [(at - image.entry, line) for at, (_, line) in image.lines.items()][:3] == [(0, 1), (4, 2), (8, 2)]


def test_near_branches_cost_no_second_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[str] = []
    finish = assemble_text.__globals__["finish"]
    monkeypatch.setitem(
        assemble_text.__globals__, "finish", lambda assembly: (readings.append("read"), finish(assembly))
    )
    assemble_text("beqz a0, 1f\nnop\n1: nop\n", "p.s", (), {}, None)
    assert len(readings) == 1
    assemble_text("beqz a0, 1f\n.space 4096\n1: nop\n", "p.s", (), {}, None)
    assert len(readings) == 3


@pytest.mark.parametrize("text", ["beqz a0, 1f\n.space 4096\n1: nop", "1: nop\n.space 4096\nbeqz a0, 1b"])
def test_the_switch_refuses_what_does_not_reach(text: str) -> None:
    with pytest.raises(AsmError, match=r"the target is -?4100 bytes away; beq reaches -4096\.\.4094"):
        asm.assemble(f"{text}\n", short_branches=True)
    near = "1: beqz a0, 1b\nbnez a0, 2f\n2: nop\n"
    assert asm.assemble(near, short_branches=True).segments == asm.assemble(near).segments


def test_the_switch_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "far.s"
    path.write_text(".option rvc\nbeqz a0, 1f\n.space 4096\n1: nop\n")
    assert assemble_main(["-q", "--short-branches", str(path)]) == 1
    assert "the target is 4100 bytes away; beq reaches" in capsys.readouterr().err
    assert assemble_main(["-q", str(path)]) == 0


def test_a_jump_has_no_longer_form() -> None:
    with pytest.raises(AsmError, match=r"the target is 1048580 bytes away; jal reaches .*\n(.*\n)*.*tail"):
        asm.assemble("beqz a0, 1f\nj 1f\n.space 1 << 20\n1: nop\n")


def test_an_undefined_label_is_told_once() -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble("beqz a0, nowhere\n.option rvc\nbeqz a0, nowhere\nnop\n")
    assert [d.line for d in caught.value.diagnostics] == [1, 3]
