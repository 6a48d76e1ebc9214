"""A cache of compiled programs on disk: compiling the same graph again only reads a file.

The name of an entry is a hash of everything on which a program depends: the graph with its constants, the
machine description, the options, and the sources of the compiler. An entry is one file, which is written
completely or not at all and is checked before use. When all entries together exceed a limit, the least
recently used ones are removed.

Importing this module loads nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tx8isa.tools.cache_folder import SEAL_BYTES, SECRET, SealedFolder, cache_folder
from tx8isa.tools.caches import PROGRAM_BYTES, PROGRAMS
from tx8isa.tools.files import sweep

if TYPE_CHECKING:
    from compiler.driver import Program
    from compiler.graph import Array, Graph
    from tx8isa.machine.description import Machine
    from tx8isa.tools.files import Bytes

log = logging.getLogger(__name__)

_LENGTHS = struct.Struct("<4Q")
"""Sizes of header, text, constants and image in bytes, at the beginning of an entry."""
_BEGAN = time.time()
"""Start time of this process: sources written later may differ from the imported ones."""


def default_folder() -> Path:
    """Return the folder of the cache of programs."""
    return cache_folder(PROGRAMS.folder)


def _entry(key: str) -> str:
    """Return the name of an entry in the folder."""
    return f"{key}.program"


class ProgramCache:
    """Programs by their keys (:func:`program_key`). ``most`` is the limit for the bytes of the folder."""

    def __init__(self, folder: Path | None = None, most: int = PROGRAM_BYTES) -> None:
        self.folder, self.most = folder if folder is not None else default_folder(), most
        self._sealed = SealedFolder(self.folder, "program cache")

    def load(self, key: str, graph: Graph, machine: Machine, options: Mapping[str, Any]) -> Program | None:
        """Return the program stored under ``key``; None if there is none that may be trusted.

        The other arguments are those of the compilation.
        """
        name = _entry(key)
        data = self._sealed.read(name)
        if data is None:
            return None
        with suppress(OSError):  # a folder that is only read
            os.utime(self.folder / name)
        return _unpacked(data, graph, machine, options)

    def save(self, key: str, program: Program) -> bool:
        """Store a program; False if that is impossible, or if sources changed since this process began."""
        if _newest_source() >= _BEGAN:
            log.info("program cache: the compiler was changed after it was started; nothing is kept")
            return False
        parts = _packed(program)
        if SEAL_BYTES + sum(map(len, parts)) > self.most:
            log.info("program cache: the program is larger than all entries together may be; not kept")
            return False
        if not self._sealed.write(_entry(key), parts):
            return False
        self._shrink()
        return True

    def _shrink(self) -> None:
        """Remove the remains of killed writers, and the least recently used entries until the others fit."""
        sweep(self.folder)
        total = 0
        for _, size, path in sorted(self._files()):
            total += size
            if path.suffix == ".program" and total > self.most:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield seconds since the last use, size in bytes and path of every entry and temporary file."""
        now = time.time()
        with suppress(FileNotFoundError):  # another process empties the folder
            for path in (path for path in self.folder.iterdir() if path.name != SECRET):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    yield now - status.st_mtime, status.st_size, path


def compile_cached(
    graph: Graph,
    machine: Machine,
    options: Mapping[str, Any],
    compiled: Callable[[], Program],
    say: Callable[[str], None],
    look: bool = True,
) -> Program:
    """Return the program of ``compile_graph(graph, machine=machine, **options)``, from the cache if possible.

    ``compiled`` calls that function. Without ``look`` it is always called and the program stored.
    ``say`` is called with one sentence about each hit or miss. The cache is not used with operators from
    outside of the source tree, because their dependencies are unknown.
    """
    if added := _added():
        say(f"program cache: not used with operators from outside: {', '.join(added)}")
        return compiled()
    store, key = ProgramCache(), program_key(graph, machine, options)
    program = store.load(key, graph, machine, options) if look else None
    if program is not None:
        say(f"program cache: hit, {key[:16]} in {store.folder}")
        return program
    program = compiled()
    kept = "kept" if store.save(key, program) else "not kept"
    say(f"program cache: {'miss' if look else 'not asked'}, {kept} as {key[:16]} in {store.folder}")
    return program


def _added() -> list[str]:
    """Return the operators from outside; none if the registry is unused."""
    registries = (sys.modules.get(name) for name in ("compiler.operators", "compiler.lowering"))
    return sorted({name for registry in registries if registry is not None for name in registry.added()})


