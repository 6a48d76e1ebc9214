"""All files are written by ``tx8isa/tools/files.py``, whole or not at all, and never over one that is read.

So no other module may open a file for writing, or rename or remove one. The rule reads the source: it knows
the functions of the standard library and of NumPy, ONNX and PyTorch that do that, by their names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from source_files import package_sources

EXCEPTIONS = {
    "tx8isa/tools/files.py:fdopen": "the writer: its temporary files, and open files of the process",
    "tx8isa/tools/files.py:open": "the writer: devices and pipes, and temporary files that are always new",
    "tx8isa/tools/files.py:unlink": "the writer: removes its temporary files, and those that it has left",
    "tx8isa/tools/files.py:rmdir": "the writer: takes back the folders that it has made",
    "tx8isa/tools/caches.py:unlink": "--cache-clear removes entries of the caches",
    "tx8isa/tools/caches.py:rmdir": "--cache-clear removes folders of the caches",
    "compiler/tools/cache.py:unlink": "the program cache removes the entries that were not used for longest",
    "compiler/tools/verification/excerpt.py:ZipFile": "an archive in memory, which the writer stores",
    "emulator/chips/ranks/sentinel.py:unlink": "removes what a killed rank has left",
    "emulator/memory/image_file.py:truncate": "a file in memory that has no name",
    "emulator/watch/trace/file.py:GzipFile": "compresses into the open file of the writer",
    "compiler/frontend/torch/model.py:rmtree": "a temporary folder of its own",
    "tx8/pytorch.py:save": "PyTorch writes into the open file of the writer",
}
"""``path:function`` -> why. An entry that is no longer needed fails."""

OPEN = {"open", "fdopen", "ZipFile", "GzipFile", "BZ2File", "LZMAFile", "TarFile"}
"""Functions that open a file by a mode."""
METHODS = {
    *("write_text", "write_bytes", "touch", "unlink", "rmdir", "symlink_to", "hardlink_to"),
    *("tofile", "savetxt", "savez", "savez_compressed", "save_file", "NamedTemporaryFile", "mkstemp"),
}
"""Methods of any object that write or remove a file."""
FUNCTIONS = {
    "os": {
        *("rename", "replace", "renames", "link", "symlink", "unlink", "remove", "rmdir", "removedirs"),
        *("mkfifo", "mknod", "truncate", "creat"),
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "np": {"save"},
    "numpy": {"save"},
    "onnx": {"save", "save_model"},
    "torch": {"save"},
    "export": {"save"},
}
"""Functions that write or remove a file, by module."""
READING = re.compile(r"rb?t?")
WORDS = re.compile(
    "|".join(
        [
            rf"\b({'|'.join(OPEN)})\(|\b({'|'.join(METHODS)})\b|from \S*\b({'|'.join(FUNCTIONS)}) import",
            *(rf"\b{owner}\.({'|'.join(names)})\b" for owner, names in FUNCTIONS.items()),
        ]
    )
)
"""A file without these has nothing that the rule could find, and need not be parsed."""


def writing(path: str, text: str) -> list[str]:
    """``path:function`` of each function that opens a file for writing, renames or removes one."""
    if not WORDS.search(text):
        return []
    return sorted({f"{path}:{name}" for node in ast.walk(ast.parse(text, path)) for name in found(node)})


def found(node: ast.AST) -> Iterator[str]:
    """Names of functions that a node uses."""
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = METHODS | FUNCTIONS.get((node.module or "").split(".")[-1], set())
        yield from (alias.name for alias in node.names if alias.name in names)
    if isinstance(node, ast.Attribute):
        owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if node.attr in METHODS | FUNCTIONS.get(owner, set()):
            yield node.attr
    if isinstance(node, ast.Call) and (name := opened(node)) is not None:
        yield name


def opened(call: ast.Call) -> str | None:
    """Return the name of the function that is called to open a file for writing."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    if name not in OPEN:
        return None
    owner = ast.unparse(call.func).rpartition(".")[0]
    given: list[ast.expr] = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    if owner == "os" and name == "open":
        flags = ast.unparse(call.args[1])
        nowhere = ast.unparse(call.args[0]) == "os.devnull"
        return (
            None if nowhere or re.fullmatch(r"os\.O_RDONLY( \| os\.O_(?!CREAT|TRUNC)\w+)*", flags) else name
        )
    own = name == "open" and owner not in ("", "io", "os", "gzip", "bz2", "lzma", "tarfile")
    modes = given if own else given[1:]  # a method of a path has no path before the mode
    texts = [each.value for each in modes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    computed = not own and bool(modes) and not isinstance(modes[0], ast.Constant)
    return name if computed or any(not READING.fullmatch(each) for each in texts[:1]) else None


def test_files_are_written_by_one_module() -> None:
    there = {name for path, text in package_sources() for name in writing(path, text)}
    assert sorted(there - set(EXCEPTIONS)) == [], "write through tx8isa.tools.files"
    assert sorted(set(EXCEPTIONS) - there) == [], "exception no longer needed: remove it"
    assert all(reason.strip() for reason in EXCEPTIONS.values()), "an exception needs its reason"


@pytest.mark.parametrize(
    "text",
    [
        "open(x, 'w')",
        "open(x, mode='ab')",
        "open(x, 'r+b')",
        "open(x, mode)",
        "x.open('wb')",
        "x.open(mode='x')",
        "Path(x).open('a', encoding='utf-8')",
        "io.open(x, 'w')",
        "gzip.open(x, 'wb')",
        "os.fdopen(x, 'wb')",
        "os.open(x, os.O_WRONLY | os.O_CREAT)",
        "os.open(x, os.O_RDONLY | os.O_CREAT)",
        "os.open(x, flags, 0o600)",
        "zipfile.ZipFile(x, 'w')",
        "gzip.GzipFile('', 'wb', 3, x)",
        "x.write_text('')",
        "x.write_bytes(b'')",
        "x.touch()",
        "x.unlink(missing_ok=True)",
        "os.replace(x, y)",
        "os.remove(x)",
        "shutil.copy(x, y)",
        "finalize(x, shutil.rmtree, y)",
        "np.save(x, y)",
        "numpy.savez(x, y=y)",
        "x.tofile(y)",
        "onnx.save(x, y)",
        "torch.export.save(x, y)",
        "tempfile.NamedTemporaryFile()",
        "from os import unlink",
        "from shutil import copyfile as c",
        "from safetensors.numpy import save_file",
    ],
)
def test_what_writes_is_seen(text: str) -> None:
    assert len(writing("asm/a.py", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "open(x)",
        "open(x, 'rb')",
        "open(x, encoding='utf-8')",
        "x.open()",
        "x.open('rb', buffering=0)",
        "chunks.open(live, place)",
        "os.open(x, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)",
        "os.open(os.devnull, os.O_WRONLY)",
        "zipfile.ZipFile(x)",
        "zipfile.ZipFile(x, 'r')",
        "text.replace(x, y)",
        "replace(x, y=y)",
        "session.save(x)",
        "np.lib.format.write_array(x, y)",
        "tempfile.TemporaryDirectory()",
        "shutil.which('gcc')",
        "from os import path",
    ],
)
def test_what_only_reads_passes(text: str) -> None:
    assert writing("asm/a.py", text) == []
