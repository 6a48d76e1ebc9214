"""tx8cc as its users call it, and the examples."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asm.image import read_image
from compiler.cli import main
from compiler.passes.compilation import pass_names
from paths import ROOT

EXAMPLES = ROOT / "examples"
GRAPH = {
    "name": "tiny",
    "opset": 20,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 5]}],
    "outputs": ["y"],
    "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
}


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(GRAPH))
    return path


def changed(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(GRAPH | changes))
    return path


def test_files_are_written_beside_the_graph(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny)]) == 0
    folder = tiny.with_suffix("")
    assert sorted(path.name for path in folder.iterdir()) == ["prog.bin", "prog.const", "prog.s"]
    image = read_image((folder / "prog.bin").read_bytes(), "prog.bin")
    assert [(b.name, b.kind) for b in image.buffers] == [("x", "input"), ("y", "output")]
    assert set(image.nodes.values()) == {"Relu_0"}
    assert "tiny: 1 nodes, fp32, 16 tiles" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--report", "tiny.json"], "tiny.json: --report would replace a graph that is compiled"),
        (
            ["--save-plan", "r.json", "--report", "./r.json"],
            "./r.json: --save-plan and --report name the same file",
        ),
        (["--save-plan", "tiny/prog.s"], "tiny/prog.s: the assembly of tiny.json and --save-plan name"),
        (
            ["--run", "--output-dir", "."],
            "x.npy: output 'x' in --output-dir would replace an array of --input",
        ),
        (["--machine", "m.toml", "--save-plan", "m.toml"], "m.toml: --save-plan would replace the machine"),
        (["other/tiny.json", "tiny.onnx"], "tiny/prog.const: the constants of tiny.json and the con"),
        (
            ["--operators", "op.py", "--save-plan", "op.py"],
            "op.py: --save-plan would replace a file of --ope",
        ),
        (
            ["--constant", "x=x.npy", "--save-plan", "./x.npy"],
            "./x.npy: --save-plan would replace an array of",
        ),
        (
            ["saved", "-o", "saved"],
            "saved/tiny/prog.s: the assembly of tiny.json would replace a file of a graph",
        ),
    ],
)
def test_no_file_of_a_run_is_written_over_another(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(tmp_path / "tiny.json", outputs=["x"], nodes=[], inputs=GRAPH["inputs"])
    np.save("x.npy", np.zeros((3, 5), np.float32))
    (tmp_path / "m.toml").write_text((ROOT / "tx8isa/machine/machines/tx81.toml").read_text())
    (tmp_path / "op.py").write_text("# operators")
    (tmp_path / "saved" / "tiny").mkdir(parents=True)
    (tmp_path / "saved" / "tiny" / "prog.s").write_bytes(b"weights")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    given = ["--input", "x=x.npy"] if "--run" in options else []
    assert main(["-q", "tiny.json", *given, *options]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tx8cc: error: {message}")
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_model_of_an_entry_is_not_replaced(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    tiny.rename("out/prog.s")
    (tmp_path / "both.json").write_text('{"entries": {"a": "out/prog.s"}}')
    assert main(["-q", "both.json", "-o", "out"]) == 1
    message = "tx8cc: error: out/prog.s: the assembly of both.json would replace the model of entry 'a'"
    assert capsys.readouterr().err.startswith(message)
    assert json.loads((tmp_path / "out" / "prog.s").read_text()) == GRAPH


def test_the_graph_of_an_earlier_wrong_node_is_not_replaced(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out" / "wrong").mkdir(parents=True)
    tiny.rename("out/wrong/graph.json")
    assert main(["-q", "out/wrong/graph.json", "-o", "out", "--verify-nodes"]) == 1
    assert "the graph of a wrong node would replace a graph that is compiled" in capsys.readouterr().err


def test_a_text_beside_constants_of_another_compilation_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that was killed between the two renames leaves such files."""
    from asm.cli import assemble_main

    nodes = [{"op": "Add", "inputs": ["x", "k"], "outputs": ["y"]}]
    for number in (1.0, 2.0):
        constants = {"k": {"dtype": "float32", "data": [[number] * 5] * 3}}
        graph = changed(tmp_path / f"{number}.json", nodes=nodes, constants=constants)
        assert main(["-q", str(graph), "-o", str(tmp_path / str(number))]) == 0
    text = tmp_path / "1.0" / "prog.s"
    assert assemble_main(["-q", str(text), "-o", str(tmp_path / "again.bin")]) == 0
    (tmp_path / "2.0" / "prog.const").replace(tmp_path / "1.0" / "prog.const")
    assert assemble_main(["-q", str(text), "-o", str(tmp_path / "wrong.bin")]) == 1
    assert (
        "prog.const is not the file that this program was written with: checksum " in capsys.readouterr().err
    )
    assert not (tmp_path / "wrong.bin").exists()


