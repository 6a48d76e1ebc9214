"""Rules of the house that no other tool checks: imports between packages, lengths, forbidden texts.

Each rule is a function from a path and a source text to a list of violations. The tests apply it to the tree,
and also to small wrong texts, so that a rule which sees nothing would fail too.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec
import pytest

from compiler.operators import OPERATORS
from paths import ROOT
from source_files import PACKAGES, imports, package_sources, texts
from tx8isa.machine.description import load_machine

MAY_IMPORT = {
    "tx8isa": ("tx8isa",),
    "asm": ("asm", "tx8isa"),
    "emulator": ("emulator", "tx8isa", "asm.image"),
    "compiler": ("compiler", "tx8isa", "asm"),
    "tx8": ("tx8", "tx8_entry", "compiler", "emulator", "tx8isa", "asm"),
    "tx8_entry": ("tx8_entry", "compiler", "emulator", "asm"),
    "pytest_tx8": ("tx8", "tx8isa"),
}
"""The packages of this project that each package may import."""

MAY_RUN_EMULATOR = ("compiler/tools/run.py", "compiler/tools/verification/field_run.py")
"""The files of the compiler that may start the emulator, for --run and --prove."""

LONGEST_FUNCTION = 40
LONGEST_FILE = 400

LONG_FUNCTIONS: dict[str, str] = {}
"""``path:function`` -> why it is longer. An entry that is no longer needed fails."""

LONG_FILES: dict[str, str] = {}
"""``path`` -> why it is longer. An entry that is no longer needed fails."""

ASKED_FOR = 50
"""Comparisons with the name of an operator outside of ``OF_OPERATORS``, in code for that one alone."""

HEAVY = ("numba", "llvmlite", "onnx", "onnxruntime", "xdsl", "numpy")
"""Modules that the assembler's start-up must not load."""

Rule = Callable[[str, str], list[str]]


# --- imports ------------------------------------------------------------------------------


def allowed(path: str, name: str) -> bool:
    """Return True if the file may import the dotted name of one of our packages."""
    prefixes = MAY_IMPORT[path.split("/")[0]] + (("emulator",) if path in MAY_RUN_EMULATOR else ())
    for prefix in prefixes:
        if name == prefix or name.startswith(prefix + "."):
            return True
        if prefix == "asm.image" and name.startswith("asm.image_"):
            return True
    return False


def wrong_arrows(path: str, text: str) -> list[str]:
    """Imports that run against the order of the packages."""
    package = path.split("/")[0]
    return [
        f"{path}:{line}: imports {name}; {package} may import {', '.join(MAY_IMPORT[package])}"
        for line, name in imports(path, text)
        if name.split(".")[0] in PACKAGES and not allowed(path, name)
    ]


# --- lengths ------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """(dotted name, definition) of every function below ``node``, methods and nested ones included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not isinstance(child, ast.ClassDef):
                yield prefix + child.name, child
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            yield from functions(child, prefix)


def function_length(function: Function) -> int:
    """Lines from ``def`` to the end, the docstring not counted."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def long_functions(path: str, text: str) -> list[str]:
    """``path:function`` of each function that is too long."""
    named = functions(ast.parse(text, path))
    return [f"{path}:{name}" for name, function in named if function_length(function) > LONGEST_FUNCTION]


def long_files(path: str, text: str) -> list[str]:
    """The path, when the file is too long."""
    return [path] if len(text.splitlines()) > LONGEST_FILE else []


# --- forbidden texts ----------------------------------------------------------------------


SHORTCUTS = re.compile(r"\b(cache|fastmath|flags)\b")
FAST_FLAGS = re.compile(r"'(fast|reassoc|contract|nnan|ninf|nsz|arcp|afn)'")
"""LLVM's fast-math flags, as written in source."""


def numba_shortcuts(path: str, text: str) -> list[str]:
    """Numba's own cache (blind to edits of imported functions) and anything that lets floats be reordered."""
    if not SHORTCUTS.search(text):
        return []
    return [
        f"{path}:{value.lineno}: {name}={ast.unparse(value)}"
        for node in ast.walk(ast.parse(text, path))
        for name, value in settings(node)
        if (name == "cache" and ast.unparse(value) == "True")
        or (name == "fastmath" and ast.unparse(value) != "False")
        or (name == "flags" and FAST_FLAGS.search(ast.unparse(value)))
    ]


