"""GNU as gives the expected words of scalar code for the same text."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

import asm
from asm.instructions.pseudo import SIMPLE
from gnu_tools import GNU_AS, MARCH, OBJDUMP, missing_gnu, our_text, same
from tx8isa.riscv.format import Field
from tx8isa.riscv.registers import CSRS, FLOAT_REGISTERS, REGISTERS, ROUNDING_MODES, VENDOR_CSRS
from tx8isa.table import scalar as rv


@pytest.fixture(scope="module")
def gnu() -> None:
    missing_gnu()


def values() -> list[int]:
    rng = random.Random(7)
    found = [
        0,
        1,
        -1,
        2047,
        2048,
        -2048,
        -2049,
        1 << 31,
        -(1 << 31),
        (1 << 63) - 1,
        -(1 << 63),
        (1 << 64) - 1,
    ]
    for bits in range(1, 64):
        found += [1 << bits, (1 << bits) - 1, -(1 << bits), (1 << bits) + 1, rng.getrandbits(bits)]
    found += [rng.getrandbits(64) - (1 << 63) for _ in range(500)]
    found += [rng.getrandbits(12) << rng.randrange(52) for _ in range(300)]
    return found


@pytest.mark.usefixtures("gnu")
def test_li_makes_the_sequences_of_gnu_as(tmp_path: Path) -> None:
    same("".join(f"li t{i % 7}, {value}\n" for i, value in enumerate(values())), tmp_path)


FLOAT_CSR = ("frsr", "fssr", "frcsr", "frrm", "frflags", "fscsr", "fsrm", "fsflags", "fsrmi", "fsflagsi")


def pseudo_lines() -> list[str]:
    lines = ["t: nop", "fscsr a1", "fsrm a1", "fsflags a1", "fsrmi 3", "fsflagsi 31"]
    for name, statements in SIMPLE.items():
        count = 1 + max(
            (int(word[1:]) for s in statements for word in s.split() if word[0] == "$"), default=-1
        )
        operands = ["a1", "a2", "a3"][:count]
        if name in FLOAT_CSR:
            second = "7" if name.endswith("i") else "a2"
            lines.append(f"{name} a1" if count == 1 else f"{name} a1, {second}")
            continue
        if name[0] == "f":
            operands = ["fa1", "fa2", "fa3"][:count]
            operands[0] = "a1" if name.startswith(("fgt", "fge", "fmv.x")) else "fa1"
            operands[1] = "a2" if name == "fmv.s.x" else "fa2"
        if name.startswith("csr"):
            value = "17" if name.endswith("i") else "a1"
            operands = ["a1", "mhartid"] if name == "csrr" else ["mscratch", value]
        elif name[0] == "b" or name == "j":
            operands[-1] = "t"
        lines.append(f"{name} {', '.join(operands)}")
    return lines


@pytest.mark.usefixtures("gnu")
def test_pseudo_instructions_are_those_of_gnu_as(tmp_path: Path) -> None:
    same("\n".join(pseudo_lines()) + "\n", tmp_path)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize(
    "text",
    [
        (
            "jal t\njal t0, t\nj t\nt: jalr a0\njalr t0, a0\njalr t0, 8(a0)\njalr t0, a0, 8\njr a0\n"
            "jr 4(a0)\nret\n"
        ),
        "call t\ntail t\nnop\nt: nop\n",
        (
            "la a0, d\nla a1, d+4\nlla a2, d\nlw a3, d\nld t4, d+8\nsd a3, d, t0\nsb a3, d+1, t1\n"
            ".data\nd: .dword 1,2\n"
        ),
        ".equ d, 0x12345ffc\nlui a0, %hi(d)\naddi a0, a0, %lo(d)\nlw a1, %lo(d+8)(a0)\nsw a1, %lo(d)(a0)\n",
        (
            "1: auipc a0, %pcrel_hi(d)\naddi a0, a0, %pcrel_lo(1b)\nlw a0, %pcrel_lo(1b)(a0)\n.data\n"
            "d: .word 1\n"
        ),
        (
            "fence\nfence rw, w\nfence iorw, o\nfence.tso\necall\nebreak\ncsrw 0x340, a0\n"
            "csrrs a0, cycle, zero\n"
        ),
        "fence.i\nmret\nwfi\ncsrr a0, mhpmcounter31\ncsrw mtvec, a0\ncsrr a0, fcsr\n",
        (
            "flw fa0, d, t0\nfld ft11, d+8, t1\nfsw fa0, d, t0\nfsd fs11, d+8, t2\nflw f0, (sp)\n"
            ".data\nd: .dword 1\n"
        ),
        (
            "fadd.s f0, f1, f2\nfadd.d f0, f1, f2, rtz\nfcvt.w.s a0, fa0\nfcvt.lu.d a0, fa0, rmm\n"
            "fsqrt.d f0, f1\n"
        ),
        "1: j 1b\n1: j 1f\nj 1b\n1: bnez a0, 1b\n2: j 2b\n",
        ".equ N, 5*4\nli a0, N\naddi a0, a0, N-1\n.set N, 7\nli a0, N<<2|1\nlw a0, N+1(sp)\nlw a0, (sp)\n",
        ".macro add3 d, s=a1\naddi \\d, \\s, 3\n.endm\nadd3 a0\nadd3 a0, a2\nadd3 s=t0, d=t1\n",
        ".rept 3\nnop\n.endr\n.irp r,a0,a1\nmv \\r, zero\n.endr\n.if 1\nnop\n.else\nret\n.endif\n",
        "nop\n.align 4\nnop\n.balign 8\nret\n.word 1, -1\n.half 2, 3\n.align 4\nnop\nnop\nnop\nnop\n",
        '.dword t, t+4, b-t\nt: nop\nb: nop\n.asciz "a\\n\\x41\\101"\n.ascii "a", "b"\n.fill 5, 1, 7\n',
        "nop\n.word 1+2*3, (1+2)*3, 7/2, -7/2, -7%3, ~1, !1, 1<<4, 0xff>>4, 6&3, 6|1, 6^3\n",
        "nop\n.float 1.5, -0.1\n.double 1e-6, -2.5\n.space 4\n.zero 4\n.skip 2, 9\n.org 64\nnop\n",
    ],
)
def test_program_gives_the_bytes_of_gnu_as(text: str, tmp_path: Path) -> None:
    same(text, tmp_path)


def random_program(seed: int) -> str:
    """Every scalar instruction several times, with random operands and branches both ways."""
    rng = random.Random(seed)
    lines = []
    for record in rv.scalar_instructions() * 4:
        operands = []
        for operand in record.operands:
            if operand == "rm" and (record.rounding == 0 or rng.random() < 0.3):
                continue  # GNU as takes no mode if the conversion is exact
            name, _, base = operand.rstrip(")").partition("(")
            text = _operand(record.field(name), rng)
            operands.append(f"{text}({_operand(record.field(base), rng)})" if base else text)
        lines.append(f"{record.mnemonic} {', '.join(operands)}")
    rng.shuffle(lines)
    return "".join(f"l{n}: {line}\n" for n, line in enumerate(lines)).replace("LABEL", f"l{len(lines) // 2}")


def _operand(field: Field, rng: random.Random) -> str:
    if field.kind == "register":
        return rng.choice(list(REGISTERS))
    if field.kind == "float":
        return rng.choice(list(FLOAT_REGISTERS))
    if field.kind == "rounding":
        return rng.choice(list(ROUNDING_MODES))
    if field.kind == "target":
        return "LABEL"
    if field.kind == "csr":
        return rng.choice([name for name in CSRS if name not in VENDOR_CSRS])
    if field.kind == "order":
        return "".join(letter for letter in "iorw" if rng.random() < 0.5) or "w"
    value = rng.choice((field.minimum, field.maximum, rng.randint(field.minimum, field.maximum)))
    return str(value)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize("seed", range(4))
def test_random_scalar_programs_agree(seed: int, tmp_path: Path) -> None:
    same(random_program(seed), tmp_path)


@pytest.mark.usefixtures("gnu")
@pytest.mark.parametrize(
    "line",
    [
        "addi a0, a0, 2048",
        "slli a0, a0, 64",
        "slliw a0, a0, 32",
        "lui a0, 0x100000",
        "add a0, a1",
        "add a0, a1, a32",
        "lw a0, 2048(sp)",
        "csrwi mscratch, 32",
        "li a0, nothing",
        "mv a0",
        "bogus a0",
        "fadd.s fa0, fa1, a2",
        "fadd.s fa0, fa1",
        "fadd.s fa0, fa1, fa2, up",
        "fadd.s fa0, fa1, fa2, 1",
        "fadd.s fa0, fa1, fa32",
        "fsgnj.s fa0, fa1, fa2, rne",
        "fmadd.d fa0, fa1, fa2",
        "fmv.x.d fa0, a0",
        "mv fa0, a0",
        "fmv.d a0, fa0",
        "flw fa0, somewhere",
        "fld fa0, 2048(sp)",
        "feq.d fa0, fa1, fa2",
        "fcvt.d.w fa0, fa1",
        "fence.i rw",
        "fsrmi 32",
        "addi a0, a1, a2",
        "jalr a0, a1, 2048",
        ".equiv q, 1\n.equiv q, 2",
        ".align -1",
        "q: nop\nq: nop",
        ".if 1",
        ".endif",
        ".else",
        '.include "no such file"',
        ".rept 2",
    ],
)
def test_what_gnu_as_refuses_we_refuse(line: str, tmp_path: Path) -> None:
    (tmp_path / "p.s").write_text(f"nop\n{line}\n")
    command = [GNU_AS, f"-march={MARCH}", "p.s", "-o", "p.o"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
    with pytest.raises(asm.diagnostics.AsmError):
        our_text(f"nop\n{line}\n")


@pytest.mark.usefixtures("gnu")
def test_objdump_reads_the_scalar_code_between_engine_instructions(tmp_path: Path) -> None:
    from asm.image import write_image

    text = "addi a0, a0, 1\nncc.wait\nrdma.fp16 dst=0, src=a0, n=4\nsub a1, a2, a3\n.word 5\nxor a0, a0, a0\n"
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(text)))
    found = subprocess.run(
        [OBJDUMP, "-d", "-M", "no-aliases", "p.bin"], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.stderr == ""
    mnemonics = [line.split("\t")[2] for line in found.stdout.splitlines() if line.count("\t") >= 2]
    assert [m for m in mnemonics if m != ".word"] == ["addi", "sub", "xor"]