def test_the_text_assembles_to_the_image(tiny: Path, tmp_path: Path) -> None:
    from asm.cli import assemble_main

    assert main([str(tiny), "-q", "-o", str(tmp_path / "out")]) == 0
    assert assemble_main([str(tmp_path / "out" / "prog.s"), "-o", str(tmp_path / "again.bin"), "-q"]) == 0
    first = read_image((tmp_path / "out" / "prog.bin").read_bytes(), "a")
    second = read_image((tmp_path / "again.bin").read_bytes(), "b")
    assert first.segments == second.segments
    assert first.buffers == second.buffers


def test_several_graphs_each_in_a_folder_of_its_own(tiny: Path, tmp_path: Path) -> None:
    nodes = [{"op": "Exp", "inputs": ["x"], "outputs": ["z"]}]
    other = changed(tmp_path / "other.json", outputs=["z"], nodes=nodes)
    out, results = tmp_path / "out", tmp_path / "results"
    folders = ["-o", str(out), "--output-dir", str(results)]
    assert main([str(tiny), str(other), "--run", "-q", "--tiles", "2", *folders]) == 0
    written = sorted(str(path.relative_to(results)) for path in results.glob("*/*"))
    assert written == ["other/z.npy", "tiny/y.npy"]
    assert sorted(path.name for path in out.iterdir()) == ["other", "tiny"]


def test_a_bad_graph_among_several_leaves_the_others(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "absent.json"), str(tiny), "-q"]) == 1
    assert (tiny.with_suffix("") / "prog.bin").exists()
    error = capsys.readouterr().err
    assert error == f"tx8cc: error: {tmp_path / 'absent.json'}: cannot be read: No such file or directory\n"


