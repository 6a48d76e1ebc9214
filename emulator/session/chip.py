"""One chip of a session: its memories, and the bytes that persist from step to step."""

from __future__ import annotations

from collections.abc import Mapping

from asm.image import Buffer
from emulator.chip.memories import Memories
from emulator.memory.areas import Bytes
from emulator.memory.keeping import AFTER_RESET, KEEP, PUT_BACK, Keeping
from emulator.program import Program

from .entry import SessionEntry
from .kept import KeptBytes
from .tensors import BoundTensor


class SessionChip:
    """The networks of a program by name, in the memories of one chip; ``program`` is all of them."""

    def __init__(self, program: Program, networks: Mapping[str, Program], memories: Memories) -> None:
        self._program, self.memories = program, memories
        self.entries = {name: SessionEntry(each, memories, self._tensor) for name, each in networks.items()}
        self.states = {name: found for each in self.entries.values() for name, found in each.states.items()}
        self.constants = {b.name: self._tensor(b) for b in program.image.buffers if b.kind == "constant"}
        self._kept = {name: self._keep(tensor) for name, tensor in self.states.items()}
        self._replaced: dict[str, KeptBytes] = {}
        self._keeping = self._all_kept()

    def saved(self, state: str) -> Bytes:
        """Return the bytes of a state after the last complete step."""
        return self._kept[state].saved

    def set_state(self, state: str, data: Bytes) -> None:
        """Set the bytes of a state."""
        self._kept[state].set(data)

    def replace(self, constant: str, data: Bytes) -> None:
        """Replace the bytes of a constant."""
        if constant not in self._replaced:
            self._replaced[constant] = self._keep(self.constants[constant])
            self._keeping = self._all_kept()
        self._replaced[constant].set(data)

    def end(self, complete: bool) -> None:
        """Prepare the memories for the next step; an incomplete step leaves nothing."""
        self._keeping.follow(KEEP if complete else PUT_BACK)
        self.memories.reset()
        self._keeping.follow(AFTER_RESET)

    def _tensor(self, buffer: Buffer) -> BoundTensor:
        return BoundTensor(buffer, self.memories.ddr_area, *self._program.extent(buffer, self.memories))

    def _all_kept(self) -> Keeping:
        kept = (*self._kept.values(), *self._replaced.values())
        return Keeping(self.memories.ddr_area, [(each.offset, each.saved) for each in kept])

    def _keep(self, tensor: BoundTensor) -> KeptBytes:
        return KeptBytes(self.memories.ddr_area, tensor.offset, tensor.size)
