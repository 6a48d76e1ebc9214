"""One kind of hostile example after another, in a process of its own: ``fuzz_child.py KIND FIRST COUNT``.

Each example follows from its number alone. The number is printed before it runs, and what it did afterwards,
so that the last line names the example that ended the process. The memories lie between guard pages
(``fuzz_guard``). An example ends with the program's end, a fault, or any other message to the user; anything
else is an exception that nobody catches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import fuzz_guard
import fuzz_images
import fuzz_instructions
import fuzz_largest
import fuzz_registers
import fuzz_scalar

KINDS: dict[str, Callable[[Random], str]] = {
    "instructions": fuzz_instructions.example,
    "formats": fuzz_instructions.example_of_any_format,
    "tiles": fuzz_instructions.example_on_tiles,
    "registers": fuzz_registers.example,
    "images": fuzz_images.example,
    "executables": fuzz_images.executable_example,
    "scalar": fuzz_scalar.example,
    "hot": fuzz_scalar.hot_example,
    "largest": fuzz_largest.example,
}


def main() -> None:
    kind, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fuzz_guard.install()
    for number in range(first, first + count):
        print(f"{kind} {number}", end=" ", flush=True)
        print(KINDS[kind](Random(f"{kind} {number}")), flush=True)


if __name__ == "__main__":
    main()
