"""Lists the files that a run of tx8cc reads and writes, so that none is overwritten by another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.codegen import CONSTANTS_FILE
from tx8isa.tools.command_line import named_file
from tx8isa.tools.overwrite import Role, check_name, check_outputs

if TYPE_CHECKING:
    from compiler.graph import Graph, Tensor


def program_folder(options: argparse.Namespace, graph: Path) -> Path:
    """Return the folder of the program: the one that the user named, or one next to the graph."""
    return chosen_folder(options, options.output, graph) if options.output else graph.with_suffix("")


def chosen_folder(options: argparse.Namespace, given: str, graph: Path) -> Path:
    """Return the folder that the user named; several graphs have a folder each in it."""
    return Path(given) / graph.stem if len(options.graphs) > 1 else Path(given)


def check_files(options: argparse.Namespace) -> None:
    """Raise Tx8Error when a file that the options name would replace another one of the run."""
    graphs = [Path(graph) for graph in options.graphs]
    outputs: list[Role] = [role for graph in graphs for role in _program_files(options, graph)]
    outputs += _views(options)
    check_outputs(outputs, _inputs(options))


def check_files_of(options: argparse.Namespace, path: Path, graph: Graph) -> None:
    """Check the files that are known once a graph is read, as ``check_files`` does.

    Such files are those with its constants, and the arrays of --save-inputs and --output-dir, which are named
    after inputs and outputs.
    """
    check_outputs(_made(options, path, graph), _read(options, path, graph))


def check_files_of_entries(options: argparse.Namespace, path: Path, models: Mapping[str, Path]) -> None:
    """Check the files of a program of several networks, as ``check_files`` does."""
    inputs = [(f"the model of entry '{name}'", model) for name, model in models.items()]
    for model in models.values():
        check_name(model)
    check_outputs(_program_files(options, path), inputs)


def files_of_run(options: argparse.Namespace, path: Path, graph: Graph) -> list[Role]:
    """Return all files that the compilation and the run of a graph read or write."""
    return [*_read(options, path, graph), *_made(options, path, graph)]


def _made(options: argparse.Namespace, path: Path, graph: Graph) -> Iterator[Role]:
    yield from _arrays(options, path, "save_inputs", "input", graph.inputs)
    yield from _arrays(options, path, "output_dir", "output", graph.outputs)
    yield from _program_files(options, path)
    yield from _views(options)


def _read(options: argparse.Namespace, path: Path, graph: Graph) -> Iterator[Role]:
    yield from _inputs(options)
    yield from ((f"a file with constants of {path}", file) for file in graph.files)


def _arrays(
    options: argparse.Namespace, graph: Path, option: str, what: str, tensors: Iterable[Tensor]
) -> Iterator[Role]:
    if folder := getattr(options, option):
        from .run import array_files

        files = array_files(chosen_folder(options, folder, graph), [tensor.name for tensor in tensors])
        for name, file in files.items():
            yield f"{what} '{name}' in --{option.replace('_', '-')}", file


def _views(options: argparse.Namespace) -> list[Role]:
    """Return the files about the compilation and the run."""
    names = ("save_plan", "save_formats", "report", "html", "trace")
    files = [(f"--{name.replace('_', '-')}", getattr(options, name)) for name in names]
    viewed = view_files(options.view, options.verify_nodes) if options.view else []
    return [*files, *((f"{file.name} in --view", file) for file in viewed)]


def view_files(folder: str, verified: bool) -> list[Path]:
    """Return the files of a view; the last one has the errors of verified nodes."""
    names = ("model.onnx", "graph.json", "cycles.json", "bytes.json", *["error.json"] * verified)
    return [Path(folder) / name for name in names]


def _program_files(options: argparse.Namespace, graph: Path) -> Iterator[Role]:
    folder = program_folder(options, graph)
    yield f"the constants of {graph}", folder / CONSTANTS_FILE
    yield f"the assembly of {graph}", folder / "prog.s"
    if not options.text_only:
        yield f"the image of {graph}", folder / "prog.bin"
    if options.verify_nodes:
        yield "the graph of a wrong node", folder / "wrong" / "graph.json"


def _inputs(options: argparse.Namespace) -> Iterator[Role]:
    for graph in options.graphs:
        yield "a graph that is compiled", graph
        yield from (("a file of a graph that is compiled", file) for file in _files_below(Path(graph)))
    for argument in options.input:
        found = named_file(argument, ())
        yield "an array of --input", found and found[1]
    yield "the machine description", options.machine
    yield "the file of --plan", options.plan
    yield "the samples of --calibrate", options.calibrate
    yield "the file of --formats", options.formats
    yield "the file of --metric", options.metric and options.metric.rpartition(":")[0]
    yield "the file of --patterns", options.patterns
    yield from (("a file of --operators", file) for file in options.operators)
    yield from (("an array of --constant", value) for _, value in options.constant if isinstance(value, Path))


def _files_below(graph: Path) -> Iterator[Path]:
    """Yield the files of a model that is a folder."""
    return (path for path in graph.rglob("*") if path.is_file()) if graph.is_dir() else iter(())
