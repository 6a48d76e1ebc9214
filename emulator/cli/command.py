"""tx8emu: run a program image."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.cli.options import check_usage, make_parser
from tx8isa.tools.command_line import error_line, guarded, note, print_lines, print_out, report_form, tell
from tx8isa.tools.overwrite import run_of_tool

if TYPE_CHECKING:
    from emulator.chip.options import RunOptions
    from emulator.chip.system import System
    from emulator.chips.mesh import ChipMesh
    from emulator.chips.ranks.team import Team
    from emulator.cli.chips import ChipsWatching, RunFindings
    from emulator.cli.dumps import Dumps
    from emulator.cli.watching import Views
    from emulator.debug.explore import Difference
    from emulator.debug.snapshot.commands import Saver
    from emulator.memory.buffers import Array
    from emulator.program import Program
    from emulator.tile.fault import Fault
    from emulator.timing.slices import Sink
    from emulator.watch.strict.hazards import Hazard


@run_of_tool()
def main(arguments: list[str] | None = None) -> int:
    """Run the command; the help text lists the exit statuses."""
    from emulator.chips.ranks.launch import launched

    found = launched()
    if found is None:
        return guarded("tx8emu", partial(_command, arguments))
    from emulator.cli.ranks import run_as_rank

    return run_as_rank(found, partial(_command, arguments), partial(guarded, "tx8emu"), tell)


def _command(arguments: list[str] | None, team: Team | None = None) -> int:
    """Run the command; ``team``: the ranks, if there are several."""
    from tx8isa.tools.command_line import parsed, with_operand, with_value

    given = with_operand(with_value(arguments, "--stats", "text"), "--input")
    options = parsed(make_parser(), given)
    check_usage(make_parser(), options)
    alone = _prove_order if options.prove_order else _run_session if options.session else None
    status = alone(options) if alone and team is None else _run(options, team)
    if sys.stdout is not None:
        sys.stdout.flush()
    return status


def _announce(options: argparse.Namespace) -> None:
    from emulator import native
    from emulator.cli.warm import announce

    native.on_compile = None if options.quiet else announce(options.verbose)


def _run(options: argparse.Namespace, team: Team | None) -> int:
    from emulator.cli.dumps import Dumps, write_files
    from emulator.cli.outputs import output_files, output_folder
    from emulator.cli.watching import Watching
    from emulator.debug.snapshot import commands as snapshots

    snapshots.check_options(make_parser(), options)
    _announce(options)
    program = _loaded(options)
    _check_numbers(options, program, team)
    dumps = Dumps(options, program)
    if team is not None or program.chips > 1:
        return _run_chips(options, program, dumps, team)
    files = output_files(options, [buffer.name for buffer in program.outputs])
    saver = snapshots.saver(options, program.image)
    with output_folder(options), Watching(_views(options), program.image, program.machine) as watching:
        system = _start(options, program, watching.sinks)
        dumps.check(system)
        fault = _reported(options, partial(_run_or_debug, system, options, saver))
        status = 3 if fault else 0
        complete = not fault and not system.quanta and system.data
        outputs = program.results(system) if complete and (files or options.json) else {}
        _write_outputs(files, outputs)
        if saver:
            status = saver.status(status)
        hazards, differences = _hazards(options, system), _differences(options, program)
        if hazards or differences:
            status = 3
        print_lines(dumps.lines(system))
        write_files(dumps.files(system))
        print_lines(watching.lines(system, options.stats))
        _print_cycles(options, fault, system.cycles)
        status = _told(watching.finish(system, fault), status)
    if options.json:
        left_out = _left_out(system)
        _print_verdict(options, status, fault, outputs, hazards, left_out, differences)
    return status


def _check_numbers(options: argparse.Namespace, program: Program, team: Team | None) -> None:
    """Exit with a usage error for a tile or a chip that is not there."""
    from emulator.chips.ranks.placement import placed

    tiles = program.machine.tiles
    if options.tile is not None and options.tile >= tiles:
        make_parser().error(f"argument --tile: {options.tile} is outside 0..{tiles - 1}")
    if program.chips == 1 and team is None:
        placed(options.placement, 1, 1)
        if options.chip:
            text = f"argument --chip: {options.chip} is outside 0..0, the program runs on one chip"
            make_parser().error(text)


def _prove_order(options: argparse.Namespace) -> int:
    from emulator.cli.progress import show_sizes
    from emulator.session.order import prove_order

    _announce(options)
    found = prove_order(_loaded(options), progress=None if options.quiet else show_sizes(sys.stderr))
    print_lines(found.lines())
    return 0 if found.holds else 3


def _run_session(options: argparse.Namespace) -> int:
    """Run a program as the script of a session says."""
    from emulator.cli.session import run_script

    _announce(options)
    return run_script(options, _loaded(options), _run_options(options))


def _run_chips(options: argparse.Namespace, program: Program, dumps: Dumps, team: Team | None) -> int:
    """Run a program on several chips, all of them here or those of one rank."""
    from emulator.chips.mesh import ChipMesh
    from emulator.chips.ranks.mesh import RankMesh
    from emulator.chips.ranks.placement import placed
    from emulator.cli.chips import ChipsWatching, RunFindings, check_options, page_files
    from emulator.cli.inputs import read_inputs
    from emulator.cli.outputs import files_written, output_files, output_folder

    check_options(options, program)
    names = program.names_of_chips(buffer.name for buffer in program.outputs)
    pages = page_files(options, program.chips)
    files = output_files(options, names, pages)
    rank, ranks = 0, placed(options.placement, program.chips, team.size if team else 1)
    make: Callable[..., ChipMesh] = ChipMesh
    if team is not None:
        rank, make = team.rank, partial(RankMesh, post=team.post, ranks=ranks)
        team.take_chips(ranks, files_written(options, names, pages))
    numbers = [chip for chip, of in enumerate(ranks) if of == rank]
    folder = nullcontext() if rank else output_folder(options)
    with folder, ChipsWatching(options, program, numbers) as watching:
        inputs, run = read_inputs(options, program, say=True), _run_options(options)
        mesh = program.start_chips(inputs, watch=watching.sinks, passed=watching.passed, make=make, **run)
        for chip in mesh.chips:
            dumps.check(chip)
        if team is not None:
            team.begin()
        fault = _reported(options, partial(mesh.run, options.max_instructions))
        wanted = not fault and not options.cycles_only and (files or options.json)
        outputs = program.results_of_chips(mesh) if wanted else {}
        parts = [watching.findings(mesh, outputs, fault, dumps)]
        if team is not None:
            parts = team.post.to_first(parts[0])
            watching.collect(team.post, ranks)
            team.leave()
        if rank:
            return 0
        return _tell(options, RunFindings.together(parts, names), fault, files, watching)


def _tell(
    options: argparse.Namespace,
    found: RunFindings,
    fault: Fault | None,
    files: dict[str, Path],
    watching: ChipsWatching,
) -> int:
    """Print and write the findings of a run on several chips; return the exit status."""
    from emulator.cli.chips import show_hazards_of_chips
    from emulator.cli.dumps import write_files

    _write_outputs(files, found.outputs)
    hazards = found.hazards if options.strict else None
    if hazards is not None:
        sys.stdout.flush()
        show_hazards_of_chips(found, options.program)
    status = 3 if fault or hazards else 0
    for chip in found.chips:
        print_lines(chip.dumps)
        write_files(chip.files)
    print_lines(watching.lines(found, options.stats))
    _print_cycles(options, fault, max(chip.cycles for chip in found.chips))
    status = _told(watching.finish(found), status)
    if options.json:
        left_out = any(chip.more or chip.gave_up for chip in found.chips)
        _print_verdict(options, status, fault, found.outputs, hazards, left_out, None)
    return status


def _print_cycles(options: argparse.Namespace, fault: Fault | None, cycles: int | None) -> None:
    """Print the cycles of a run with ``--cycles-only`` if no other option asks for output."""
    shown = options.stats or options.against or options.json or options.trace
    if options.cycles_only and not fault and not (shown or options.html or options.report):
        print_out(f"{cycles:,} cycles")


def _told(errors: Iterable[str], status: int) -> int:
    """Print errors that come after the results of a run; return the exit status, given the one before."""
    for text in errors:
        status = max(status, tell(error_line("tx8emu", text), 1))
    return status


def _left_out(system: System) -> bool:
    """Return True if a strict run has found more hazards than it reports."""
    checked = system.sanitizer
    return bool(checked and (checked.more or checked.gave_up))


def _print_verdict(
    options: argparse.Namespace,
    status: int,
    fault: Fault | None,
    outputs: Mapping[str, Array],
    hazards: Sequence[Hazard] | None,
    left_out: bool,
    differences: Sequence[Difference] | None,
) -> None:
    from emulator.cli.verdict import verdict

    orders = options.explore or 0
    print_out(verdict(options.program, status, fault, outputs, hazards, left_out, orders, differences))


def _loaded(options: argparse.Namespace) -> Program:
    """Load the program, for its machine or the given one, with the figures of --issue and --timing."""
    from emulator.cli.inputs import chosen_entry
    from emulator.program import Program, load, on_chips
    from tx8isa.machine.description import load_machine
    from tx8isa.machine.ends import End, at_end

    program = load(options.program, load_machine(options.machine) if options.machine else None)
    program = chosen_entry(options, program)
    if options.chips:
        x, y = options.chips
        program = on_chips(program, x, y, options.program)
    machine = program.machine.issued_by(options.issue) if options.issue else program.machine
    if options.timing != "middle":
        machine = at_end(machine, End(options.timing))
    return program if machine is program.machine else Program(program.image, machine)


def _start(options: argparse.Namespace, program: Program, sinks: Sequence[Sink]) -> System:
    """Return the machine with the program, at its beginning or in a saved state."""
    from emulator.cli.inputs import read_inputs
    from emulator.debug.snapshot.commands import saved_state

    run: RunOptions = {**_run_options(options), "sinks": sinks}
    inputs = read_inputs(options, program, say=True)
    return program.start(inputs, snapshot=saved_state(options, program.machine), **run)


def _run_options(options: argparse.Namespace) -> RunOptions:
    """Return the options of a run, except its observers."""
    return {
        "serial": options.serial,
        "threads": options.threads,
        "on_exception": options.on_exception,
        "write_span": options.write_span,
        "show": _show_on_stderr if options.json else _show,
        "ne_post": options.ne_post,
        "timed": options.timed or options.cycles_only or None,
        "data": not options.cycles_only,
        "strict": options.strict,
    }


def _hazards(options: argparse.Namespace, system: System) -> Sequence[Hazard] | None:
    """Print the findings of ``--strict``; None without it."""
    sanitizer = system.sanitizer
    if sanitizer is None:
        return None
    from emulator.watch.strict.hazards import show_hazards

    hazards = sanitizer.hazards()
    show_hazards(hazards, sanitizer.more, sanitizer.gave_up, options.program)
    return hazards


def _differences(options: argparse.Namespace, program: Program) -> Sequence[Difference] | None:
    """Print the findings of ``--explore``; None without it."""
    if not options.explore:
        return None
    from emulator.cli.inputs import read_inputs
    from emulator.debug.explore import show_orders

    inputs = read_inputs(options, program)

    def start(serial: bool, strict: bool) -> System:
        return program.start(
            inputs,
            serial=serial or options.serial,
            on_exception=options.on_exception,
            strict=strict,
            write_span=options.write_span,
            ne_post=options.ne_post,
        )

    orders = options.explore, options.explore_seed, options.max_instructions
    return show_orders(start, *orders, options.program, quiet=options.json)


def _views(options: argparse.Namespace) -> Views:
    """Return the views of the run that the options ask for, besides its outputs."""
    from emulator.cli.watching import Views, earlier_run

    form = options.report and report_form(options.report)
    page = options.html or (options.report if form == "html" else None)
    data = options.report if form == "json" else None
    against = earlier_run(options.against)
    return Views(options.program, bool(options.stats), page, data, options.trace, against)


def _reported(options: argparse.Namespace, run: Callable[[], None]) -> Fault | None:
    """Run; print and return the fault, if there is one."""
    from emulator.tile.fault import Fault

    try:
        run()
    except Fault as fault:
        note(f"{options.program}: fault: {fault}")
        return fault
    return None


def _run_or_debug(system: System, options: argparse.Namespace, saver: Saver | None) -> None:
    """Run the program, or let a debugger run it."""
    if options.gdb is None:
        if not options.quiet:
            from emulator.cli.progress import show_progress

            show_progress(system, sys.stderr)
        if saver:
            saver.run(system)
        else:
            system.run(options.max_instructions)
    else:
        from emulator.cli.outputs import files_of_run
        from emulator.debug.gdb import debug

        outputs = [buffer.name for buffer in system.image.buffers if buffer.kind == "output"]
        debug(system, options.gdb, options.max_instructions, files_of_run(options, outputs))


def _show(file: int, data: bytes) -> None:
    stream = sys.stdout if file == 1 else sys.stderr
    if stream is not None:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def _show_on_stderr(file: int, data: bytes) -> None:
    """Show the program's output on standard error, because standard output is for data."""
    _show(2, data)


def _write_outputs(files: dict[str, Path], outputs: dict[str, Array]) -> None:
    from emulator.cli.arrays import write_array
    from tx8isa.tools.files import write_together

    if files and outputs:
        write_together({files[name]: partial(write_array, array) for name, array in outputs.items()})
