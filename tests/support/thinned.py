"""Cases of parametrized tests that the normal run leaves to ``make long``, and parts of a run."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

THINNED = {
    "tests/asm/test_asm.py": 4,
    "tests/asm/test_compressed.py": 4,
    "tests/asm/test_disassemble.py": 8,
    "tests/asm/test_growth.py": 24,
    "tests/compiler/codegen": 12,
    "tests/compiler/dialect": 4,
    "tests/compiler/evaluation": 4,
    "tests/compiler/found": 3,
    "tests/compiler/frontend": 12,
    "tests/compiler/lowering": 64,
    "tests/compiler/operators/domains": 24,
    "tests/compiler/operators/test_box_sizes.py": 12,
    "tests/compiler/operators/test_boxes.py": 12,
    "tests/compiler/operators/test_onnx_corpus.py": 8,
    "tests/compiler/operators/test_operator_records.py": 24,
    "tests/compiler/operators/test_operators_random.py": 48,
    "tests/compiler/operators/test_special_numbers.py": 12,
    "tests/compiler/passes": 32,
    "tests/compiler/quantise": 3,
    "tests/compiler/ranges": 6,
    "tests/compiler/rewrite": 8,
    "tests/compiler/search": 3,
    "tests/compiler/test_cli.py": 4,
    "tests/compiler/test_control_by_data.py": 4,
    "tests/compiler/test_networks_random.py": 8,
    "tests/compiler/test_programs_on_chips.py": 4,
    "tests/compiler/test_residency.py": 8,
    "tests/compiler/tools": 6,
    "tests/emulator/chip/test_faults.py": 24,
    "tests/emulator/chips": 16,
    "tests/emulator/cli": 2,
    "tests/emulator/core": 4,
    "tests/emulator/debug": 16,
    "tests/emulator/engines": 16,
    "tests/emulator/kernels": 32,
    "tests/emulator/native": 8,
    "tests/emulator/timing": 4,
    "tests/emulator/watch": 8,
    "tests/fuzz": 8,
    "tests/project/test_c_programs.py": 4,
    "tests/project/test_forked_tools.py": 4,
    "tests/project/test_full_disk.py": 16,
    "tests/project/test_walkthroughs.py": 3,
    "tests/tx8/": 8,
    "tests/tx8isa/crt": 8,
    "tests/tx8isa/test_every_record.py": 12,
    "tests/tx8isa/test_half_a_record.py": 4,
    "tests/tx8isa/test_layouts.py": 4,
    "tests/tx8isa/test_machine.py": 64,
    "tests/tx8isa/test_rv_float.py": 8,
    "tests/tx8isa/test_rv_refused.py": 4,
    "tests/tx8isa/test_time_costs.py": 4,
}
"""Folders and files whose cases take the most time; the normal run has one case of so many."""


def left_to_long(tests: Iterable[str]) -> Iterator[bool]:
    """Return True for each case that the normal run omits, by the names of all cases in their order.

    The normal run has the first case of each test. The choice of the others depends only on their names.
    """
    seen = set[str]()
    for case in tests:
        test = case.partition("[")[0]
        yield test in seen and zlib.crc32(case.encode()) % share_of(case) > 0
        seen.add(test)


def part_of(text: str) -> tuple[int, int]:
    """The part that ``--part`` names and the number of parts, of "2/5"; ValueError for other texts."""
    found = re.fullmatch(r"([1-9]\d{0,2})/([1-9]\d{0,2})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise ValueError(f"--part {text}: expected a part and the number of parts, such as 1/5 or 5/5")
    return int(found[1]), int(found[2])


def in_part(case: str, part: int, parts: int) -> bool:
    """Return True if a case belongs to a part; cases of one test stay together, for common kernels."""
    return zlib.crc32(case.partition("[")[0].encode()) % parts == part - 1


def share_of(test: str) -> int:
    """Return the number of cases of a test, by its path and name, of which the normal run has one."""
    return next((share for place, share in THINNED.items() if test.startswith(place)), 1)
