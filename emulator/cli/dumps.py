"""Dumps of the memories after a run, printed or written: hex dumps, raw bytes, tensors."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from emulator.chip.tensors import TensorView, check_file, find_tensor, tensor_file_bytes
from emulator.cli.options import ddr_range, tensor_file
from emulator.memory.dump import dump_scratchpads, hex_dump
from tx8isa.tools.files import write_whole

if TYPE_CHECKING:
    from emulator.chip.system import System
    from emulator.program import Program


class Dumps:
    """The dumps that the options ask for. Tx8Error for a tensor or range that the machine does not have."""

    def __init__(self, options: argparse.Namespace, program: Program) -> None:
        self._options = options
        names = [buffer.name for buffer in program.image.buffers]
        pairs = [tensor_file(text, names) for text in options.dump_tensor]
        self._tensors: Sequence[tuple[TensorView, str | None]] = [
            (find_tensor(text, program.image, program.machine), file) for text, file in pairs
        ]
        for _, file in pairs:
            if file is not None:
                check_file(file)
        self._ranges = [ddr_range(text) for text in options.dump_ddr]

    def check(self, system: System) -> None:
        """Raise Tx8Error when a range of DDR is not mapped."""
        for address, size in self._ranges:
            system.ddr_range(address, size)
        for view, _ in self._tensors:
            view.read(system)

    def lines(self, system: System) -> Iterator[str]:
        """Yield the lines to print; dumps that go to files are written on the way."""
        options = self._options
        if options.dump_spm == "-":
            chosen = [tile for tile in system.tiles if options.tile in (None, tile.number)]
            yield from dump_scratchpads((tile.number, tile.spm) for tile in chosen)
        for address, size in self._ranges:
            yield from hex_dump(system.ddr_range(address, size), address)
        for view, file in self._tensors:
            if file is None:
                yield from view.lines(system)

    def files(self, system: System) -> dict[str, bytes]:
        """Return the contents of files, by their names."""
        options = self._options
        found = {file: tensor_file_bytes(view, system) for view, file in self._tensors if file is not None}
        if options.dump_spm and options.dump_spm != "-":
            found[options.dump_spm] = system.tiles[options.tile or 0].spm.data.tobytes()
        return found


def write_files(files: Mapping[str, bytes]) -> None:
    """Write files, each whole; Tx8Error for the first that cannot be written."""
    for file, data in files.items():
        write_whole(file, data)
