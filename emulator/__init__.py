"""The emulator: program images to behaviour, instruction by instruction and byte for byte."""

from __future__ import annotations

from .fault import Fault
from .program import InputError, Program, load

__all__ = ["Fault", "InputError", "Program", "load"]
