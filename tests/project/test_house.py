"""The house: layers inside each package, how many entries a folder has, which names are used once.

As in ``test_rules``, each rule is a function from sources to a list of violations. The tests apply it to the
tree, and to small wrong texts, so that a rule which sees nothing would fail too. Imports under ``if
TYPE_CHECKING`` count like all others: a circle of types is a circle of knowledge.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable

import pytest

from paths import ROOT
from source_files import PACKAGES, imports, package_sources

LAYERS = {
    "tx8isa": (
        *("errors", "tools", "numbers", "machine", "records", "riscv"),
        *("families", "insns", "table", "cost", "c"),
    ),
    "asm": (
        *("diagnostics", "syntax", "instructions", "image", "place", "disassembler"),
        *("compression", "occupancy", "assembly"),
        *("directives", "fixups", "output", "assembler", "cli"),
    ),
    "emulator": (
        *("native", "memory", "kernels", "engines", "core", "tile"),
        *("timing", "watch", "chip", "chips", "debug", "program", "session", "cli"),
    ),
    "compiler": (
        *("graph", "operators", "evaluation", "dialect", "codegen", "lowering", "frontend"),
        *("rewrite", "search", "passes", "driver", "quantise", "tools", "cli"),
    ),
    "tx8": (
        "desktop",
        "__main__",
        "inputs",
        "builder",
        "models",
        "views",
        "run",
        "program",
        "session",
        "pytorch",
        "kernel",
        "triton",
        "judge",
        "puzzles",
    ),
    "tx8_entry": ("surroundings", "commands"),
    "pytest_tx8": (),
}
"""The entries of each package, from the lowest up: a file or folder imports only from those before it."""

MOST_ENTRIES = 14
"""Files and folders in a folder of production code; ``__init__.py`` and ``py.typed`` are not counted."""

Sources = Iterable[tuple[str, str]]


def entry(path: str, depth: int) -> str:
    """Return the name of the entry that holds ``path`` in its ancestor of ``depth`` folders."""
    return path.split("/")[depth].removesuffix(".py")


# --- layers -------------------------------------------------------------------------------


def module_paths(sources: Sources) -> dict[str, str]:
    """Path of the file by dotted name."""
    return {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path, _ in sources}


def imported_files(path: str, text: str, modules: dict[str, str]) -> set[str]:
    """The files of the project that a file imports."""
    found = set()
    for _, name in imports(path, text):
        while name and name not in modules:
            name = name.rpartition(".")[0]
        if name:
            found.add(modules[name])
    return found - {path}


def arrows(sources: Sources) -> dict[str, set[tuple[str, str]]]:
    """Of each folder, the pairs (entry that imports, entry that is imported), both in that folder."""
    sources = list(sources)
    modules = module_paths(sources)
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path, text in sources:
        for other in imported_files(path, text, modules):
            depth = common_depth(path, other)
            pair = entry(path, depth), entry(other, depth)
            if "__init__" not in pair:
                found["/".join(path.split("/")[:depth])].add(pair)
    return found


def common_depth(path: str, other: str) -> int:
    """Return the number of leading folders that two paths share."""
    return next(
        depth for depth, (a, b) in enumerate(zip(path.split("/"), other.split("/"), strict=False)) if a != b
    )


def circles(sources: Sources) -> list[str]:
    """``folder: a -> b -> a`` for each folder whose entries import one another in a circle."""
    return [
        f"{folder}: {' -> '.join(circle)}"
        for folder, pairs in sorted(arrows(sources).items())
        if (circle := find_circle(pairs))
    ]


def find_circle(pairs: set[tuple[str, str]]) -> list[str]:
    """A closed path along the arrows, or nothing."""
    targets: dict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        targets[a].add(b)
    finished: set[str] = set()

    def search(way: list[str]) -> list[str]:
        for after in sorted(targets[way[-1]] - finished):
            if after in way:
                return [*way[way.index(after) :], after]
            if found := search([*way, after]):
                return found
        finished.add(way[-1])
        return []

    return next((found for start in sorted(targets) if (found := search([start]))), [])


def upward(layers: dict[str, tuple[str, ...]], sources: Sources) -> list[str]:
    """Find imports from entries of a package that are not below, and entries without a layer."""
    found = arrows(sources)
    violations = []
    for package, order in layers.items():
        for a, b in sorted(found[package]):
            violations += [f"{package}: '{name}' is in no layer" for name in (a, b) if name not in order]
            if a in order and b in order and order.index(a) <= order.index(b):
                violations.append(f"{package}: {a} imports {b}, which is above it")
    return violations


def test_no_folder_has_a_circle() -> None:
    assert circles(package_sources()) == []


def test_imports_go_down() -> None:
    assert set(LAYERS) == set(PACKAGES)
    assert upward(LAYERS, package_sources()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_layers_name_what_is_there(package: str) -> None:
    there = {entry(path, 1) for path, _ in package_sources() if path.startswith(f"{package}/")} - {"__init__"}
    assert sorted(LAYERS[package]) == sorted(there)


@pytest.mark.parametrize(
    "sources",
    [
        {"asm/a.py": "from .b import x", "asm/b.py": "from .a import y"},
        {"asm/a/m.py": "import asm.b.n", "asm/b/n.py": "def f():\n    from asm.a import m"},
        {"asm/a/m.py": "import asm.b.n", "asm/b/n.py": "if TYPE_CHECKING:\n    from asm.a.m import C"},
        {"asm/a.py": "import asm.b", "asm/b.py": "import asm.c", "asm/c.py": "import asm.a"},
    ],
)
def test_a_circle_is_seen(sources: dict[str, str]) -> None:
    assert len(circles(sources.items())) == 1


def test_no_circle_where_there_is_none() -> None:
    sources = {"asm/a/m.py": "import asm.b.n", "asm/b/n.py": "from . import o", "asm/b/o.py": "import asm.c"}
    assert circles([*sources.items(), ("asm/c.py", "")]) == []


def test_an_arrow_up_is_seen() -> None:
    sources = [("asm/a.py", "from asm.b.m import x"), ("asm/b/m.py", "")]
    assert upward({"asm": ("a", "b")}, sources) == ["asm: a imports b, which is above it"]
    assert upward({"asm": ("b", "a")}, sources) == []
    assert upward({"asm": ("b",)}, sources) == ["asm: 'a' is in no layer"]


# --- folders ------------------------------------------------------------------------------


def entries(sources: Sources) -> dict[str, set[str]]:
    """Return the entries of each folder except ``__init__``."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, _ in sources:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            found["/".join(parts[:depth])].add(entry(path, depth))
    return {folder: names - {"__init__"} for folder, names in found.items()}


