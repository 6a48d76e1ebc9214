"""Milliseconds that the language server needs for a keystroke in a program of a compiler's kind.

    python benchmarks/editing.py [LINES]

The script types a line in the middle of the text; after each character it assembles the text as the server
does. The comparison is with assembling the whole text anew. The figures are processor time, the median and
the longest; garbage is collected between two keystrokes, as in the server.
"""

from __future__ import annotations

import gc
import random
import re
import statistics
import sys
import time
from collections.abc import Callable

from asm.assembler import assemble_text
from assembler import mixed_program
from tx8.desktop.language.memory import Memory
from tx8.desktop.language.text import read
from tx8.desktop.rest import Rest

TYPED = "    rdma.fp16 dst=0x1000, src=a0, n=512\n"
NAMES = 64


def named_program(lines: int) -> str:
    """The program of ``benchmarks/assembler.py`` with names of buffers in place of addresses, and calls."""
    rng = random.Random(2)
    text = re.sub(r"0x[0-9a-f]+", lambda _: f"buffer{rng.randrange(NAMES)}", mixed_program(lines - NAMES))
    text = re.sub(r"li t1, \d+", "call _start", text)
    return "".join(f".equ buffer{n}, {n * 0x4000:#x}\n" for n in range(NAMES)) + text


def milliseconds(work: Callable[[], object]) -> float:
    """The processor time of a call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def keystrokes(text: str) -> list[float]:
    """The milliseconds after each character of a line that is typed in the middle."""
    memory, middle = Memory(), text.index("\n", len(text) // 2) + 1
    read(text, "p.s", memory)
    before, after = text[:middle], text[middle:]
    rest, times = Rest(), []
    rest.opened()
    for count in range(1, len(TYPED)):
        state = f"{before}{TYPED[:count]}\n{after}"
        gc.disable()
        times.append(milliseconds(lambda state=state: read(state, "p.s", memory)))
        gc.enable()
    return times


def main() -> None:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    for name, text in (("numbers", mixed_program(lines)), ("names and calls", named_program(lines))):
        anew = statistics.median(
            milliseconds(lambda text=text: assemble_text(text, "p.s", (), {}, None)) for _ in range(5)
        )
        times = keystrokes(text)
        figures = f"{statistics.median(times):6.1f} ms, longest {max(times):6.1f} ms"
        print(f"{lines:,} lines with {name:16} a keystroke {figures}; anew {anew:6.1f} ms")


if __name__ == "__main__":
    main()
