"""C kernels of the vendor's compiler flow: compiled by GCC, launched over a grid (docs/crt.md)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import emulator
from emulator.chip.system import System
from tx8isa.c import header
from tx8isa.c.tsm.pages import HEADERS, LIBRARY
from tx8isa.errors import Tx8Error
from tx8isa.machine.timing import Flow
from tx8isa.tools.files import write_whole
from tx8isa.tools.suggestions import hint

if TYPE_CHECKING:
    from .views.stats import Stats

Array = np.ndarray[Any, np.dtype[Any]]

_PREFIX = "riscv64-unknown-elf-"
_COMMON = ("--specs=picolibc.specs", "-mabi=lp64d", "-mcmodel=medany")
_COMPILE = ("-march=rv64imfd_zicsr_zifencei", "-std=c11", "-O2", "-ffunction-sections", "-ffp-contract=off")
_INCLUDE = (f"-I{header.FOLDER}", f"-I{HEADERS}")
# The C library has no variant for M, F and D; the variant linked here has the same calling convention.
_LINK = ("-march=rv64ifd", "-nostartfiles", "-T", str(LIBRARY / "tx8.ld"), "-Wl,--gc-sections")
_SUFFIXES = (".c", ".o", ".a")
_SLOTS = 64
"""Number of arguments that the launcher can pass, as in ``tsm_launch.c``; the last three are the grid."""
_ALIGNMENT = 256
_AXES = 3


class Kernel:
    """A kernel that can be launched any number of times, each time from the reset state of the chip."""

    def __init__(self, name: str, program: emulator.Program) -> None:
        self.name = name
        self._program = program

    def prepared(self, grid: int | Sequence[int], *arguments: Any) -> PreparedLaunch:
        """Return a launch with its arguments in place; parameters and errors as for ``launch``."""
        extents = _grid(grid)
        if len(arguments) + _AXES > _SLOTS:
            raise Tx8Error(f"{self.name}: {len(arguments)} arguments, expected at most {_SLOTS - _AXES}")
        address = _aligned(self._engine_address("__heap_end"))
        slots, arrays = [], []
        for place, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray) and argument.ndim:
                arrays.append((_checked(argument, place), address))
                slots.append(address)
                address = _aligned(address + argument.nbytes)
            else:
                slots.append(_scalar(argument, place))
        memory = [(at, array.tobytes()) for array, at in arrays]
        memory.append((self._engine_address("tsm_grid"), np.array(extents, "<u4").tobytes()))
        buffer = np.array([*slots, *extents], "<u8").tobytes()
        memory.append((self._engine_address("tsm_arguments"), buffer))
        return PreparedLaunch(self._program, memory, arrays)

    def launch(self, grid: int | Sequence[int], *arguments: Any, threads: int = 1) -> Launch:
        """Run the kernel once for each place of a grid of up to three axes; arrays receive its stores.

        An array becomes its address in DDR, an integer 64 bits, a float the 32 bits of FP32, a float of NumPy
        its own bits. ``threads``: of the host; results do not depend on it. Tx8Error for a grid or an
        argument that does not fit, Fault when a program stops.
        """
        ready, written = self.prepared(grid, *arguments), list[bytes]()

        def execute(**options: Any) -> System:
            system = ready.start(threads=threads, **options)
            system.run()
            return system

        system = execute(show=lambda _, data: written.append(data))
        for (array, _), stored in zip(ready.arrays, ready.results(system), strict=True):
            np.copyto(array, stored)
        retired = sum(tile.retired for tile in system.tiles)
        return Launch(retired, b"".join(written).decode(errors="replace"), self._program, execute)

    def _engine_address(self, symbol: str) -> int:
        windows = self._program.machine.windows
        return self._program.image.symbols[symbol].address - windows.ddr_cached + windows.ddr_engine


class PreparedLaunch(NamedTuple):
    """A launch with the addresses of its arguments in memory."""

    program: emulator.Program
    memory: list[tuple[int, bytes]]
    """Addresses, and the bytes there at the start."""
    arrays: list[tuple[Array, int]]
    """The arrays among the arguments, and their addresses."""

    def start(self, **options: Any) -> System:
        """Return a system at the beginning of the launch; ``options`` of ``emulator.Program.start``."""
        system = self.program.start({}, **options)
        base = self.program.machine.windows.ddr_engine
        for at, data in self.memory:
            system.ddr_range(at, len(data))[:] = np.frombuffer(data, np.uint8)
            if system.sanitizer:
                system.sanitizer.loaded(at - base, len(data))
        return system

    def results(self, system: System) -> list[Array]:
        """Return the contents of the arrays after a run."""
        found = []
        for array, at in self.arrays:
            stored = np.frombuffer(system.ddr_range(at, array.nbytes).tobytes(), array.dtype)
            found.append(stored.reshape(array.shape))
        return found


@dataclass(frozen=True)
class Launch:
    """A finished launch with its time and statistics."""

    instructions: int
    """Number of instructions that all tiles have executed."""
    printed: str
    """The programs' standard output."""
    _program: emulator.Program
    _execute: Callable[..., System]

    @cached_property
    def stats(self) -> Stats:
        """Return where the time went, as for a ``Run``. The first use repeats the launch."""
        from .views.stats import Stats, Watch

        watch = Watch(self._program)
        return Stats(watch, self._execute(sinks=watch.sinks).tiles)

    @property
    def cycles(self) -> float:
        """Simulated cycles; a command takes as long as with the vendor's C runtime (docs/crt.md)."""
        return self.stats.cycles

    @property
    def cycles_range(self) -> tuple[float, float]:
        """The least and the most cycles, with the model's figures at the ends of their ranges."""
        return self.stats.cycles_range