def settings(node: ast.AST) -> list[tuple[str, ast.expr]]:
    """(name, value) of the keyword arguments of a call or of the string keys of a dictionary."""
    if isinstance(node, ast.Call):
        return [(k.arg, k.value) for k in node.keywords if k.arg]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [(str(k.value), value) for k, value in pairs if isinstance(k, ast.Constant)]
    return []


def machine_paths(path: str, text: str) -> list[str]:
    """Absolute paths of somebody's machine; only tests may name the folder for temporary files."""
    folders = "work|root|home" if path.startswith("tests/") else "work|root|home|tmp"
    pattern = re.compile(r"(?<![\w.$})*-])/(" + folders + ")/")
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def unfinished(path: str, text: str) -> list[str]:
    """Marks of work left undone."""
    words = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "Not" + "ImplementedError"))
    pattern = re.compile(rf"\b({words})\b")
    return [
        f"{path}:{number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := pattern.search(line))
    ]


def addresses_of_memory() -> dict[int, str]:
    """The addresses at which the default machine has its memories, and their names in its description."""
    windows = msgspec.structs.asdict(load_machine(None).windows)
    memories = {name: value for name, value in windows.items() if name.startswith(("spm_", "ddr_"))}
    return {value: name for name, value in memories.items() if not name.endswith("_bytes")}


def retyped_addresses(path: str, text: str) -> list[str]:
    """Addresses of memories as numbers in the code, although another machine has other addresses."""
    known = addresses_of_memory()
    if not re.search(r"\d\w{4}", text):  # no number is as long as the addresses
        return []
    return [
        f"{path}:{node.lineno}: {node.value:#x} is windows.{known[node.value]} of one machine"
        for node in ast.walk(ast.parse(text, path))
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in known
    ]


def typed_rates(path: str, text: str) -> list[str]:
    """Numbers that their docstring gives per cycle, although rates belong in the machine's description."""
    body = ast.parse(text, path).body if path.startswith("compiler/") and " a cycle" in text else []
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for node, said in pairwise(body)
        if isinstance(node, ast.Assign) and isinstance(said, ast.Expr)
        if re.search(r"\ba cycle\b", ast.unparse(said)) and re.search(r"\d", ast.unparse(node.value))
    ]


OF_OPERATORS = ("compiler/operators/", "compiler/frontend/", "compiler/rewrite/")
"""The folders that are about single operators: their records, models that have them, patterns of them."""


