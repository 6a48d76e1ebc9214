"""Lines per second of tx8as on compiler-like programs, compared with GNU as, and start-up times.

    python benchmarks/assembler.py [LINES]

GNU as gets the same number of scalar lines, because it knows no engine instructions. All times are those of
whole processes, the best of several runs in turn.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _report import promise

TX8AS = Path(sys.executable).with_name("tx8as")
TX8DIS = Path(sys.executable).with_name("tx8dis")
TOOLS = (TX8AS, TX8DIS, Path(sys.executable).with_name("tx8emu"), Path(sys.executable).with_name("tx8cc"))
SHELL = "python -c pass"
GNU_AS = "riscv64-unknown-elf-as"
ROUNDS = 3
TINY = "_start:\n    li a0, 1\n    ncc.wait\n    ret\n"


def mixed_program(lines: int, seed: int = 1) -> str:
    """A program as a compiler writes it: loops of engine instructions, address arithmetic, node names."""
    rng = random.Random(seed)
    text: list[str] = ["_start:"]
    block = 0
    while len(text) < lines:
        block += 1
        text += [
            f'.node "node{block}"',
            f"    li t0, {rng.randrange(1 << 20)}",
            f"    li t1, {rng.randrange(4096)}",
        ]
        text.append(f"loop{block}:")
        for _ in range(rng.randrange(4, 9)):
            text.append(rng.choice(_ENGINE)(rng))
            text.append(f"    addi a{rng.randrange(4)}, a{rng.randrange(4)}, {64 * rng.randrange(32)}")
        text += ["    addi t0, t0, -1", f"    bne t0, t1, loop{block}", "    ncc.wait"]
    return "\n".join(text[:lines]) + "\n"


def _address(rng: random.Random) -> str:
    return hex(rng.randrange(1 << 12) * 256)


def _rdma(rng: random.Random) -> str:
    stride = rng.choice((1024, 2048))
    return f"    rdma.fp16 dst={_address(rng)}, src=a{rng.randrange(4)}, n=512, stride0={stride}, iter0=7"


def _wdma(rng: random.Random) -> str:
    return f"    wdma.fp16 dst=a{rng.randrange(4)}, src={_address(rng)}, n={64 * rng.randrange(1, 64)}"


def _vector(rng: random.Random) -> str:
    places = f"dst={_address(rng)}, src0={_address(rng)}, src1={_address(rng)}"
    return f"    ct.add.vv.fp16 {places}, n={64 * rng.randrange(1, 64)}"


def _matrix(rng: random.Random) -> str:
    places = f"a={_address(rng)}, b={_address(rng)}, out={_address(rng)}"
    return f"    ne.gemm.bf16 {places}, m=64, k=128, n={64 * rng.randrange(1, 8)}, rt=1"


_ENGINE = (_rdma, _wdma, _vector, _matrix)


def scalar_program(lines: int, seed: int = 1) -> str:
    """A program of scalar instructions, which both assemblers know."""
    rng = random.Random(seed)
    text: list[str] = ["_start:"]
    block = 0
    while len(text) < lines:
        block += 1
        text += [f"    li t0, {rng.randrange(1 << 20)}", f"loop{block}:"]
        for _ in range(rng.randrange(4, 9)):
            text.append(f"    addi a{rng.randrange(4)}, a{rng.randrange(4)}, {64 * rng.randrange(32)}")
            text.append(f"    lw a{rng.randrange(4)}, {4 * rng.randrange(500)}(sp)")
            text.append(f"    add s{rng.randrange(2, 8)}, s{rng.randrange(2, 8)}, a{rng.randrange(4)}")
        text += [f"    bne t0, t1, loop{block}"]
    return "\n".join(text[:lines]) + "\n"


def best(commands: dict[str, Sequence[str | Path]], rounds: int = ROUNDS) -> dict[str, float]:
    """The least seconds of each command, run in turn; Python may keep compiled modules, as it does for
    users."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    times = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            words = [str(part) for part in command]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mixed.s").write_text(mixed_program(lines))
        (folder / "scalar.s").write_text(scalar_program(lines))
        (folder / "tiny.s").write_text(TINY)
        commands: dict[str, Sequence[str | Path]] = {
            "tx8as, engine and scalar": (TX8AS, "-q", folder / "mixed.s"),
            "tx8as, scalar": (TX8AS, "-q", folder / "scalar.s"),
        }
        gnu = shutil.which(GNU_AS)
        if gnu:
            options = ("-march=rv64im_zicsr", "-mno-relax", "-g")
            commands["GNU as, scalar"] = (gnu, *options, folder / "scalar.s", "-o", folder / "gnu.o")
        times = best(commands)
        for what, seconds in times.items():
            print(f"{what:28} {seconds:7.3f} s  {lines / seconds:10,.0f} lines/s")
        promise(
            f"`tx8as` on {lines:,} generated lines",
            lines / times["tx8as, engine and scalar"],
            "lines/s",
            at_least=100_000,
            against=_gnu_figure(lines, times),
        )
        if gnu:
            print(f"{'ratio to GNU as, scalar':28} {times['GNU as, scalar'] / times['tx8as, scalar']:7.3f}")
        else:
            print(f"{GNU_AS} is missing: no ratio")
        cold = best(
            {
                "tx8as tiny.s": (TX8AS, "-q", folder / "tiny.s"),
                "tx8dis tiny.bin": (TX8DIS, folder / "tiny.bin"),
                **{f"{tool.name} --help": (tool, "--help") for tool in TOOLS},
                SHELL: (sys.executable, "-c", "pass"),
            },
            rounds=7,
        )
        for what, seconds in cold.items():
            print(f"{what:28} {seconds:7.3f} s")
            if what != SHELL:
                against = f"an empty Python program: {cold[SHELL]:.3f} s"
                promise(f"`{what}` from a cold shell", seconds, "s", at_most=0.15, against=against)


def _gnu_figure(lines: int, times: dict[str, float]) -> str:
    """The figure of GNU as for comparison, if it is installed."""
    if "GNU as, scalar" not in times:
        return "GNU as is not installed"
    return f"GNU as on as many scalar lines: {lines / times['GNU as, scalar']:,.0f} lines/s"


if __name__ == "__main__":
    main()