def test_graphs_of_one_name_cannot_share_a_folder(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([str(tiny), str(tiny), "-o", "out"])
    assert stop.value.code == 2
    assert "graphs of one name cannot share the folder of -o or --output-dir" in capsys.readouterr().err


def test_text_only(tiny: Path) -> None:
    assert main([str(tiny), "-S", "-q"]) == 0
    assert sorted(path.name for path in tiny.with_suffix("").iterdir()) == ["prog.const", "prog.s"]


def test_run_prints_a_table(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny), "--run", "--dtype", "fp16", "--tiles", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "random inputs (seed 0): x"
    rounding = ["rounding", "alone", "cosine"]
    assert lines[2].split() == [
        "output",
        "shape",
        *["max", "abs", "error", "cosine"],
        *rounding,
        "cycles",
        "verdict",
    ]
    name, shape, error, cosine, alone, _, cycles, verdict = lines[3].split()
    assert (name, shape, cosine, verdict) == ("y", "3x5", "1.0000000", "pass")
    assert 0 < float(error) == float(alone) < 2e-3  # only the input is rounded
    assert int(cycles.replace(",", "")) > 0
    assert "instructions executed on all tiles; " in lines[4]
    assert re.search(r"over the ranges of the model, [\d,]+ by the C runtime$", lines[4])


def test_run_on_given_inputs_writes_the_outputs(tiny: Path, tmp_path: Path) -> None:
    x = np.arange(-7, 8, dtype=np.float32).reshape(3, 5)
    np.save(tmp_path / "x.npy", x)
    arguments = [
        "--run",
        "--input",
        f"x={tmp_path / 'x.npy'}",
        "--output-dir",
        str(tmp_path / "results"),
        "-q",
    ]
    assert main([str(tiny), *arguments]) == 0
    assert np.array_equal(np.load(tmp_path / "results" / "y.npy"), np.maximum(x, 0))


def test_a_wrong_output_is_said_and_is_status_3(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from compiler.evaluation import judgement

    real = judgement.run_reference
    monkeypatch.setattr(
        judgement, "run_reference", lambda *a, **k: {n: v + 1 for n, v in real(*a, **k).items()}
    )
    assert main([str(tiny), "--run", "-q"]) == 3
    assert "FAIL: max error 1, cosine" in capsys.readouterr().out


def test_a_fault_is_status_3(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from compiler.passes import emit

    real = emit.program.epilogue
    monkeypatch.setattr(emit.program, "epilogue", lambda: ["        .word 0", *real()])
    assert main([str(tiny), "--run", "-q", "--no-cache"]) == 3
    assert capsys.readouterr().err.startswith("tx8cc: fault: ")


def test_the_module_can_be_printed(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny), "-q", "--print-ir-after", "cast", "--dtype", "bf16"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// after cast\nbuiltin.module {")
    assert text.count("// after") == 1
    assert "tensor<3x5xbf16>" in text
    assert main([str(tiny), "-q", "--print-ir-after", "all"]) == 0
    assert capsys.readouterr().out.count("// after") == len(pass_names())


def test_timing_lists_every_pass(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny), "-q", "--pass-times"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["stage", *pass_names(), "assemble", "total"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"nodes": [{"op": "NonMaxSuppression", "name": "n3", "inputs": ["x"], "outputs": ["y"]}]},
            "unsupported operator NonMaxSuppression (node 'n3')",
        ),
        ({"outputs": ["z"]}, "output 'z' is not produced by any node"),
        ({"opset": 3}, "opset"),
    ],
)
def test_a_wrong_graph_is_one_line_and_no_file(
    tiny: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], message: str
) -> None:
    assert main([str(changed(tiny, **changes))]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("tx8cc: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not tiny.with_suffix("").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "int8"], "--dtype int8 needs samples of the inputs: --calibrate FILE.npz"),
        (["--dtype", "fp8"], "unknown dtype 'fp8'"),
        (["--tiles", "99"], "99 tiles: expected 1 to 16"),
        (["--machine", "nowhere.toml"], "nowhere.toml: cannot read the machine description"),
        (["--run", "--input", "x=nowhere.npy"], "nowhere.npy"),
        (["--run", "--input", "z=ZEROS"], "z"),
        (["--run", "--input", "x=ZEROS"], "2x2"),
    ],
)
def test_wrong_arguments_are_one_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros((2, 2), np.float32))
    given = [argument.replace("ZEROS", str(tmp_path / "zeros.npy")) for argument in arguments]
    assert main([str(tiny), "-q", *given]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("tx8cc: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("tool", ["compiler.cli", "compiler.tools.opt"])
def test_examples_of_the_help_name_passes_that_exist(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        importlib.import_module(tool).main(["--help"])
    examples = capsys.readouterr().out.partition("examples:")[2]
    named = re.findall(r"--(?:print-ir-after|until|passes) (\S+)", examples)
    assert named
    assert set(named) <= set(pass_names())


def test_a_missing_graph_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.json")]) == 1
    assert capsys.readouterr().err.startswith("tx8cc: error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--input", "x=f.npy"],
        ["--output-dir", "d"],
        ["-S", "--run"],
        ["--run", "--input", "x"],
        ["--print-ir-after", "nothing"],
        ["--bogus"],
    ],
)
def test_wrong_usage_is_status_2(
    tiny: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([str(tiny), *arguments])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith("; see tx8cc --help\n")


def test_importing_the_compiler_costs_nothing() -> None:
    code = (
        "import sys, compiler, compiler.cli; print({'numpy', 'xdsl', 'numba', 'emulator'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_compiling_does_not_need_the_emulator(tiny: Path) -> None:
    code = f"import sys, compiler.cli as c; c.main([{str(tiny)!r}, '-q']); "
    code += "print({'numba', 'emulator'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "bf16", "tf32"])
@pytest.mark.parametrize(
    ("example", "data"),
    [
        ("batchnorm/bn30", "bn30_x"),
        ("batchnorm/bn129", "bn129_x"),
        ("mlp/mlp", "x"),
        ("attention/attention", "x"),
    ],
)
def test_examples(example: str, data: str, dtype: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{example}.json"
    arguments = [
        "--run",
        "--input",
        f"x={path.parent / data}.npy",
        "-o",
        str(tmp_path),
        "-q",
        "--dtype",
        dtype,
    ]
    assert main([str(path), *arguments]) == 0


def test_digits_are_recognised(tmp_path: Path) -> None:
    folder = EXAMPLES / "digits"
    images = f"x={folder / 'test_images.npy'}"
    arguments = ["--run", "--input", images, "-o", str(tmp_path), "--output-dir", str(tmp_path), "-q"]
    assert main([str(folder / "digits.json"), "--dtype", "fp16", *arguments]) == 0
    answers = np.load(tmp_path / "probabilities.npy").argmax(axis=1)
    assert main([str(folder / "digits.json"), "--dtype", "fp32", *arguments]) == 0
    exact = np.load(tmp_path / "probabilities.npy").argmax(axis=1)
    labels = np.load(folder / "test_labels.npy")
    assert (answers == labels).mean() >= 0.97
    assert (answers != exact).sum() <= 2


def quantized(path: Path, **changes: object) -> Path:
    """A cast of integers, which the kernel core does, and a Softmax.

    There are so many that the cast takes longer than the first commands of the Softmax, which cost the same
    for any size.
    """
    nodes = [
        {"op": "Cast", "inputs": ["x"], "outputs": ["f"], "attrs": {"to": 1}},
        {"op": "Softmax", "inputs": ["f"], "outputs": ["y"]},
    ]
    inputs = [{"name": "x", "dtype": "int64", "shape": [128, 392]}]
    return changed(path, inputs=inputs, nodes=nodes, **changes)


def test_work_of_the_kernel_core_is_said(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So does a program from the cache; the share is that of the report's estimates."""
    said = []
    report = tiny.parent / "report.json"
    for more in ([], [], ["--report", str(report)]):
        assert main([str(quantized(tiny)), "--dtype", "fp16", *more]) == 0
        said.append(capsys.readouterr().out.splitlines()[1])
    phases = json.loads(report.read_text())["phases"]
    slow = [phase["estimate"] for phase in phases if phase["kernel_core"]]
    share = sum(slow) / sum(phase["estimate"] for phase in phases)
    assert share > 0.5
    text = f"about {share:.0%} of the estimated cycles; see --check"
    assert said == [f"1 phase runs element by element on the kernel core, {text}"] * 3
    assert main([str(quantized(tiny)), "--search", "off"]) == 0
    assert "1 phase runs element by element on the kernel core; see --check" in capsys.readouterr().out


def test_nothing_is_said_where_the_engines_compute(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tiny)]) == 0
    assert "kernel core" not in capsys.readouterr().out
    assert main([str(quantized(tiny)), "-q"]) == 0
    assert capsys.readouterr().out == ""
