"""Carries out the options of quantising: makes a network with bytes, or chooses the formats of floats."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.tools.execution import compile_options, say

if TYPE_CHECKING:
    from compiler.graph import Graph
    from compiler.quantise import Chosen, CyclesOf, Goal, Quantised, Samples, Settings
    from compiler.quantise.ranges.observation import Progress
    from tx8isa.machine.description import Machine


def chosen(options: argparse.Namespace, graph: Graph, machine: Machine) -> Chosen | None:
    """Return the graph in the formats that the options ask for; print the decisions if there were any.

    None if there is nothing to choose: a single format of floats, and no samples that show values beyond it.
    """
    from compiler.tools.progress import ProgressLine

    if not options.calibrate and options.dtype != "auto":
        return None
    decides = options.max_loss is not None or bool(options.formats or options.save_formats)
    with ProgressLine(graph.name, (), None if options.quiet else sys.stderr) as progress:
        if options.dtype == "auto":
            made = _automatic(options, graph, machine, progress.counting)
        elif options.dtype == "int8":
            made = _of_bytes(options, graph, machine if decides else None, progress.counting)
        else:
            return _held(options, graph, progress.counting)
    if (decides or options.dtype == "auto") and not options.quiet:
        say(options, made.table.text())
    return made.chosen


def _of_bytes(
    options: argparse.Namespace, graph: Graph, machine: Machine | None, progress: Progress
) -> Quantised:
    """Return the graph with bytes; with a machine, with the cycles that bytes save there."""
    from compiler.quantise import FLOAT, quantise

    cycles = _cycles(options, machine)(FLOAT) if machine is not None else None
    samples = _samples(options, graph)
    return quantise(graph, samples, _settings(options), _goal(options), progress, cycles)


def _automatic(options: argparse.Namespace, graph: Graph, machine: Machine, progress: Progress) -> Quantised:
    from compiler.quantise import Allowed, automatic

    origin = "" if options.calibrate else f"on random inputs (seed {options.seed})"
    allowed = Allowed(_goal(options), _settings(options), bool(options.calibrate), origin)
    return automatic(graph, _samples(options, graph), allowed, _cycles(options, machine), progress)


def _held(options: argparse.Namespace, graph: Graph, progress: Progress) -> Chosen:
    from compiler.quantise import held_wide

    return held_wide(graph, _samples(options, graph), options.dtype, progress)


def _cycles(options: argparse.Namespace, machine: Machine | None) -> Any:
    """Return the function from a format of floats to an estimator of the cycles of a graph's phases."""
    from compiler.quantise import compiled_cycles

    given = compile_options(options) | {"plan": None, "machine": machine}

    def cycles(dtype: str) -> CyclesOf:
        return compiled_cycles(**(given | {"dtype": dtype}))

    return cycles


def _settings(options: argparse.Namespace) -> Settings:
    from compiler.quantise import Settings

    method, correct = options.calibration or Settings.method, not options.no_bias_correction
    return Settings(method, correct, options.equalise, options.smooth)


def _goal(options: argparse.Namespace) -> Goal:
    from compiler.quantise import Goal, Metric
    from compiler.tools.extensions import load_function

    metric = Metric(options.metric, load_function(options.metric)) if options.metric else None
    return Goal(options.max_loss, metric, Path(options.formats) if options.formats else None)


def _samples(options: argparse.Namespace, graph: Graph) -> Samples:
    """Return the samples of a file, or random ones."""
    from compiler.quantise import read_samples
    from compiler.tools.run import random_samples

    if options.calibrate:
        return read_samples(Path(options.calibrate), graph)
    return random_samples(graph, options.seed)
