"""The pytest fixtures ``tx8_kernel``, a program to run, and ``tx8_judge`` (docs/testing.md).

pytest loads this module in every run once tx8 is installed, also in projects that do not use it. Therefore
only the fixtures import tx8.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tx8.judge.answer import Answer
    from tx8.program import Program
    from tx8isa.machine.description import Machine

Kernel = Callable[..., "Program"]


@pytest.fixture
def tx8_kernel(request: pytest.FixtureRequest) -> Kernel:
    """Return a function that loads the program of a file in the test's folder.

    A file ``.s`` is assembled, as in ``tx8_kernel("relu.s", defines={"N": 64})``; any other file is an image.
    ``machine`` as for ``tx8.assemble``. AsmError or ImageError fail the test with the program's own messages.
    """
    folder = Path(request.path).parent

    def kernel(
        file: str | Path,
        *,
        defines: dict[str, int | str] | None = None,
        machine: Machine | str | Path | None = None,
    ) -> Program:
        from tx8.program import assemble_file, load

        path = folder / file
        if path.suffix == ".s":
            return assemble_file(path, defines=defines, machine=machine)
        return load(path, machine=machine)

    return kernel


@pytest.fixture
def tx8_judge(request: pytest.FixtureRequest) -> Callable[..., Answer]:
    """Return a function that judges a kernel by a specification, both files in the test's folder.

    ``assert tx8_judge("relu.s", "relu_spec.py").passed`` fails with the judge's answer. ``seed`` as for
    ``tx8emu judge``.
    """
    folder = Path(request.path).parent

    def judged(kernel: str | Path, spec: str | Path, *, seed: int = 0) -> Answer:
        from tx8.judge.judge import judge

        return judge(folder / kernel, folder / spec, seed=seed)

    return judged


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed ``assert run.hazards == ()`` with the text of the hazards instead of their records."""
    if op != "==" or not isinstance(left, tuple) or not isinstance(right, tuple) or right:
        return None
    texts = [hazard.text for hazard in left if type(hazard).__name__ == "Hazard"]
    return [f"no hazard, but {len(texts)} found", *texts] if texts else None
