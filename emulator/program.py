"""Programs for users: load an image, give it arrays, get arrays back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from asm.image import Buffer, Image, ddr_offset, image_of_entry, read_image
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.chip.restart import Pool, Restart
from emulator.chip.system import System
from emulator.memory import shapes
from emulator.memory.buffers import Array, InputError, size_of, travel_dtype
from emulator.memory.image_file import ImageFile, bytes_of
from emulator.memory.pages import SharedSegments
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine, MachineError, load_machine
from tx8isa.machine.identity import described, differences
from tx8isa.tools.overwrite import check_outputs

if TYPE_CHECKING:
    from emulator.chips.links import Passage
    from emulator.chips.mesh import ChipMesh
    from emulator.debug.snapshot.types import Snapshot
    from emulator.timing.slices import Sink
    from emulator.watch.order.findings import OrderFindings
    from emulator.watch.strict.hazards import Hazard


class Program:
    """A program image ready to run; each ``run`` starts from the reset state."""

    def __init__(self, image: Image, machine: Machine) -> None:
        self.image, self.machine = image, machine
        self._pool = Pool(lambda: Restart(image, machine, Memories(image, machine)))
        self.hazards: tuple[Hazard, ...] = ()
        """The findings of the last strict ``run`` (docs/strict.md)."""
        self.order: OrderFindings | None = None
        """The findings of the last ``run`` with ``order`` (docs/order.md)."""
        self.file: Path | None = None
        """The file that the program was read from, which its runs do not replace."""

    def check_output(self, what: str, path: str | Path) -> None:
        """Raise Tx8Error when a file that a run is to write is the program's."""
        check_outputs([(what, path)], [("the program", self.file)])

    @cached_property
    def pages(self) -> SharedSegments:
        """The large segments of the program, for memories that share their pages."""
        data = {
            s.section: (ddr_offset(s.address, self.image.windows) or 0, s.data) for s in self.image.segments
        }
        return SharedSegments(data)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.image.buffers if b.kind == "input")

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.image.buffers if b.kind == "output")

    @property
    def states(self) -> tuple[tuple[Buffer, Buffer], ...]:
        """Inputs and outputs that are the same memory and the same tensor.

        A run leaves the values there for the next run.
        """
        outputs = {self._memory(buffer): buffer for buffer in self.outputs if 0 not in buffer.shape}
        return tuple((b, outputs[self._memory(b)]) for b in self.inputs if self._memory(b) in outputs)

    def _memory(self, buffer: Buffer) -> tuple[Any, ...]:
        """Return a key that is equal for buffers of the same memory with the same content."""
        extents = shapes.extents_that_stay(self.image.shapes, buffer)
        return buffer.address, buffer.format, buffer.shape, buffer.layout, buffer.dtype, extents

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the program's networks; empty for a single one, and for one already chosen."""
        return tuple(found.name for found in self.image.entry_points)

    def of_entry(self, name: str) -> Program:
        """Return one network as a program with its own inputs and outputs; ImageError for an unknown name."""
        found = Program(image_of_entry(self.image, name), self.machine)
        found.file = self.file
        return found

    @property
    def chips(self) -> int:
        """Number of chips that the program runs on."""
        return self.machine.chip_count

    def start(
        self,
        inputs: Mapping[str, Array],
        *,
        snapshot: Snapshot | None = None,
        make: Callable[..., System] | None = None,
        **options: Unpack[RunOptions],
    ) -> System:
        """Return a system with the program loaded and the inputs in place; InputError when they do not fit.

        With ``snapshot`` the system continues from there: inputs and the rules of the machine are those of
        the saved run; SnapshotError for a run of another program or machine. ``make`` makes the system from
        the options, or restarts one. By default a system with new memories is made.
        """
        if self.chips > 1:
            raise Tx8Error(
                f"the program runs on {self.chips} chips of machine {self.machine.name}, not on one"
            )
        if self.entries:
            raise Tx8Error(f"the program has the entries {', '.join(self.entries)}: choose one of them")
        if snapshot is not None:
            return self._resume(snapshot, options)
        sizes = self.sizes_of(inputs)
        packed = [(buffer, self._packed(buffer, sizes, inputs)) for buffer in self.inputs]
        self._check_names(inputs, [buffer.name for buffer in self.inputs])
        system = (make or partial(System, self.image, self.machine))(**options)
        self._place(packed, system)
        shapes.place_sizes(self.image, sizes, system.memories.ddr_area)
        if system.sanitizer and self.image.shapes is not None:
            block = shapes.block_range(self.image, len(sizes))
            system.sanitizer.loaded(block.start, len(block))
        return system

    def start_chips(
        self,
        inputs: Mapping[str, Array],
        *,
        watch: Callable[[int], Sequence[Sink]] | None = None,
        passed: Callable[[Passage], None] | None = None,
        make: Callable[..., ChipMesh] | None = None,
        **options: Unpack[RunOptions],
    ) -> ChipMesh:
        """Return all chips with the program loaded and the inputs in place; InputError when they do not fit.

        Input ``x`` is for every chip, ``chip1.x`` for chip 1. ``watch`` and ``passed`` as for ``ChipMesh``;
        ``make`` makes another mesh than one of all chips, with the same arguments.
        """
        from emulator.chips.mesh import ChipMesh  # here: most runs do not need it

        names = [buffer.name for buffer in self.inputs]
        self._check_names(inputs, [*names, *self.names_of_chips(names)])
        of_chip = [
            {name: inputs[key] for name in names for key in (name, chip_name(n, name)) if key in inputs}
            for n in range(self.chips)
        ]
        packed = [[(b, self._packed(b, {}, given)) for b in self.inputs] for given in of_chip]
        mesh = (make or ChipMesh)(
            self.image, self.machine, watch=watch, passed=passed, pages=self.pages, **options
        )
        for chip in mesh.chips:
            self._place(packed[chip.number], chip)
        return mesh

    def names_of_chips(self, names: Iterable[str]) -> list[str]:
        """Return names of inputs or outputs of all chips, beginning with chip 0."""
        kept = list(names)
        return [chip_name(number, name) for number in range(self.chips) for name in kept]

    def _check_names(self, inputs: Mapping[str, Array], known: Sequence[str]) -> None:
        unknown = sorted(set(inputs) - set(known))
        if unknown:
            names = ", ".join(b.name for b in self.inputs) or "none"
            raise InputError(f"the program has no input '{unknown[0]}'; its inputs: {names}")

    def _place(self, packed: Sequence[tuple[Buffer, Array]], system: System) -> None:
        """Put inputs into memory; Tx8Error when a buffer is not all mapped."""
        for buffer in self.outputs:
            self.bytes_of(buffer, system)
        for buffer, data in packed:
            self.bytes_of(buffer, system)[: data.size] = data
            system.memories.ddr_area.mark(self.offset(buffer), data.size)
            if system.sanitizer:
                system.sanitizer.loaded(self.offset(buffer), data.size)

    def _resume(self, snapshot: Snapshot, options: RunOptions) -> System:
        """Return a system in a saved state; the rules of the machine are those of the saved run."""
        from emulator.debug.snapshot.chip import check, restore

        check(snapshot, self.image, self.machine)
        rules = snapshot.options
        saved: RunOptions = {
            **options,
            "serial": False,
            "strict": False,
            "on_exception": rules.on_exception,
            "write_span": rules.write_span,
            "ne_post": rules.ne_post,
        }
        system = System(self.image, self.machine, **saved)
        restore(system, snapshot)
        return system

    def results(self, system: System) -> dict[str, Array]:
        """Return the outputs of a finished system, by name."""
        outputs = shapes.sized_outputs(self.image, self.outputs, system.memories.ddr_area)
        return {
            whole.name: shapes.unpacked_array(
                self.image.shapes, whole, buffer.shape, self._bytes_of_output(whole, buffer, system)
            )
            for whole, buffer in zip(self.outputs, outputs, strict=True)
        }

    def _bytes_of_output(self, whole: Buffer, sized: Buffer, system: System) -> Array:
        """Return the bytes of an output; all of an output with room for its largest size."""
        declared = self.image.shapes
        kept = declared is not None and (whole.kind, whole.name) in declared.room
        return self.bytes_of(whole if kept else sized, system)

    # -- sizes of a run --------------------------------------------------------------------------------

    def sizes_of(
        self,
        inputs: Mapping[str, Array],
        of: Sequence[Buffer] | None = None,
        lengths: shapes.Sizes | None = None,
    ) -> dict[str, int]:
        """Return the sizes of a run with these inputs; InputError or SizeError when they do not fit.

        ``of``: the inputs that determine them, by default all. A session passes the inputs that are not
        states, and the ``lengths`` of its states.
        """
        declared, buffers = self.image.shapes, self.inputs if of is None else of
        if declared is None:
            return {}
        for buffer in buffers:
            if buffer.name not in inputs:
                raise _missing(buffer, shapes.extents_of(declared, buffer))
        found = shapes.known_sizes(declared, buffers, inputs, lengths)
        unknown = next((each.name for each in declared.dimensions if each.name not in found), None)
        if unknown is not None:
            besides = "" if of is None else " but states"
            raise shapes.SizeError(f"the size of {unknown} is unknown: no input{besides} has such an axis")
        return found

    def _packed(self, buffer: Buffer, sizes: shapes.Sizes, inputs: Mapping[str, Array]) -> Array:
        if buffer.name not in inputs:
            raise _missing(buffer, shapes.extents_of(self.image.shapes, buffer))
        return shapes.packed_array(self.image.shapes, buffer, sizes, np.asarray(inputs[buffer.name]))

    def results_of_chips(self, mesh: ChipMesh) -> dict[str, Array]:
        """Return the outputs of finished chips: ``chip1.y`` is chip 1's."""
        return {
            chip_name(chip.number, name): array
            for chip in mesh.chips
            for name, array in self.results(chip).items()
        }

    def run(
        self,
        inputs: Mapping[str, Array] | None = None,
        *,
        max_instructions: int | None = None,
        **options: Unpack[RunOptions],
    ) -> dict[str, Array]:
        """Run to the end on the given inputs; return outputs by name, none for a run without data.

        InputError, or Fault from the program. ``max_instructions`` is for each tile. With ``strict``,
        ``hazards`` has the findings afterwards, after a Fault too. Names on several chips are those of
        ``start_chips`` and ``results_of_chips``.
        """
        self.hazards = ()
        if self.chips > 1:
            return self._run_chips(inputs or {}, max_instructions, options)
        kept = None if options.get("strict") else self._pool.take()
        system = self.start(inputs or {}, make=kept.begin if kept else None, **options)
        try:
            system.run(max_instructions)
        finally:
            if system.sanitizer:
                self.hazards = system.sanitizer.hazards()
            if system.order_run:
                self.order = system.order_run.findings()
        results = self.results(system) if system.data else {}
        if kept:
            kept.memories.reset(system.threads)
            self._pool.give_back(kept)
        return results

    def _run_chips(
        self, inputs: Mapping[str, Array], max_instructions: int | None, options: RunOptions
    ) -> dict[str, Array]:
        mesh = self.start_chips(inputs, **options)
        try:
            mesh.run(max_instructions)
        finally:
            self.hazards = mesh.hazards()
        return self.results_of_chips(mesh) if options.get("data", True) else {}

    def bytes_of(self, buffer: Buffer, system: System) -> Array:
        """Return the DDR bytes of a buffer; Tx8Error when they are not all mapped."""
        offset, size = self.extent(buffer, system.memories)
        return system.memories.ddr[offset : offset + size]

    def extent(self, buffer: Buffer, memories: Memories) -> tuple[int, int]:
        """Return the beginning of a buffer in DDR, and its bytes; Tx8Error when they are not all mapped."""
        offset, size = self.offset(buffer), size_of(buffer.format, buffer.shape, buffer.layout)
        memories.ddr_range(self.machine.windows.ddr_engine + offset, size)
        return offset, size

    def offset(self, buffer: Buffer) -> int:
        """Return the beginning of a buffer in DDR, in bytes from DDR's first."""
        offset = ddr_offset(buffer.address, self.image.windows)
        if offset is None:
            raise AssertionError("an image's addresses were checked when it was read")
        return offset


