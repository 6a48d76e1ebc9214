"""The files that a run of tx8emu writes; none replaces a file that it reads, or another one."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tx8isa.tools.command_line import named_file
from tx8isa.tools.files import made_folder
from tx8isa.tools.overwrite import Role, check_outputs

from .arrays import file_names
from .options import tensor_file


def output_files(
    options: argparse.Namespace, outputs: Collection[str], pages: Collection[str] = ()
) -> dict[str, Path]:
    """Return the file of each output; empty without --output-dir. ``pages``: other files that are written.

    Tx8Error when any file that the options ask for would replace another one of the run.
    """
    check_outputs(_written(options, outputs, pages), _inputs(options))
    return _arrays(options, outputs)


def files_written(
    options: argparse.Namespace, outputs: Collection[str], pages: Collection[str]
) -> list[Path]:
    """Return all files that a run writes."""
    found = (path for _, path in _written(options, outputs, pages))
    return [Path(path) for path in found if path is not None and path != "-"]


def files_of_run(options: argparse.Namespace, outputs: Collection[str]) -> list[Role]:
    """Return all files that a run reads or writes."""
    return [*_inputs(options), *_written(options, outputs)]


def _arrays(options: argparse.Namespace, outputs: Collection[str]) -> dict[str, Path]:
    folder = Path(options.output_dir) if options.output_dir else None
    return {output: folder / name for output, name in file_names(outputs).items()} if folder else {}


def _written(
    options: argparse.Namespace, outputs: Collection[str], pages: Collection[str] = ()
) -> list[Role]:
    files = _arrays(options, outputs)
    written: list[Role] = [(f"output '{name}' in --output-dir", file) for name, file in files.items()]
    for option in ("trace", "html", "report", "save_state", "dump_spm"):
        written.append((f"--{option.replace('_', '-')}", getattr(options, option)))
    for text in options.dump_tensor:
        written.append(("--dump-tensor", tensor_file(text, outputs)[1]))
    return written + [("a page of --html or --report", page) for page in pages]


def output_folder(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Return the folder of --output-dir, which exists inside the block; see ``made_folder``."""
    return made_folder(Path(options.output_dir)) if options.output_dir else nullcontext()


def _inputs(options: argparse.Namespace) -> Iterator[Role]:
    yield "the program", options.program
    yield "the machine description", options.machine
    yield "the state of --load-state", options.load_state
    yield "the earlier run of --against", options.against
    for argument in options.input:
        found = named_file(argument, ())
        yield "an array of --input", found and found[1]
