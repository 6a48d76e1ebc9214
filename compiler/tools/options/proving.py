"""Carries out ``--prove`` and ``--prove-order``, for graphs and for kernels of Triton."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.tools.execution import RUN_FAILED, faulted, say

if TYPE_CHECKING:
    from compiler.driver import Program
    from compiler.frontend.triton.kernels.program import KernelProgram
    from compiler.tools.verification.findings import Proof


def prove(options: argparse.Namespace, program: Program) -> int:
    """Print what --prove and --prove-order find out; return the exit status."""
    status = _prove_order(options, program) if options.prove_order else 0
    return max(status, _prove_values(options, program)) if options.prove else status


def _prove_order(options: argparse.Namespace, program: Program) -> int:
    from compiler.tools.verification.field_run import order_of

    found = order_of(program)
    for line in found.lines():
        say(options, line)
    return 0 if found.holds else RUN_FAILED


def _prove_values(options: argparse.Namespace, program: Program) -> int:
    """Prove the program in prime fields, and print the findings.

    A program of a range is proved at the sizes of the arrays of --input, or at several.
    """
    from compiler.tools.run import sizes_of_files
    from compiler.tools.verification.field_run import image_of_file
    from compiler.tools.verification.prove import Prover

    image = image_of_file(options.prove, program.machine) if isinstance(options.prove, Path) else None
    prover = Prover(program, options.seed, image)
    points = [sizes_of_files(program, options.input)] if options.input else prover.points
    return _say_proofs(options, program, [partial(prover.at, point) for point in points])


def prove_kernel(options: argparse.Namespace, program: KernelProgram) -> int:
    """Prove that a kernel of Triton computes the graph of --prove, and print the findings."""
    from compiler.frontend import load
    from compiler.tools.verification.images import prove_image

    return _say_proofs(options, None, [partial(prove_image, program, load(options.prove), options.seed)])


def _say_proofs(
    options: argparse.Namespace, program: Program | None, proofs: Sequence[Callable[[], Proof]]
) -> int:
    """Print what proofs find; return the exit status."""
    from compiler.tools.run import RunFault
    from compiler.tools.verification.field_run import told_faults
    from compiler.tools.verification.findings import lines

    holds = True
    for proof in proofs:
        try:
            with told_faults():
                found = proof()
        except RunFault as fault:
            return faulted(options, program, fault)
        for line in lines(found):
            say(options, line)
        holds = holds and found.holds
    return 0 if holds else RUN_FAILED