def program_key(graph: Graph, machine: Machine, options: Mapping[str, Any]) -> str:
    """Return a hexadecimal hash of everything that the program depends on.

    ``options`` of ``compile_graph``.
    """
    import msgspec

    digest = hashlib.sha256()
    parts = [_environment(), _sources_digest(), msgspec.json.encode(machine).decode()]
    parts += [repr(sorted(options.items())), *_texts(options)]
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    _add_graph(digest, graph)
    return digest.hexdigest()


def _add_graph(digest: hashlib._Hash, graph: Graph) -> None:
    """Add the whole graph, and the graphs inside it, to a digest."""
    for part in _outline(graph):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    for name in sorted(graph.constants):
        array = graph.constants[name]
        digest.update(repr((name, array.dtype.name, array.shape)).encode("utf-8", "surrogatepass") + b"\0")
        digest.update(_raw(array))
    for body in (body for node in graph.nodes for body in node.bodies):
        _add_graph(digest, body)


def _texts(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the contents of the files that options name."""
    for name, value in sorted(options.items()):
        if isinstance(value, str | Path) and Path(value).is_file():
            yield f"{name}: {Path(value).read_bytes().hex()}"


def _outline(graph: Graph) -> Iterator[str]:
    """Yield the graph without the values of its constants."""
    yield repr((graph.name, graph.opset, graph.inputs, graph.outputs, sorted(graph.precise)))
    yield repr((graph.states, sorted(graph.replaceable), graph.near))
    for node in graph.nodes:
        yield repr((node.op, node.name, node.inputs, node.outputs, sorted(node.attrs.items())))


def _raw(array: Array) -> memoryview:
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@cache
def _environment() -> str:
    """Return the versions of Python and of the packages that compute constants and hold the module."""
    from importlib.metadata import version

    versions = [f"{name} {version(name)}" for name in ("numpy", "ml_dtypes", "xdsl")]
    return "\n".join([sys.version, *versions])


def _sources() -> Iterator[Path]:
    """Yield the files of the packages that compilation uses."""
    root = Path(__file__).parents[2]
    for package in ("asm", "compiler", "tx8isa"):
        found = (root / package).rglob("*")
        yield from sorted(path for path in found if path.is_file() and path.parent.name != "__pycache__")


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(f"{path.parent.name}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _newest_source() -> float:
    """Return the time at which the newest source file was written."""
    return max(path.stat().st_mtime for path in _sources())


def _packed(program: Program) -> list[Bytes]:
    from compiler.search.plan import plan_text

    assert program.report is not None, "it was compiled just now"
    core = program.core_work
    fields = {"dtype": program.dtype, "tiles": program.tiles, "states": program.states}
    fields["core"] = core and [core.phases, core.share]
    fields["wide"] = program.wide and dict(program.wide.values)
    fields["plan"] = plan_text(program.report.plan)
    header = json.dumps(fields).encode()
    texts: list[Sequence[Bytes]] = [[header], [program.text.encode()]]
    parts = [*texts, [program.constants], program.image_file]
    lengths = (sum(map(len, pieces)) for pieces in parts)
    return [_LENGTHS.pack(*lengths), *chain.from_iterable(parts)]


def _unpacked(data: bytes, graph: Graph, machine: Machine, options: Mapping[str, Any]) -> Program:
    """Read a program from the bytes of an entry."""
    from asm.image import read_image
    from compiler.driver import Program
    from compiler.evaluation.remarks import CoreWork, wide_or_none

    view, parts, at = memoryview(data), [], _LENGTHS.size
    for length in _LENGTHS.unpack_from(data):
        parts.append(bytes(view[at : at + length]))
        at += length
    header, text, constants, image = parts
    fields = json.loads(header)
    made = read_image(image, "prog.bin")
    core = CoreWork(*fields["core"]) if fields["core"] else None
    return Program(
        graph,
        fields["dtype"],
        fields["tiles"],
        text.decode(),
        constants,
        made,
        machine,
        states=tuple(fields["states"]),
        core_work=core,
        wide=wide_or_none(fields["wide"] or {}),
        again=partial(_again, graph, machine, options, fields["plan"]),
    )


def _again(graph: Graph, machine: Machine, options: Mapping[str, Any], plan: str, **more: Any) -> Program:
    """Compile a graph once more by the decisions that an entry has."""
    from compiler.driver import compile_graph
    from compiler.search.plan import plan_of

    return compile_graph(graph, machine=machine, **{**options, "plan": plan_of(plan.encode()), **more})
