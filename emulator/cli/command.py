"""tx8emu: run a program image."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options import ddr_range, make_parser

if TYPE_CHECKING:
    from emulator.chip.system import System
    from emulator.debug.snapshot.commands import Saver
    from emulator.program import Array, Program
    from emulator.timing.slices import Sink
    from emulator.watch.report.file import PageFile
    from emulator.watch.stats.sink import Statistics
    from emulator.watch.trace.sink import Trace


def main(arguments: list[str] | None = None) -> int:
    """Entry point; the exit status is that of the table in the help text."""
    from tx8isa.errors import Tx8Error
    from tx8isa.tools.command_line import with_operand, with_value

    try:
        given = with_operand(with_value(arguments, "--stats", "text"), "--input")
        options = make_parser().parse_args(given)
        if not 1 <= options.threads <= 256:
            make_parser().error(f"argument --threads: {options.threads} is outside 1..256")
        if options.load_state and (options.strict or options.explore):
            make_parser().error("--strict and --explore watch a run from its start: not with --load-state")
        status = _run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except Tx8Error as error:
        return _report_error(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; say nothing
        return 0
    except OSError as error:
        return _report_error(
            ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        )
    except KeyboardInterrupt:
        print("tx8emu: interrupted", file=sys.stderr)
        return 130


def _report_error(text: str) -> int:
    from tx8isa.tools.command_line import one_line

    print(f"tx8emu: error: {one_line(text)}", file=sys.stderr)
    return 1


def _run(options: argparse.Namespace) -> int:
    from emulator import native
    from emulator.debug.snapshot import commands as snapshots
    from emulator.program import load
    from tx8isa.machine.description import load_machine

    snapshots.check_options(make_parser(), options)
    machine = load_machine(options.machine)
    if options.tile is not None and options.tile >= machine.tiles:
        make_parser().error(f"argument --tile: {options.tile} is outside 0..{machine.tiles - 1}")
    ranges = [ddr_range(text) for text in options.dump_ddr]
    native.on_compile = None if options.quiet else _announce(options.verbose)
    program = load(options.program, machine)
    files = _output_files(options, program)
    saver = snapshots.saver(options, program.image)
    statistics = _statistics(options, program)
    page = _page(options, statistics)
    with _trace(options, program) as trace:
        sinks = [sink for sink in (trace, statistics, page and page.sink) if sink]
        system = _start(options, program, sinks)
        for address, size in ranges:
            system.ddr_range(address, size)
        fault = _execute(system, options, saver)
        status = 3 if fault else 0
        if files and status == 0 and not system.quanta:
            _write_outputs(files, program.results(system))
        if saver:
            status = saver.status(status)
        if _hazards(options, program, system):
            status = 3
        _report(options, system, ranges, statistics)
        if page:
            found = system.sanitizer.hazards() if system.sanitizer else None
            status = max(status, page.finish(system.tiles, fault, found))
        if trace and trace.error:
            status = max(status, _report_error(trace.error))
    return status


def _start(options: argparse.Namespace, program: Program, sinks: Sequence[Sink]) -> System:
    """The machine with the program, at its beginning or in a saved state."""
    from emulator.debug.snapshot.commands import saved_state

    return program.start(
        _read_inputs(options.input, program),
        serial=options.serial,
        threads=options.threads,
        on_exception=options.on_exception,
        write_span=options.write_span,
        show=_show,
        ne_post=options.ne_post,
        timed=options.timed or None,
        sinks=sinks,
        strict=options.strict,
        snapshot=saved_state(options),
    )


def _hazards(options: argparse.Namespace, program: Program, system: System) -> bool:
    """Print what ``--strict`` and ``--explore`` find; whether there was anything."""
    if not options.strict and not options.explore:
        return False
    from emulator.debug.explore import show_orders
    from emulator.watch.strict.hazards import show_hazards

    found = False
    if sanitizer := system.sanitizer:
        hazards = sanitizer.hazards()
        show_hazards(hazards, sanitizer.more, sanitizer.gave_up, options.program)
        found = bool(hazards)
    if not options.explore:
        return found
    inputs = _read_inputs(options.input, program)

    def start(serial: bool, strict: bool) -> System:
        return program.start(
            inputs,
            serial=serial or options.serial,
            on_exception=options.on_exception,
            strict=strict,
            write_span=options.write_span,
            ne_post=options.ne_post,
        )

    orders = options.explore, options.seed, options.max_instructions
    return show_orders(start, *orders, options.program) or found


def _trace(options: argparse.Namespace, program: Program) -> AbstractContextManager[Trace | None]:
    """The trace that was asked for, or nothing; Tx8Error when it cannot be written."""
    if not options.trace:
        return nullcontext()
    from emulator.watch.trace.sink import Trace

    return Trace(options.trace, program.image, program.machine, options.program)


def _statistics(options: argparse.Namespace, program: Program) -> Statistics | None:
    if not options.stats and not options.report:
        return None
    from emulator.watch.stats.sink import Statistics

    return Statistics(program.image, program.machine)


def _page(options: argparse.Namespace, statistics: Statistics | None) -> PageFile | None:
    """The page that was asked for; Tx8Error when it cannot be written."""
    if not options.report or statistics is None:
        return None
    from emulator.watch.report.file import PageFile

    return PageFile(options.report, statistics, options.program)


def _execute(system: System, options: argparse.Namespace, saver: Saver | None) -> str:
    """Run the program, or let a debugger run it. The fault, which is shown, or nothing."""
    from emulator.tile.fault import Fault

    try:
        _run_or_debug(system, options, saver)
    except Fault as fault:
        print(f"{options.program}: fault: {fault}", file=sys.stderr)
        return str(fault)
    return ""


def _run_or_debug(system: System, options: argparse.Namespace, saver: Saver | None) -> None:
    if options.gdb is None:
        if not options.quiet:
            from emulator.cli.progress import show_progress

            show_progress(system, sys.stderr)
        if saver:
            saver.run(system)
        else:
            system.run(options.max_instructions)
    else:
        from emulator.debug.gdb import debug

        debug(system, options.gdb, options.max_instructions)


def _announce(verbose: bool) -> Callable[[str, float | None], None]:
    """What to do when a kernel is compiled: with -v say so, else say it once, and only to a person."""
    said: list[str] = []

    def announce(name: str, seconds: float | None) -> None:
        if verbose:
            text = "compiling" if seconds is None else f"compiled in {seconds:.2f} s:"
            print(f"tx8emu: {text} {name}", file=sys.stderr)
        elif not said and sys.stderr is not None and sys.stderr.isatty():
            print("tx8emu: compiling kernels for this machine; later runs find them ready", file=sys.stderr)
        said.append(name)

    return announce


def _show(file: int, data: bytes) -> None:
    stream = sys.stdout if file == 1 else sys.stderr
    if stream is not None:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _read_inputs(arguments: Iterable[str], program: Program) -> dict[str, Array]:
    from emulator.cli.arrays import read_array
    from emulator.program import InputError
    from tx8isa.tools.command_line import named_file

    known = [buffer.name for buffer in program.inputs]
    inputs: dict[str, Array] = {}
    for argument in arguments:
        found = named_file(argument, known)
        if found is None:
            make_parser().error(f"argument --input: '{argument}' is not NAME=FILE.npy")
        name, file = found
        if name in inputs:
            raise InputError(f"input '{name}' is given twice")
        inputs[name] = read_array(file)
    return inputs


def _output_files(options: argparse.Namespace, program: Program) -> dict[str, Path]:
    """Where each output goes, in a folder that exists; empty without --output-dir."""
    from emulator.cli.arrays import file_names

    if not options.output_dir:
        return {}
    folder = Path(options.output_dir)
    names = file_names(buffer.name for buffer in program.outputs)
    folder.mkdir(parents=True, exist_ok=True)
    return {output: folder / name for output, name in names.items()}


def _write_outputs(files: dict[str, Path], outputs: dict[str, Array]) -> None:
    from emulator.cli.arrays import write_array
    from tx8isa.tools.files import write_together

    write_together({files[name]: partial(write_array, array) for name, array in outputs.items()})


def _report(
    options: argparse.Namespace, system: System, ranges: list[tuple[int, int]], statistics: Statistics | None
) -> None:
    from emulator.memory.dump import dump_scratchpads, hex_dump
    from tx8isa.tools.files import write_whole

    if options.dump_spm == "-":
        chosen = [t for t in system.tiles if options.tile in (None, t.number)]
        _print(dump_scratchpads((t.number, t.spm) for t in chosen))
    elif options.dump_spm:
        write_whole(options.dump_spm, system.tiles[options.tile or 0].spm.data.tobytes())
    for address, size in ranges:
        _print(hex_dump(system.ddr_range(address, size), address))
    if statistics and options.stats:
        from emulator.watch.stats.output import lines

        _print(lines(statistics, system.tiles, as_json=options.stats == "json"))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
