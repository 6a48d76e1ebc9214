"""Order proved for compiled programs; planted faults are found, and the sanitizer confirms each."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

import emulator
import tx8
from asm.image import read_again
from compiler.cli import main
from compiler.driver import Program
from compiler.graph import GraphError
from emulator.memory.buffers import travel_dtype
from emulator.memory.shapes import sized, usual_sizes
from emulator.session.order import OrderProof, prove_order
from emulator.watch.strict.hazards import HazardKind
from paths import ROOT
from program_mutants import Mutant, out_of_order
from range_models import perceptron

MADE = {
    "digits": lambda: tx8.compile(ROOT / "examples/digits/digits.json", dtype="fp16"),
    "attention": lambda: tx8.compile(ROOT / "examples/attention/attention.json", dtype="fp16"),
    "range": lambda: tx8.compile(perceptron(), dtype="fp16", dims={"rows": (1, 20, 40)}, residency="off"),
}


@cache
def made(name: str) -> Program:
    found = MADE[name]().compiled
    assert found is not None
    return found


def loaded(program: Program) -> emulator.Program:
    return emulator.Program(read_again(program.image, "prog.bin"), program.machine)


def has_hazard(program: emulator.Program) -> bool:
    """True if the sanitizer finds unordered accesses at the usual sizes."""
    sizes = usual_sizes(program.image.shapes)
    buffers = [sized(program.image.shapes, each, sizes) for each in program.inputs]
    with suppress(emulator.Fault):
        program.run({b.name: np.zeros(b.shape, travel_dtype(b)) for b in buffers}, strict=True)
    return any(each.kind in (HazardKind.RACE, HazardKind.UNFINISHED) for each in program.hazards)


def judged(name: str, mutant: Mutant) -> tuple[OrderProof, bool] | None:
    """The proof of a program with a mistake, and whether a strict run has a hazard; None if none is made."""
    try:
        program = loaded(mutant.of(made(name)))
    except GraphError:
        return None
    return prove_order(program), has_hazard(program)


def counted(name: str, mutants: list[Mutant]) -> Counter[str]:
    """What became of mistakes: a pair that is found is confirmed, a proof is not contradicted."""
    found = Counter[str]()
    for mutant in mutants:
        result = judged(name, mutant)
        if result is None:
            found["refused"] += 1
            continue
        proof, hazard = result
        if proof.hazards:
            assert proof.confirmed, f"{mutant}: {proof}"
        else:
            assert proof.undecided or not hazard, f"{mutant}: {proof}"
        found[f"{mutant.kind}: {'found' if proof.hazards else 'open' if proof.undecided else 'proved'}"] += 1
    return found


@pytest.mark.parametrize("name", MADE)
def test_programs_are_in_order(name: str) -> None:
    proof = prove_order(loaded(made(name)))
    assert proof.holds, str(proof)
    assert not proof.reserves
    assert proof.sizes == (40 if name == "range" else 1)


@pytest.mark.parametrize("name", MADE)
def test_waits_and_barriers_that_are_left_out_are_found(name: str) -> None:
    mutants = [each for each in out_of_order(made(name)) if "left out" in each.kind]
    found = counted(name, mutants)
    assert found["wait left out: found"] > 0
    assert found["barrier left out: found"] > 0


@pytest.mark.parametrize("name", MADE)
def test_other_mistakes_are_judged_as_the_sanitizer_does(name: str) -> None:
    mutants = [each for each in out_of_order(made(name)) if "left out" not in each.kind]
    counted(name, Random(1).sample(mutants, min(8, len(mutants))))


@pytest.mark.long
@pytest.mark.parametrize("name", MADE)
def test_all_mistakes_are_judged_as_the_sanitizer_does(name: str) -> None:
    found = counted(name, list(out_of_order(made(name))))
    assert found["twice as much stored: found"] > 0
    print(name, dict(found))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(ROOT / "examples/mlp/mlp.json")
    assert main([source, "--dtype", "fp16", "-q", "-o", str(tmp_path), "--prove-order"]) == 0
    assert capsys.readouterr().out.startswith("order proved: ")


def test_the_proof_of_a_program_from_python() -> None:
    program = tx8.compile(ROOT / "examples/mlp/mlp.json", dtype="fp16")
    assert program.prove_order().holds


def test_several_chips_have_no_proof(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["net.onnx", "--chips", "2x1", "--prove-order"])
    assert "--prove-order" in capsys.readouterr().err