def c_kernel(
    sources: str | Path | Sequence[str | Path],
    function: str,
    *,
    flags: Sequence[str] = (),
    issue: Flow = "c-runtime",
) -> Kernel:
    """Compile and link a kernel: a C function that gets a pointer to its arguments, 64 bits for each.

    ``sources``: C files, object files and archives; ``flags``: further ones for the compiler. ``issue``:
    simulated time counts submissions by the vendor's library, or this project's library as executed
    (``text``). Tx8Error without GCC, for its errors, and for a function that the sources do not define.
    """
    paths = [Path(p) for p in ([sources] if isinstance(sources, str | Path) else sources)]
    for path in paths:
        if path.suffix not in _SUFFIXES:
            raise Tx8Error(f"{path}: a kernel is made from {', '.join(_SUFFIXES)} files")
        if not path.is_file():
            raise Tx8Error(f"{path}: no such file")
    if shutil.which(f"{_PREFIX}gcc") is None:
        packages = "gcc-riscv64-unknown-elf and picolibc-riscv64-unknown-elf"
        raise Tx8Error(f"C kernels need {_PREFIX}gcc, which is not there: install {packages}")
    with tempfile.TemporaryDirectory(prefix="tx8") as folder:
        objects = [_object(path, Path(folder), flags) for path in paths]
        _check_defined(function, paths, objects)
        library = [_written(Path(folder, name), content) for name, content in _library().items()]
        target = Path(folder) / "kernel.elf"
        linked = [*_LINK, f"-Wl,--defsym=tsm_kernel={function}", *map(str, [*objects, *library])]
        _run("gcc", *_COMMON, *linked, "-lm", "-o", str(target))
        program = _loaded(target, ", ".join(map(str, paths)))
        return Kernel(function, emulator.Program(program.image, program.machine.issued_by(issue)))


@cache
def _library() -> dict[str, bytes]:
    """Return the object files of the C runtime by name.

    All kernels share them, because GCC takes two seconds to make them.
    """
    with tempfile.TemporaryDirectory(prefix="tx8") as folder:
        sources = [path for pattern in ("*.c", "*.S") for path in sorted(LIBRARY.glob(pattern))]
        objects = [_object(path, Path(folder), ()) for path in sources]
        return {f"library_{path.name}": path.read_bytes() for path in objects}


def _written(path: Path, content: bytes) -> Path:
    write_whole(path, content)
    return path


def _loaded(target: Path, names: str) -> emulator.Program:
    """Load the linked program; a refusal of the emulator names the sources, not a temporary file."""
    try:
        return emulator.load(target)
    except Tx8Error as error:
        raise Tx8Error(str(error).replace(str(target), names)) from None


def _object(path: Path, folder: Path, flags: Sequence[str]) -> Path:
    """Compile a source to an object file in a folder; returns its path, or the path of any other file.

    The path is absolute, because GCC takes a path that begins with ``-`` or ``@`` for options.
    """
    path = path.absolute()
    if path.suffix not in (".c", ".S"):
        return path
    target = folder / f"{len(list(folder.iterdir()))}_{path.stem}.o"
    _run("gcc", *_COMMON, *_COMPILE, *_INCLUDE, *flags, "-c", str(path), "-o", str(target))
    return target


def _run(tool: str, *arguments: str) -> str:
    """Run a tool and return its output; Tx8Error with the first error that it reports."""
    done = subprocess.run([_PREFIX + tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    lines = re.findall(r"^.*(?:error|undefined|multiple definition).*$", done.stderr, re.MULTILINE)
    raise Tx8Error((lines or done.stderr.splitlines() or [f"{_PREFIX}{tool} failed"])[0])


def _check_defined(function: str, paths: Sequence[Path], objects: Sequence[Path]) -> None:
    listed = _run("nm", "--defined-only", "--extern-only", *map(str, objects))
    defined = re.findall(r"^[0-9a-f]+ T (\w+)$", listed, re.MULTILINE)
    if function not in defined:
        names, known = ", ".join(str(p) for p in paths), ", ".join(defined) or "none"
        raise Tx8Error(f"{names}: no function '{function}'{hint(function, defined)}; defined: {known}")


def _grid(grid: int | Sequence[int]) -> tuple[int, ...]:
    """Return the three extents of a grid; Tx8Error for a grid that does not fit."""
    extents = (grid,) if isinstance(grid, int) else tuple(grid)
    if not 1 <= len(extents) <= _AXES or not all(1 <= extent < 1 << 32 for extent in extents):
        raise Tx8Error(f"grid {grid}: expected one to three extents of at least 1")
    return (*extents, *(1,) * (_AXES - len(extents)))


def _checked(array: Array, place: int) -> Array:
    """Check that an array's bytes can be copied from it and back into it."""
    if array.dtype.hasobject:
        raise Tx8Error(f"argument {place} is an array of objects: expected numbers")
    if not array.flags.writeable:
        raise Tx8Error(f"argument {place} is a read-only array, and a kernel may store to it: give a copy")
    return array


def _scalar(value: Any, place: int) -> int:
    """Return the 64 bits of a number."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        value = np.float32(value)
    if isinstance(value, np.integer | np.bool_):
        value = int(value)
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufV" and value.nbytes <= 8:
        return int.from_bytes(value.tobytes(), "little")
    if not isinstance(value, int):
        kind = type(value).__name__
        raise Tx8Error(f"argument {place} is a {kind}: expected an array of NumPy, an integer or a float")
    if not -(1 << 63) <= value < 1 << 64:
        raise Tx8Error(f"argument {place} is {value}: expected a number of 64 bits")
    return value & ((1 << 64) - 1)


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT
