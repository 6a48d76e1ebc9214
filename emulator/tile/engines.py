"""Python's side of a tile's engines: the compiled issue function and the kernels that it calls."""

from __future__ import annotations

from emulator import native
from emulator.engines import issue, queues
from emulator.engines.packets import Refused, Submission, find_record
from emulator.engines.slots import Slots
from emulator.memory import state, stop
from tx8isa.numbers.primitives import s64
from tx8isa.table.packets import Packet

from .tile import Tile


class Engines:
    """The compiled functions of the engines, shared by all tiles and threads; ``ne_post`` as in ``Slots``."""

    def __init__(self, ne_post: bool = False) -> None:
        self.slots = Slots(ne_post)
        self.issue = issue.issue_kernel()
        """Address of the issue function."""

    def finish(self, tile: Tile) -> int:
        """Execute everything the tile has issued; return -1, or the first stop reason that came up."""
        found = -1
        while tile.pending():
            for worker in range(tile.workers):
                reason = self._call(tile, issue.command(issue.DRAIN, worker))
                found = reason if found < 0 else found
        return found

    def step(self, tile: Tile, worker: int) -> None:
        """Execute one instruction, if the worker has any left; raises ``Refused`` for an exception."""
        reason = self._call(tile, issue.command(issue.STEP, worker))
        if reason >= 0:
            raise Refused(reason)

    def submit(self, tile: Tile, worker: int, packet: Packet) -> None:
        """Issue the instruction in a worker's registers; raises ``Refused`` when it is not legal."""
        registers = tile.registers(worker)
        tile.words[state.WORKER] = worker
        record, opcode = find_record(packet, registers)
        if record is None:
            raise self._refused(tile, (stop.OPCODE, packet.engine, opcode, 0, 0))
        submission = Submission(record, registers)
        tile.set_fields(submission.values)
        if submission.problem is not None:
            raise self._refused(tile, submission.problem)
        number = submission.number
        reason = self._call(tile, issue.command(issue.CHECK, worker, number))
        if reason >= 0:
            raise Refused(reason)
        wrong = submission.wrong_end()
        if wrong is not None:
            raise self._refused(tile, wrong)
        reason = self._call(tile, issue.command(issue.TAKE, worker, number))
        if reason >= 0:
            raise Refused(reason)

    def _refused(self, tile: Tile, problem: tuple[int, int, int, int, int]) -> Refused:
        reason, *details = problem
        tile.words[state.DETAIL : state.DETAIL + 4] = [s64(word) for word in details]
        return Refused(reason)

    def _call(self, tile: Tile, command: int) -> int:
        """Call the issue function, and compile the kernels that it finds missing."""
        address = tile.words.ctypes.data
        while (reason := native.call(self.issue, command, address)) == stop.KERNEL:
            self.slots.fill(tile.detail[0])
        return reason

    def note_exception(self, tile: Tile, bits: int) -> bool:
        """Set exception bits for the last refused instruction; return True if the tile has to stop."""
        detail = tile.words[state.DETAIL : state.DETAIL + 4]
        before = detail.copy()
        worker = int(tile.words[state.WORKER])
        number = int(tile.block(worker)[queues.NEXT])
        address = tile.words.ctypes.data
        reason = queues.raise_exception(address, tile.block(worker).ctypes.data, bits, number)
        detail[:] = before
        return reason >= 0
