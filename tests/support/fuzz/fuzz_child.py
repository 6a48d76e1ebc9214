"""One kind of hostile example after another, in a process of its own: ``fuzz_child.py KIND FIRST COUNT``.

Each example depends only on its number. The number is printed before it runs, and its result afterwards, so
that the last line names the example that ended the process. The memories are between guard pages
(``fuzz_guard``). An example ends with the program's end, a fault, or another message to the user; anything
else is an uncaught exception.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from random import Random

import fuzz_guard

KINDS = {
    "instructions": ("fuzz_instructions", "example"),
    "formats": ("fuzz_instructions", "example_of_any_format"),
    "tiles": ("fuzz_instructions", "example_on_tiles"),
    "orders": ("fuzz_orders", "example"),
    "reference": ("fuzz_orders", "reference_example"),
    "repeats": ("fuzz_repeats", "example"),
    "registers": ("fuzz_registers", "example"),
    "scalar": ("fuzz_scalar", "example"),
    "hot": ("fuzz_scalar", "hot_example"),
    "largest": ("fuzz_largest", "example"),
    "images": ("fuzz_images", "example"),
    "executables": ("fuzz_images", "executable_example"),
    "assembly": ("fuzz_files", "assembly_example"),
    "graphs": ("fuzz_files", "graph_example"),
    "models": ("fuzz_files", "model_example"),
    "disassembly": ("fuzz_files", "image_example"),
    "states": ("fuzz_files", "state_example"),
    "interrupted": ("fuzz_interrupted", "example"),
    "gdb": ("fuzz_gdb", "example"),
    "networks": ("fuzz_networks", "example"),
    "operators": ("fuzz_networks", "example_of_operators"),
}
"""Module and function of each kind; a process imports only its own kind's."""


def kinds() -> list[str]:
    """Kinds whose examples depend on their numbers: all but one."""
    return [kind for kind in KINDS if kind != "largest"]


def example_of(kind: str) -> Callable[[Random], str]:
    """The function that makes and runs an example of a kind."""
    module, name = KINDS[kind]
    found: Callable[[Random], str] = getattr(import_module(module), name)
    return found


def main() -> None:
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fuzz_guard.install()
    example = example_of(kind)
    start = time.process_time()
    for number in range(first, first + count):
        print(f"{kind} {number}", end=" ", flush=True)
        print(example(Random(f"{kind} {number}")), flush=True)
    print(f"{time.process_time() - start:.4f} s of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()
