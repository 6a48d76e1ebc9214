"""tx8opt: passes on textual IR give the same as a whole compilation, and a wrong text gives one line."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.evaluation.infer import build_graph
from compiler.graph import DTYPES, Description, Graph, Node, Tensor
from compiler.passes import PIPELINE, Context
from compiler.passes.compilation import context_of, pass_names
from compiler.passes.emit import program_text
from compiler.tools import run
from compiler.tools.opt import main
from compiler.tools.opt_text import FINAL, GIVEN, HELD, INSIDE, REBUILT, as_text, read_text_file
from compiler_harness import draw, small_machine
from ir_text import written
from tx8isa.machine.description import load_machine

MACHINE = load_machine(None)
NAMES = list(pass_names())
NODES = (
    Node("Conv", "conv é", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1)}),
    Node("LeakyRelu", 'a "quoted" name', ("c",), ("r",), {"alpha": 0.1}),
    Node("Reshape", "shape", ("r", "to"), ("m",), {}),
    Node("Softmax", "soft", ("m",), ("s",), {"axis": -1}),
    Node("Mul", "scale", ("s", "two"), ("y→",), {}),
)


def network() -> Graph:
    """A graph with small and large constants, one that compiling uses, and names that need quoting."""
    constants = {
        "w": draw(4, 3, 3, 3, seed=1),
        "b": draw(4, seed=2),
        "to": np.array([2, -1], np.int64),
        "two": np.array(2, np.float32),
    }
    inputs = (Tensor("x", "float32", (2, 3, 5, 5)),)
    return build_graph(Description("net", "net", 20, inputs, ("y→",), constants, NODES))


def through(passes: Any, context: Any, module: ModuleOp) -> None:
    for step in passes:
        step.run(context, module)
        module.verify()


@pytest.fixture(scope="module")
def direct() -> tuple[str, bytes]:
    """The program of a compilation without text in between."""
    context, module = context_of(network(), "fp16", 4, MACHINE), ModuleOp([])
    through(PIPELINE, context, module)
    return program_text({"": (context, module)})


@pytest.mark.parametrize("count", range(1, len(PIPELINE)), ids=NAMES[:-1])
def test_a_compilation_that_goes_through_text_gives_the_same_program(
    count: int, tmp_path: Path, direct: tuple[str, bytes]
) -> None:
    context, module = context_of(network(), "fp16", 4, MACHINE), ModuleOp([])
    through(PIPELINE[:count], context, module)
    file = written(tmp_path / "a.mlir", context, module, NAMES[:count])
    again, read, done = read_text_file(file, MACHINE, {})
    assert done == NAMES[:count]
    assert str(read) == str(module)
    through(PIPELINE[count:], again, read)
    assert program_text({"": (again, read)}) == direct


def test_a_search_goes_on_from_text(tmp_path: Path) -> None:
    """Its decisions about groups, and the kinds of their commands, are read from the text."""
    count = NAMES.index("group_cost") + 1
    context, module = context_of(network(), "fp16", 4, MACHINE, search="fast"), ModuleOp([])
    through(PIPELINE[:count], context, module)
    file = written(tmp_path / "a.mlir", context, module, NAMES[:count])
    again, read, _ = read_text_file(file, MACHINE, {"search": "fast"})
    assert context.kind_use.users and again.kind_use == context.kind_use
    assert [each.best for each in again.results] == [each.best for each in context.results]
    for compilation in ((context, module), (again, read)):
        through(PIPELINE[count:], *compilation)
    assert program_text({"": (again, read)}) == program_text({"": (context, module)})


def test_the_text_does_not_depend_on_when_it_was_written() -> None:
    texts = []
    for _ in range(2):
        context, module = context_of(network(), "fp16", 4, MACHINE), ModuleOp([])
        through(PIPELINE[:3], context, module)
        texts.append(as_text(context, module, NAMES[:3], archive=True))
    assert texts[0] == texts[1] and texts[0][1] is not None


def test_every_field_of_a_context_is_held_given_rebuilt_final_or_inside() -> None:
    """A new field must have an entry here that says how a compilation through text gets it."""
    assert {field.name for field in fields(Context)} == {*HELD, *GIVEN, *REBUILT, *FINAL, *INSIDE}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 100])
def test_constants_of_every_type_keep_their_bits(dtype: str, count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (count, 2, DTYPES[dtype].itemsize), np.uint8)
    array = (raw[..., :1] % 2 if dtype == "bool" else raw).view(DTYPES[dtype])[..., 0]
    assert array.dtype == (np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype))
    context = context_of(network(), "fp16", 4, MACHINE)
    context.constants = {"é/k": array}
    file = written(tmp_path / "a.mlir", context, ModuleOp([]), ["import"])
    found = read_text_file(file, MACHINE, {})[0].constants["é/k"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert (tmp_path / "a.npz").exists() == (array.nbytes > 64)


# --- the command --------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "net.json"
    description = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 5]}],
        "constants": {"k": {"dtype": "float32", "data": draw(5, 5).tolist()}},
        "outputs": ["y"],
        "nodes": [
            {"op": "Relu", "inputs": ["x"], "outputs": ["h"]},
            {"op": "Add", "inputs": ["h", "k"], "outputs": ["y"]},
        ],
    }
    path.write_text(json.dumps(description))
    return path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tx8opt: error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("tx8opt: error: ").rstrip("\n")


def test_passes_one_by_one(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, after_cast = str(tmp_path / "a.mlir"), str(tmp_path / "b.mlir"), NAMES.index("cast") + 1
    assert printed(capsys, str(graph), "--dtype", "fp16", "--until", "cast", "-o", a) == ""
    assert "tensor<5x5xf16>" in Path(a).read_text()
    assert printed(capsys, a, "--passes", ",".join(NAMES[after_cast : after_cast + 2]), "-o", b) == ""
    assert printed(capsys, b) == Path(b).read_text().replace('"file"', '"left out"')
    whole = printed(capsys, str(graph), "--dtype", "fp16", "--until", NAMES[-2])
    assert printed(capsys, b, "--until", NAMES[-2]) == whole


def test_the_whole_pipeline_ends_with_a_module_that_is_final(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = str(tmp_path / "end.mlir")
    printed(capsys, str(graph), "--pipeline", "-o", end)
    assert "spm" in Path(end).read_text()
    assert "has no attribute tx8be.options" in refused(capsys, end, "--pipeline")


def test_a_graph_alone_is_imported(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(graph))
    assert 'tx8be.done = ["import"]' in text
    assert text.count('"tx8be.relu"') == 1


def test_rewrites_run_alone_on_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text was edited after the import, and the edited text counts."""
    description = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 6]}],
        "outputs": ["y"],
        "constants": {"k": {"dtype": "float32", "data": 1.0}},
        "nodes": [
            {"op": "Mul", "name": "nothing", "inputs": ["x", "k"], "outputs": ["h"]},
            {"op": "Relu", "name": "r", "inputs": ["h"], "outputs": ["y"]},
        ],
    }
    net, a = tmp_path / "net.json", tmp_path / "a.mlir"
    net.write_text(json.dumps(description))
    printed(capsys, str(net), "-o", str(a))
    assert '"tx8be.mul"' in a.read_text()
    after = printed(capsys, str(a), "--passes", "rewrite")
    assert '"tx8be.mul"' not in after
    assert 'rewrites = ["neutral: nothing"]' in after
    one, two = np.float32(1).tobytes().hex(), np.float32(2).tobytes().hex()
    a.write_text(a.read_text().replace(one, two))
    assert '"tx8be.mul"' in printed(capsys, str(a), "--passes", "rewrite")