def chip_name(chip: int, name: str) -> str:
    """Return the name of an input or output of one of several chips."""
    return f"chip{chip}.{name}"


def _missing(buffer: Buffer, extents: tuple[str, ...]) -> InputError:
    ways = f"--input {buffer.name}=FILE.npy or --random SEED"
    together = "x" if all(map(str.isdigit, extents)) else " x "
    wanted = f"{together.join(extents) or 'scalar'} {travel_dtype(buffer)}"
    return InputError(f"input '{buffer.name}' ({wanted}) is missing: give {ways}")


def load(path: str | Path, machine: Machine | None = None) -> Program:
    """Read a program image, to run on ``machine`` or on its own.

    ImageError if it is not an image or was damaged. MachineError if it was made for another machine than
    ``machine``, with the difference, or if its own description is missing.
    """
    path = Path(path)
    try:
        data = bytes_of(path)
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be read: {error.strerror}") from None
    image = read_image(data, str(path))
    if isinstance(data, memoryview) and isinstance(data.obj, ImageFile):
        data.obj.forget()
    if machine is None:
        machine = own_machine(image, str(path))
    else:
        check_own_machine(image, machine, str(path))
    found = Program(image, machine)
    found.file = path
    return found


def check_own_machine(image: Image, machine: Machine, name: str) -> None:
    """Raise MachineError when an image's machine differs in something that its code may depend on."""
    made = described(image.machine, name) if image.machine else None
    if made and (unlike := differences(made, machine)):
        several = f" (and {len(unlike) - 1} more)" if len(unlike) > 1 else ""
        raise MachineError(
            f"{name}: the program was made for machine {made.name}: {unlike[0]}{several}; "
            f"run it without --machine{' and --chips' if machine.chip_count > 1 else ''}, on its own, "
            f"or make it anew for {machine.name}"
        )


def on_chips(program: Program, x: int, y: int, name: str) -> Program:
    """Return the program on x times y chips of its machine; MachineError when it was made for others."""
    machine = program.machine.of_chips(x, y)
    check_own_machine(program.image, machine, name)
    return Program(program.image, machine)


def own_machine(image: Image, name: str) -> Machine:
    """Return the machine that an image was made for; an executable of another compiler runs on the TX81.

    MachineError when the image only names a machine, and the name is unknown; ``name`` is the image's.
    """
    if not image.machine:
        return load_machine(None)
    found = described(image.machine, name)
    if found is None:
        raise MachineError(
            f"{name}: the program was made for machine {image.machine}, which it does not describe: "
            "give its description with --machine"
        )
    return found
