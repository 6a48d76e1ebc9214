"""Code that a .pt2 file could make PyTorch execute is found before PyTorch reads it."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from compiler.frontend import load
from compiler.frontend.torch import open_pt2
from compiler.frontend.torch.archive import TRUST, check_archive, weights_only
from compiler.graph import GraphError
from extras import needs_torch

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecations

SYMBOL = "Symbol('s77', positive=True, integer=True)"
ADVICE = f"export the program without it, or set {TRUST}=1 if you trust who wrote the file"


def archive(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "m.pt2"
    with zipfile.ZipFile(path, "w") as made:
        for name, data in {"m/archive_format": b"pt2", **files}.items():
            made.writestr(name, data)
    return path


def program(expression: str = "s0", target: str = "torch.ops.aten.add.Tensor") -> dict[str, bytes]:
    """The graph of a program, in as much detail as is looked at."""
    size = {"as_expr": {"expr_str": expression, "hint": {"as_int": 4}}}
    nodes = [{"target": target, "inputs": [], "metadata": {"stack_trace": "x = __import__('os')"}}]
    graph = {"graph_module": {"graph": {"nodes": nodes, "tensor_values": {"x": {"sizes": [size]}}}}}
    return {"m/models/model.json": json.dumps(graph).encode()}


@pytest.mark.parametrize(
    "expression",
    [
        "s0",
        "4",
        SYMBOL,
        f"Mul(Integer(2), {SYMBOL})",
        f"Add(Mul(Integer(-1), {SYMBOL}), FloorDiv({SYMBOL}, Integer(3)), Rational(1, 2))",
        "s0 + 2*FloorDiv(s1, 3) - Max(1, s0)**2",
        "Eq(s0, 4) & (s1 >= 2)",
        "s0 > 2 and not s1 <= 1",
        "zoo - oo",
    ],
)
def test_arithmetic_passes(expression: str, tmp_path: Path) -> None:
    check_archive(archive(tmp_path, program(expression)))


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('id')",
        "exec(chr(105))",
        "open",
        "S('__import__')",
        "Symbol('s0').func",
        "Symbol('a.b')",
        "Symbol('a', '__import__(1)')",
        "Function('os')(1)",
        "(lambda: 1)()",
        "[x for x in (1,)]",
        "f'{1}'",
        "s0[0]",
        "Max(*s0)",
        "s0 if s1 else 2",
        "(x := 1)",
        "b'bytes'",
        "s0 +",
        "",
        "(" * 1000 + ")" * 1000,
    ],
)
def test_any_other_expression_is_refused(expression: str, tmp_path: Path) -> None:
    if expression == "open":  # SymPy takes a name alone for a symbol
        check_archive(archive(tmp_path, program(expression)))
        return
    path = archive(tmp_path, program(expression))
    with pytest.raises(GraphError) as refused:
        check_archive(path)
    found = f"'m/models/model.json' has the expression {expression[:80]!r}, which PyTorch would execute"
    assert list(refused.value.messages) == [f"{path}: {found}; {ADVICE}"]


@pytest.mark.parametrize(
    "target",
    [
        *("torch.ops.aten.relu.default", "torch.ops.higher_order.cond", "torch.sym_max", "torch._sym_sqrt"),
        *("_operator.add", "_operator.getitem", "math.ceil", "as_text", "os.system"),
    ],
)
def test_operators_of_graphs_pass(target: str, tmp_path: Path) -> None:
    """Names that PyTorch does not look up are harmless text."""
    check_archive(archive(tmp_path, program(target=target)))


@pytest.mark.parametrize(
    "target",
    [
        *(
            "torch.os.system",
            "torch.hub.load",
            "torch.load",
            "torch.ops.load_library",
            "torch.ops.a.__init__",
        ),
        *("torch.ops.load_library.__call__", "torch.ops.import_module.x", "_operator.methodcaller"),
        *("_operator.call", "math.__loader__.load_module", "torchvision.x", "#extension"),
    ],
)
def test_any_other_operator_is_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"has the operator .*, which PyTorch would execute"):
        check_archive(archive(tmp_path, program(target=target)))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("m/data/aotinductor/model/x.so", "compiled code"),
        ("m/data/constants/opaque_obj_0", "a pickled object"),
        ("m/data/constants/custom_obj_0", "an object"),
    ],
)
def test_files_that_are_executed_are_refused(name: str, what: str, tmp_path: Path) -> None:
    path = archive(tmp_path, {**program(), name: b""})
    with pytest.raises(GraphError) as refused:
        load(path)
    assert list(refused.value.messages) == [
        f"{path}: it has {what}, {name!r}, which PyTorch would execute; {ADVICE}"
    ]


@pytest.mark.parametrize(
    "name", ["m/models/model", "models/model.json", "serialized_exported_program.json", "m/models/sub/x"]
)
def test_graphs_are_found_wherever_pytorch_finds_them(name: str, tmp_path: Path) -> None:
    data = program("exec(1)")["m/models/model.json"]
    with pytest.raises(GraphError, match=r"has the expression 'exec\(1\)'"):
        check_archive(archive(tmp_path, {name: data}))


def test_both_files_of_one_name_are_looked_at(tmp_path: Path) -> None:
    path = archive(tmp_path, program("exec(1)"))
    with zipfile.ZipFile(path, "a") as made, pytest.warns(UserWarning):
        made.writestr("m/models/model.json", program()["m/models/model.json"])
    with pytest.raises(GraphError, match=r"has the expression 'exec\(1\)'"):
        check_archive(path)


def test_what_is_no_archive_is_left_to_its_reader(tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04 and no more")
    check_archive(tmp_path / "m.pt2")
    check_archive(archive(tmp_path, {"m/models/model.json": b"\xff{"}))


@pytest.mark.parametrize("before", [None, "0"])
def test_the_variable_of_pytorch_is_set_back(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    with pytest.raises(ZeroDivisionError), weights_only():
        assert os.environ[name] == "1"
        raise ZeroDivisionError
    assert os.environ.get(name) == before


class Touch:
    """When it is unpickled, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@needs_torch
def test_a_pickle_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the user allows it, PyTorch reads it as always."""
    import io

    import torch

    sample, pickled = (torch.ones(2),), io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.ReLU(), sample), tmp_path / "plain.pt2")
    torch.save((sample, {"x": Touch(tmp_path / "made")}), pickled)
    path = tmp_path / "m.pt2"
    with zipfile.ZipFile(tmp_path / "plain.pt2") as source, zipfile.ZipFile(path, "w") as made:
        for info in source.infolist():
            inputs = "sample_inputs" in info.filename or "example_inputs" in info.filename
            made.writestr(info.filename, pickled.getvalue() if inputs else source.read(info))
    with pytest.raises(GraphError) as refused:
        open_pt2(path)
    assert list(refused.value.messages) == [f"{path}: it has a pickled object, made by posix.mkdir; {ADVICE}"]
    assert not (tmp_path / "made").exists()
    monkeypatch.setenv(TRUST, "1")
    with suppress(GraphError):  # the module has no such argument
        open_pt2(path)
    assert (tmp_path / "made").exists()
