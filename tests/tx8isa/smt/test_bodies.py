"""The bodies of integer instructions compute what the RISC-V manual says, for all operands of 64 bits.

Each body is executed twice: with integers of any size, as plain Python, and with words, as compiled code.
"""

from __future__ import annotations

import pytest

from record_proofs import prove_csr, prove_division, prove_load, prove_meaning, prove_one_division
from riscv_manual import ARITHMETIC, CONDITIONS, DIVISIONS, IMMEDIATE, JUMPS, LOADS, STORES
from tx8isa.table.scalar import scalar_by_mnemonic, scalar_instructions

pytestmark = pytest.mark.smt

RECORDS = scalar_by_mnemonic()
CSR = [record.mnemonic for record in scalar_instructions() if record.kind == "csr"]
as_written_and_compiled = pytest.mark.parametrize("machine", [False, True], ids=["integers", "words"])


def test_the_manual_has_every_integer_body() -> None:
    """Bodies of float instructions have other oracles; the remaining instructions have no body."""
    kinds = ("alu", "divide", "upper", "load", "store", "branch", "jal", "jalr", "csr")
    of_integers = {r.mnemonic for r in scalar_instructions() if r.kind in kinds}
    specified = {*ARITHMETIC, *IMMEDIATE, *CONDITIONS, *DIVISIONS, *JUMPS, *LOADS, *STORES, *CSR}
    assert of_integers == specified | {"flw", "fld", "fsw", "fsd"}


@as_written_and_compiled
@pytest.mark.parametrize("mnemonic", [*ARITHMETIC, *IMMEDIATE, *CONDITIONS, *JUMPS, *STORES])
def test_results(mnemonic: str, machine: bool) -> None:
    prove_meaning(RECORDS[mnemonic], machine)


@as_written_and_compiled
@pytest.mark.parametrize("mnemonic", LOADS)
def test_loads(mnemonic: str, machine: bool) -> None:
    prove_load(RECORDS[mnemonic], machine)


@pytest.mark.parametrize("mnemonic", CSR)
def test_control_and_status_registers(mnemonic: str) -> None:
    prove_csr(RECORDS[mnemonic])


@as_written_and_compiled
@pytest.mark.parametrize("mnemonic", DIVISIONS)
def test_signed_division(mnemonic: str, machine: bool) -> None:
    prove_division(RECORDS[mnemonic], machine)


def test_the_manual_defines_one_quotient() -> None:
    prove_one_division()
