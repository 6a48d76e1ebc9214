"""The commands as they are installed; each returns its exit status."""

from __future__ import annotations

import sys
from importlib import import_module

from .surroundings import refusal


def _start(command: str, module: str, function: str) -> int:
    """Run the command if tx8 can run here; otherwise print one line with the reason, and return exit status
    1."""
    reason = refusal()
    if reason is not None:
        print(f"{command}: {reason}", file=sys.stderr)
        return 1
    status: int = getattr(import_module(module), function)()
    return status


def tx8as() -> int:
    """The assembler."""
    return _start("tx8as", "asm.cli", "assemble_main")


def tx8dis() -> int:
    """The disassembler."""
    return _start("tx8dis", "asm.cli", "disassemble_main")


def tx8emu() -> int:
    """The emulator, or the judge of kernels, or proofs, which need other packages too."""
    if sys.argv[1:2] == ["judge"]:
        return _start("tx8emu", "tx8.judge.command", "main")
    if any(word.partition("=")[0] == "--prove" for word in sys.argv[1:]):
        return _start("tx8emu", "tx8.judge.proof", "main")
    return _start("tx8emu", "emulator.cli", "main")


def tx8cc() -> int:
    """The compiler."""
    return _start("tx8cc", "compiler.cli", "main")


def tx8opt() -> int:
    """Single passes of the compiler."""
    return _start("tx8opt", "compiler.tools.opt", "main")


def tx8lsp() -> int:
    """The language server for editors."""
    return _start("tx8-lsp", "tx8.desktop.server", "main")