@pytest.mark.parametrize("until", ["cast", "layout_init", "group_opt"])
def test_rewrites_need_a_graph(
    until: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = str(tmp_path / "a.mlir")
    printed(capsys, str(graph), "--until", until, "-o", a)
    if until != "group_opt":  # in FP32 nothing needs a cast or another layout, so the module is still a graph
        assert '"tx8be.relu"' in printed(capsys, a, "--passes", "rewrite")
    else:
        assert "the module is not a graph any more: found tx8be." in refused(capsys, a, "--passes", "rewrite")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--passes", "castt"], "unknown pass 'castt'; the passes are import, rewrite, sizes, cast, "),
        (["--passes", "castt"], "did you mean 'cast'?"),
        (["--until", "nothing"], "unknown pass 'nothing'"),
        (["--passes", "cast"], "pass cast needs the pass import before it; run so far: no pass"),
        (["--passes", "import,import"], "pass import must be the first; run so far: import"),
        (["--passes", "import,codegen"], "pass codegen does not work on this module ("),
        (["--tiles", "99"], "99 tiles: expected 1 to 16"),
        (["--dtype", "fp8"], "unknown dtype 'fp8'"),
        (["--machine", "nowhere.toml"], "nowhere.toml"),
        (["--patterns", "nowhere"], "nowhere"),
        (["-o", "no/such/folder/a.mlir"], "no/such/folder/a"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    graph: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, str(graph), *arguments)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("a.mlir", "the text would replace the input"),
        ("sub/../a.mlir", "the text would replace the input"),
        ("sub/a.mlir", "the constants would replace the constants of the input"),
    ],
)
def test_textual_ir_is_not_written_over_itself(
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    printed(capsys, "net.json", "-o", "a.mlir")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.npz").symlink_to("../a.npz")
    before = (tmp_path / "a.npz").read_bytes(), (tmp_path / "a.mlir").read_bytes()
    assert message in refused(capsys, "a.mlir", "--until", "cast", "-o", output)
    assert before == ((tmp_path / "a.npz").read_bytes(), (tmp_path / "a.mlir").read_bytes())


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--patterns", "the file of --patterns"),
        ("--operators", "a file of --operators"),
        ("--plan", "--plan"),
    ],
)
def test_no_file_that_is_read_is_replaced(
    option: str, what: str, graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.mlir"
    own.write_text("own")
    found = refused(capsys, str(graph), option, str(own), "-o", str(own))
    assert found == f"{own}: the text would replace {what}; name another file"
    assert own.read_text() == "own"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--passes", "cast", "--pipeline"], ["-o", "a.txt"], ["--until"], []),
        ["--plan", "p.json", "--search", "full"],
    ],
)
def test_wrong_usage_is_status_2(
    graph: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(graph), *arguments] if arguments else [])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith("; see tx8opt --help\n")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"tx8be.relu"', '"tx8be.rilu"', "tx8be.rilu"),
        ("tensor<5x5xf16>", "tensor<5x5xf64>", "f64"),
        ("operands_at = array<i64: 0>", "operands_at = array<i64: 0, 1>", "operands_at names 2"),
        (" : (tensor", " (tensor", "a.mlir:"),
        ("tx8be.done", "tx8be.gone", "has no attribute tx8be.done"),
        ("tx8be.graph", "tx8be.graf", "has no attribute tx8be.graph"),
        ('compute = "fp16"', 'compute = "fp17"', "damaged attributes tx8be.options"),
        ('compute = "fp16"', "compute = 4 : i64", "damaged attributes tx8be.options"),
        ("operands_at = array<i64: 0>", "operands_at = array<i300: 0>", "a.mlir"),
        ("precise = []", "rough = []", "damaged attributes"),
        ('"float32", [5 : i64', '"float33", [5 : i64', "'float33' of"),
        ('"file"', '"left out"', "is not in the text"),
        ('"file"', '"0xzz"', "damaged attribute tx8be.constants"),
        ('"file"', '"0x00"', "damaged attribute tx8be.constants"),
        ('machine = "tx81"', 'machine = "tx82"', "made for machine 'tx82'; --machine describes 'tx81'"),
    ],
)
def test_a_wrong_text_is_one_line(
    graph: Path, tmp_path: Path, before: str, after: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.mlir"
    printed(capsys, str(graph), "--dtype", "fp16", "--until", "cast", "-o", str(file))
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    error = refused(capsys, str(file), "--pipeline")
    assert error.startswith(str(file))
    assert message in error


def test_constants_of_another_compilation_are_one_line(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that was killed between the two files leaves such files."""
    text = tmp_path / "a.mlir"
    printed(capsys, str(graph), "-o", str(text))
    with np.load(tmp_path / "a.npz") as archive:
        arrays = {name: archive[name] + 1 for name in archive.files}
    np.savez(tmp_path / "a.npz", **arrays)
    found = f"'k' is not the array that {text} was written with; write both again"
    assert refused(capsys, str(text), "--until", "cast") == f"{tmp_path / 'a.npz'}: {found}"


def test_damaged_groups_are_one_line(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.mlir"
    printed(capsys, str(graph), "--until", "group_mapping", "-o", str(file))
    file.write_text(file.read_text().replace("operands_at = array<i64: 0>", "operands_at = array<i64: 7>"))
    assert f"{file}: damaged groups: IndexError: " in refused(capsys, str(file), "--pipeline")


def test_text_changed_at_random_never_ends_in_a_traceback(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word is removed or replaced, or a number changed: it works, or gives one line."""
    file = tmp_path / "a.mlir"
    printed(capsys, str(graph), "--tiles", "2", "--until", "group_cost", "-o", str(file))
    whole, chance, ends = file.read_text(), random.Random(3), set()
    words = [found.span() for found in re.finditer(r'"[^"]*"|\w+|[^\s\w]', whole)]
    for _ in range(120):
        (begin, end), other = chance.choice(words), chance.choice(words)
        put = chance.choice(["", whole[slice(*other)], "7", "-1", "99999999999"])
        file.write_text(whole[:begin] + put + whole[end:])
        ends.add(main([str(file), "--pipeline"]))
        captured = capsys.readouterr()
        assert captured.err.count("\n") == (1 if captured.out == "" else 0)
    assert ends == {0, 1}


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_constants_that_are_not_there_are_one_line(
    graph: Path, tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, beside = tmp_path / "a.mlir", tmp_path / "a.npz"
    printed(capsys, str(graph), "--until", "cast", "-o", str(file))
    if damage == "gone":
        beside.unlink()
    elif damage == "cut":
        beside.write_bytes(beside.read_bytes()[:50])
    else:
        np.savez(beside, k=np.zeros((5, 4), np.float32))
    assert refused(capsys, str(file)).startswith(str(beside))


def test_another_machine_is_refused(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.mlir"
    printed(capsys, str(graph), "--until", "cast", "-o", str(file))
    monkeypatch.setattr("tx8isa.machine.description.load_machine", lambda path: small_machine())
    assert "--machine describes 'spm0x8000'" in refused(capsys, str(file))


def test_options_of_a_graph_are_not_for_text(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "a.mlir"), "--tiles", "4"])
    assert "--dtype and --tiles are for graphs" in capsys.readouterr().err


def test_the_program_of_a_text_computes_what_the_graph_does(direct: tuple[str, bytes]) -> None:
    """The program of all texts above is right."""
    from compiler.driver import compile_graph

    program = compile_graph(network(), "fp16", 4)
    assert program.text.startswith(
        direct[0]
    )  # the next one is the record of a name that assembly cannot spell
    assert program.constants == direct[1]
    assert run.check(program, run.random_inputs(network(), {}, 1)).ok


def test_every_mistake_of_a_graph_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [4]}],
        "outputs": ["y"],
        "nodes": [
            {"op": "Rleu", "inputs": ["x"], "outputs": ["r"]},
            {"op": "Epx", "inputs": ["r"], "outputs": ["y"]},
        ],
    }
    (tmp_path / "two.json").write_text(json.dumps(graph))
    assert main([str(tmp_path / "two.json")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" (node")[0] for line in lines] == [
        "tx8opt: error: unsupported operator Rleu",
        "tx8opt: error: unsupported operator Epx",
    ]