def elements_of(node: ast.AST) -> list[list[ast.expr]]:
    """Return the elements of a collection; the keys and the values of a dictionary."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [node.elts]
    if isinstance(node, ast.Dict):
        return [[key for key in node.keys if key is not None], node.values]
    return []


def operator_lists(path: str, text: str) -> list[str]:
    """Find collections with names of operators, which should ask for a property of records instead."""
    if not path.startswith("compiler/") or path.startswith(OF_OPERATORS):
        return []
    found = []
    for node in ast.walk(ast.parse(text, path)):
        for elements in elements_of(node):
            names = [e.value for e in elements if isinstance(e, ast.Constant) and e.value in OPERATORS]
            starred = any(isinstance(element, ast.Starred) for element in elements)
            if len(names) > 1 or (names and starred):
                found.append(f"{path}:{node.lineno}: {', '.join(names)}")
    return found


def operators_asked_for(path: str, text: str) -> list[str]:
    """Comparisons with the name of an operator."""
    if not path.startswith("compiler/") or path.startswith(OF_OPERATORS):
        return []
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(text, path))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Constant) and side.value in OPERATORS
    ]


def utils_files(path: str, text: str) -> list[str]:
    """Files whose names say nothing about their contents."""
    return [path] if re.match(r"_*utils?(?![a-z])", path.split("/")[-1].lower()) else []


# --- the rules applied to the tree --------------------------------------------------------


def violations(rule: Rule, sources: list[tuple[str, str]]) -> list[str]:
    return [v for path, text in sources for v in rule(path, text)]


def test_all_packages_are_seen() -> None:
    assert {path.split("/")[0] for path, _ in package_sources()} == set(PACKAGES)


@pytest.mark.parametrize(
    "rule",
    [wrong_arrows, numba_shortcuts, retyped_addresses, typed_rates, operator_lists],
    ids=lambda rule: rule.__name__,
)
def test_packages_keep(rule: Rule) -> None:
    assert violations(rule, package_sources()) == []


def test_ever_fewer_operators_are_asked_for_by_name() -> None:
    """A lower number is the new limit; a higher one needs a property of the record instead."""
    assert len(violations(operators_asked_for, package_sources())) == ASKED_FOR


@pytest.mark.parametrize("rule", [machine_paths, unfinished], ids=lambda rule: rule.__name__)
def test_all_files_keep(rule: Rule) -> None:
    sources = list(texts())
    assert len(sources) > 20
    assert violations(rule, sources) == []


def test_no_file_is_named_utils() -> None:
    assert violations(utils_files, [(p, "") for p, _ in texts() if p.endswith(".py")]) == []


@pytest.mark.parametrize(
    ("rule", "exceptions"),
    [(long_functions, LONG_FUNCTIONS), (long_files, LONG_FILES)],
    ids=["functions", "files"],
)
def test_lengths_and_their_exceptions(rule: Rule, exceptions: dict[str, str]) -> None:
    too_long = set(violations(rule, package_sources()))
    assert sorted(too_long - set(exceptions)) == [], "longer than allowed: split it"
    assert sorted(set(exceptions) - too_long) == [], "exception no longer needed: remove it"
    assert all(reason.strip() for reason in exceptions.values()), "an exception needs its reason"


def light_modules() -> list[str]:
    """The modules whose import must stay light: those two packages and, once it exists, tx8as itself."""
    return ["tx8isa", "asm", *(["asm.cli"] if (ROOT / "asm/cli.py").exists() else [])]


def loaded_by(module: str) -> set[str]:
    """Top-level modules in memory after importing ``module`` in a fresh interpreter."""
    program = f"import {module}, sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("module", light_modules())
def test_start_up_stays_light(module: str) -> None:
    loaded = loaded_by(module)
    assert module.split(".")[0] in loaded
    assert loaded.isdisjoint(HEAVY), f"import {module} loads {sorted(loaded & set(HEAVY))}"


def test_the_start_up_check_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_by("numpy.linalg")


# --- the rules find what they forbid ------------------------------------------------------

LONG_BODY = "    pass\n" * LONGEST_FUNCTION


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tx8isa/a.py", "import asm"),
        ("tx8isa/a.py", "def f():\n    from emulator.cli import main\n"),
        ("tx8isa/insns/a.py", "from ...asm import image"),
        ("tx8isa/a.py", "from .. import asm"),
        ("asm/a.py", "import emulator.native"),
        ("asm/a.py", "from compiler import graph"),
        ("emulator/a.py", "import asm"),
        ("emulator/a.py", "from asm import parse"),
        ("emulator/a.py", "from asm.imagery import x"),
        ("emulator/a.py", "import compiler"),
        ("compiler/passes/cli.py", "import emulator"),
        ("compiler/cli.py", "import emulator"),
        ("compiler/a.py", "import importlib\nimportlib.import_module('emulator')"),
        ("compiler/a.py", "__import__('emulator.cli')"),
    ],
)
def test_wrong_arrow_is_seen(path: str, text: str) -> None:
    assert len(wrong_arrows(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tx8isa/a.py", "import math\nfrom .errors import Tx8Error\nfrom tx8isa import formats"),
        ("tx8isa/insns/a.py", "from ..formats import Format"),
        ("asm/a.py", "from tx8isa.errors import Tx8Error\nfrom . import image"),
        ("emulator/a.py", "from asm.image import read_image\nfrom asm import image\nimport asm.image.note"),
        ("compiler/a.py", "import asm\nfrom tx8isa import formats"),
        ("compiler/tools/run.py", "def run():\n    import emulator\n"),
        ("compiler/tools/run.py", "from emulator import load"),
        ("emulator/a.py", "import asmlib"),
    ],
)
def test_right_arrow_passes(path: str, text: str) -> None:
    assert wrong_arrows(path, text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"def f():\n{LONG_BODY}", ["asm/a.py:f"]),
        (f"class C:\n  def f(self):\n{LONG_BODY}", ["asm/a.py:C.f"]),
        (f"if x:\n  async def f():\n{LONG_BODY}", ["asm/a.py:f"]),
        (f'def f():\n    """One\n    two."""\n{LONG_BODY[9:]}', []),
        (f"def f():\n{LONG_BODY[9:]}", []),
    ],
)
def test_long_function_is_seen(text: str, names: list[str]) -> None:
    assert long_functions("asm/a.py", text) == names


def test_long_file_is_seen() -> None:
    assert long_files("asm/a.py", "\n" * (LONGEST_FILE + 1)) == ["asm/a.py"]
    assert long_files("asm/a.py", "\n" * LONGEST_FILE) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("@njit(cache=True)\ndef f(): pass", 1),
        ("@njit(fastmath={'nnan'})\ndef f(): pass", 1),
        ("options = {'fastmath': True, 'cache': True}", 2),
        ("builder.fadd(a, b, flags=('fast',))", 1),
        ("@njit(cache=False, fastmath=False)\ndef f(): pass", 0),
        ("run(cache=folder)", 0),
        ("'never fastmath=True'", 0),
    ],
)
def test_numba_shortcut_is_seen(text: str, count: int) -> None:
    assert len(numba_shortcuts("emulator/a.py", text)) == count


def absolute(*parts: str) -> str:
    return "/" + "/".join(parts)


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("asm/a.py", f'open("{absolute("work", "x")}")', 1),
        ("README.md", f"see {absolute('home', 'me', 'x')}\nand {absolute('root', 'x')}", 2),
        ("Makefile", f"cp a {absolute('tmp', 'x')}", 1),
        ("tests/test_a.py", f'"{absolute("tmp", "x")}"', 0),
        ("tests/test_a.py", f'"{absolute("root", "x")}"', 1),
        ("asm/a.py", f"net{absolute('work', 'x')} {absolute('workshop', 'x')}", 0),
        ("Makefile", "$(BUILD)" + absolute("tmp", "x"), 0),
    ],
)
def test_machine_path_is_seen(path: str, text: str, count: int) -> None:
    assert len(machine_paths(path, text)) == count


def test_a_retyped_address_is_seen() -> None:
    assert set(addresses_of_memory().values()) >= {"spm_weak", "ddr_cached", "ddr_engine"}
    text = "ENGINES = 0x2_8000_0000\nCORE = f(at - 0x8000_0000)\n'0x280000000'\nsize = 1 << 31\n"
    found = retyped_addresses("compiler/a.py", text)
    assert [line.split(" is ")[0] for line in found] == [
        "compiler/a.py:1: 0x280000000",
        "compiler/a.py:2: 0x80000000",
    ]


def test_a_typed_rate_is_seen() -> None:
    text = '_DDR, _LINK = 150.0, 90.0\n"""Bytes a cycle of DDR and of a link."""\n'
    assert typed_rates("compiler/a.py", text) == ["compiler/a.py:1: _DDR, _LINK = (150.0, 90.0)"]
    assert typed_rates("emulator/a.py", text) == typed_rates("compiler/a.py", "_MOST = 8\n'Tiles.'\n") == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("_MOVES = ('Reshape', 'Transpose')", 1),
        ("if op in {'Add', 'Sum'}: pass", 1),
        ("ALL = ('Conv', *OTHERS)", 1),
        ("f(*('Relu', 'Clip'))", 1),
        ("CODE = {'And': 'and', 'Or': 'or'}", 1),
        ("WORDS = {'add': 'Add', 'max': 'Max'}", 1),
        ("@lowering('MatMul', 'Gemm')\ndef f(): pass", 0),
        ("ONE = ('Conv',)\nexpand(graph, ('DequantizeLinear',))", 0),
        ("NOT = ('rows', 'columns', 'Size')", 0),
    ],
)
def test_a_list_of_operators_is_seen(text: str, count: int) -> None:
    assert len(operator_lists("compiler/passes/a.py", text)) == count
    assert operator_lists("compiler/rewrite/a.py", text) == operator_lists("emulator/a.py", text) == []


def test_an_operator_that_is_asked_for_is_seen() -> None:
    text = "if op == 'Gather' and kind != 'rows' and op in ('Add', 'Sum'): pass"
    assert len(operators_asked_for("compiler/passes/a.py", text)) == 1
    assert operators_asked_for("compiler/rewrite/a.py", text) == []


def test_unfinished_work_is_seen() -> None:
    assert unfinished("asm/a.py", "x = 1  # TO" + "DO later\nraise Not" + "ImplementedError") != []
    assert unfinished("asm/a.py", "todo list of the scheduler") == []


@pytest.mark.parametrize(
    ("path", "count"),
    [("asm/utils.py", 1), ("compiler/_util.py", 1), ("asm/utils_text.py", 1), ("asm/utility_rates.py", 0)],
)
def test_utils_file_is_seen(path: str, count: int) -> None:
    assert len(utils_files(path, "")) == count
