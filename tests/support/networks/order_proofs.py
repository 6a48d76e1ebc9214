"""Proves the order of many programs, at all sizes of their ranges, and prints a table: ``make prove``.

    python tests/support/networks/order_proofs.py                 all programs of benchmarks/_programs.py
    python tests/support/networks/order_proofs.py mlp encoder     some of them
    python tests/support/networks/order_proofs.py --kept FOLDER   with images that are there, or put there

A row has the sizes, the accesses at the largest, and the seconds of the processor without compilation. The
exit status is 1 if some order is wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import emulator
from asm.image import image_parts
from emulator.session.order import OrderProof, prove_order
from paths import ROOT
from proofs import named as proved_networks
from range_costs import CASES
from tx8isa.tools.files import write_whole

sys.path.insert(0, str(ROOT / "benchmarks"))
from _programs import Program, programs

Make = Callable[[Path], None]
"""Compiles a program to ``prog.bin`` in a folder."""


def named() -> dict[str, Make]:
    """The programs of ``replay.py`` for one chip, the ranges of docs/dynamic_shapes.md, and a decoder."""
    found = {each.name: partial(_by_command, each) for each in programs() if "--chips" not in each.options}
    ranges = {f"range of {name}": partial(_of_range, name) for name in CASES}
    return {**found, **ranges, "growing decoder": _growing}


def _by_command(program: Program, folder: Path) -> None:
    tool = Path(sys.executable).with_name("tx8cc")
    command = [tool, program.write(folder), *program.options, "-q", "-o", folder]
    subprocess.run(list(map(str, command)), check=True, cwd=ROOT)


def _of_range(name: str, folder: Path) -> None:
    import tx8

    case = CASES[name]()
    tx8.compile(case.model, dtype="fp16", dims=case.dims).save(folder)


def _growing(folder: Path) -> None:
    made = proved_networks()["growing decoder"]("fp16")
    write_whole(folder / "prog.bin", b"".join(map(bytes, image_parts(made.image))))


def image(name: str, make: Make, folder: Path) -> Path:
    """The image of a program, compiled if the folder does not have it."""
    own = folder / name.replace(" ", "-")
    if not (own / "prog.bin").exists():
        own.mkdir(parents=True, exist_ok=True)
        make(own)
    return own / "prog.bin"


def row(name: str, proof: OrderProof, seconds: float) -> Iterator[str]:
    """The cells of a row."""
    yield name
    yield (
        "WRONG" if proof.hazards else "open" if proof.undecided else "but for" if proof.reserves else "proved"
    )
    yield f"{proof.sizes:,}"
    yield f"{proof.accesses:,}"
    yield f"{seconds:.1f}"
    if not proof.holds or proof.reserves:
        yield "; ".join(line for line in proof.lines() if not line.startswith("order proved"))


def main(arguments: list[str]) -> int:
    """Print a row for each program."""
    parser = argparse.ArgumentParser("order_proofs.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; all without a name")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="the folder of the compiled programs")
    options = parser.parse_args(arguments)
    known, wrong = named(), False
    with tempfile.TemporaryDirectory() as made:
        for name in options.names or known:
            program = emulator.load(image(name, known[name], options.kept or Path(made)))
            begin = time.process_time()
            proof = prove_order(program)
            print(" | ".join(row(name, proof, time.process_time() - begin)), flush=True)
            wrong = wrong or bool(proof.hazards)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