def crowded(sources: Sources) -> list[str]:
    """``folder: n entries`` for each folder with too many."""
    return [
        f"{folder}: {len(names)} entries"
        for folder, names in sorted(entries(sources).items())
        if len(names) > MOST_ENTRIES
    ]


def unexplained(sources: Sources) -> list[str]:
    """Find packages whose ``__init__`` does not state their purpose in a sentence and a further paragraph."""
    return [
        path
        for path, text in sources
        if path.endswith("/__init__.py")
        and len((ast.get_docstring(ast.parse(text)) or "").rstrip().split("\n\n")) < 2
    ]


def test_no_folder_is_crowded() -> None:
    assert crowded(package_sources()) == []


def test_every_folder_says_what_it_is_for() -> None:
    assert unexplained(package_sources()) == []


def test_a_crowded_folder_is_seen() -> None:
    sources = [(f"asm/a/{name}/m.py", "") for name in "abcdefghijklmno"]
    assert crowded(sources) == ["asm/a: 15 entries"]
    assert crowded([*sources[1:], ("asm/a/__init__.py", "")]) == []


def test_a_folder_that_does_not_explain_itself_is_seen() -> None:
    sources = [("asm/__init__.py", '"""One.\n\nTwo.\n"""'), ("asm/a/__init__.py", '"""One."""')]
    assert unexplained([*sources, ("asm/b/__init__.py", "")]) == ["asm/a/__init__.py", "asm/b/__init__.py"]


# --- names --------------------------------------------------------------------------------


def homonyms(sources: Sources) -> list[str]:
    """``package.Class: files`` for each public class name that a package uses more than once."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for name in re.findall(r"^class ([^\W_]\w*)", text, re.MULTILINE):
            homes[f"{path.split('/')[0]}.{name}"].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(homes.items()) if len(paths) > 1]


def test_a_class_name_has_one_meaning() -> None:
    assert homonyms(package_sources()) == []


def test_a_second_class_of_a_name_is_seen() -> None:
    sources = [("asm/a.py", "class C: ...\nclass _D: ..."), ("asm/b/c.py", "class C: ...\nclass _D: ...")]
    assert homonyms(sources) == ["asm.C: asm/a.py, asm/b/c.py"]
    assert homonyms([*sources[:1], ("emulator/a.py", "class C: ...")]) == []


# --- parameters ---------------------------------------------------------------------------

MOST_PARAMETERS = 8
"""Of a function of the matrix engine: positions of a problem are words of a record (``ne/problem.py``)."""


def crowded_functions(path: str, text: str) -> list[str]:
    """``path:line: name`` of each function with more parameters."""
    return [
        f"{path}:{node.lineno}: {node.name} has {count} parameters"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and (count := len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)) > MOST_PARAMETERS
    ]


def test_functions_of_the_matrix_engine_take_records() -> None:
    sources = [(p, text) for p, text in package_sources() if p.startswith("emulator/kernels/ne/")]
    assert len(sources) > 10
    assert [line for path, text in sources for line in crowded_functions(path, text)] == []


def test_a_function_of_many_parameters_is_seen() -> None:
    names = ", ".join("abcdefghi")
    assert crowded_functions("a.py", f"def f({names}): ...") == ["a.py:1: f has 9 parameters"]
    assert crowded_functions("a.py", f"def f({names[3:]}): ...") == []


# --- tests --------------------------------------------------------------------------------


def shared_by_tests(path: str, text: str) -> list[str]:
    """Find imports of one test module by another; shared code is in ``tests/support``."""
    if not re.search(r"\b(from|import)\b.*\btest_", text):  # most files, which then need not be parsed
        return []
    return [
        f"{path}:{line}: imports {name}"
        for line, name in imports(path, text)
        if any(part.startswith("test_") for part in name.split(".")[:-1])
    ]


def test_no_test_imports_another() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert len(tests) > 100
    found = [shared_by_tests(path.relative_to(ROOT).as_posix(), path.read_text()) for path in tests]
    assert [line for lines in found for line in lines] == []


def test_a_test_that_imports_another_is_seen() -> None:
    assert shared_by_tests("tests/asm/test_a.py", "from test_b import x") != []
    assert shared_by_tests("tests/asm/test_a.py", "from support_b import test_x") == []


# --- documents ----------------------------------------------------------------------------

MOST_WORDS = 3000
"""Of a page that people write. Not counted are the words of a region that a script writes, and of ``console``
listings, whose output ``tests/support/documents.py`` renews."""

GENERATED = {
    "docs/instruction_speed.md": "benchmarks/instructions.py",
    "docs/operators.md": "docs/generate.py",
}
"""Pages that a script writes whole; it names them in their first lines."""


def counted_words(page: str) -> int:
    """Words that people wrote: neither in a ``console`` listing nor between ``<!-- x -->`` and its end."""
    page = re.sub(r"^```console\n.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end of \1 -->", "", page, flags=re.DOTALL).split())


def test_pages_are_short() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/decisions").glob("*.md")]
    words = {path.relative_to(ROOT).as_posix(): counted_words(path.read_text("utf-8")) for path in pages}
    long = {name for name, count in words.items() if count > MOST_WORDS}
    assert long == set(GENERATED), "split it by what readers ask, or cut what another page says"
    for name, script in GENERATED.items():
        assert script in "".join((ROOT / name).read_text("utf-8").splitlines()[:4])


def test_words_of_scripts_are_not_counted() -> None:
    table = "<!-- costs -->\n\n| a | b |\n\n<!-- end of costs -->"
    assert counted_words(f"# One\n\ntwo three\n\n{table}\n\nfour\n") == 5
    assert counted_words("one\n```console\n$ echo two\ntwo\n```\nthree\n") == 2
    assert counted_words("one\n```python\nx = 1\n```\n<!-- Not a region. -->\n") > 5
