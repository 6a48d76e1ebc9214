"""One run of a program: its outputs, its time, and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from emulator.chip.options import RunOptions, Show, host_cores
from emulator.chip.system import System
from emulator.watch.strict.hazards import Hazard
from tx8isa.errors import Tx8Error
from tx8isa.tools.command_line import report_form
from tx8isa.tools.files import write_whole

if TYPE_CHECKING:
    import emulator
    from compiler.driver import Program as Compiled
    from compiler.evaluation.judgement import FloatModel, Judgement
    from compiler.search.chips import SharedGraph
    from emulator.chips.mesh import ChipMesh
    from emulator.session.runs import RepeatedRuns
    from emulator.watch.report.data import Parts
    from emulator.watch.stats.compare import Comparison
    from tx8.inputs.arrays import Trees

    from .views.drawings import Drawing
    from .views.stats import ChipsStats, Stats

Array = np.ndarray[Any, np.dtype[Any]]


class Origin(NamedTuple):
    """The model that a program was made from; each field is None if unknown or not applicable."""

    compiled: Compiled | None = None
    """The compiler's result for a model."""
    source: FloatModel | None = None
    """The network of floats, if it was quantised."""
    trees: Trees | None = None
    """The trees of a function of JAX."""


class Options(NamedTuple):
    """Settings of a run."""

    threads: int | None
    """Threads of the host; None: as many as its processors allow."""
    limit: int | None
    """The most instructions of a tile."""
    timed: bool
    data: bool


class Run:
    """A finished run: ``run["name"]`` and ``run[0]`` are outputs, ``np.asarray(run)`` the only one.

    The run gathers cycles and statistics unless ``timed=False``. ``report``, ``trace`` and ``hazards`` are
    not gathered during the run. Reading one of them repeats the run with the same inputs and an observer.
    Runs are deterministic, so the repetition shows what happened.
    """

    def __init__(
        self, program: emulator.Program, title: str, inputs: Mapping[str, Array], threads: int, data: bool
    ) -> None:
        self._program, self._title = program, title
        self._options: RunOptions = {"threads": threads, "data": data}
        self._inputs = {name: array.copy() for name, array in inputs.items()}
        self.outputs: dict[str, Array] = {}
        """Outputs by name, in the order of the model."""
        self.instructions = 0
        """Number of instructions that all tiles have executed."""
        self.printed = ""
        """The program's standard output and error."""
        self.origin = Origin()
        """The model of the program, as far as it is known."""

    # -- outputs ---------------------------------------------------------------------------------------

    def __getitem__(self, key: str | SupportsIndex) -> Array:
        if not isinstance(key, str):
            return list(self.outputs.values())[key]
        if key not in self.outputs:
            raise KeyError(f"no output '{key}'; the outputs: {', '.join(self.outputs)}")
        return self.outputs[key]

    @property
    def result(self) -> Any:
        """Return the model's result: the only output, a tuple of all, or the tree of a function of JAX."""
        if self.origin.trees is not None:
            return self.origin.trees.result(self)
        return self[0] if len(self) == 1 else tuple(self)

    @cached_property
    def verdicts(self) -> dict[str, Judgement]:
        """Compare each output with the model's result in binary64 (docs/quantisation.md#from-python).

        Tx8Error for a program that was not made from a model here, and for one that runs a range of sizes.
        """
        made = self.origin.compiled
        if made is None or (made.image.shapes is not None and made.image.shapes.dimensions):
            wanted = "expected one that tx8.compile made of a model, for one size"
            raise Tx8Error(f"{self._title}: the program has no model to compare its outputs with; {wanted}")
        from compiler.evaluation.judgement import judged

        return judged(made.graph, made.dtype, self.outputs, self._inputs, self.origin.source)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.outputs.values())

    def __len__(self) -> int:
        return len(self.outputs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if len(self.outputs) != 1:
            raise TypeError(f"the run has {len(self.outputs)} outputs: choose one, {', '.join(self.outputs)}")
        return np.asarray(self[0], dtype=dtype)

    # -- time and findings -----------------------------------------------------------------------------

    def execute(self, **options: Any) -> System:
        """Run the program again with options of ``emulator.Program.start``; return the finished system."""
        system = self._program.start(self._inputs, **{**self._options, **options})
        system.run()
        return system

    @cached_property
    def stats(self) -> Stats | ChipsStats:
        """Return where the time went: ``print(run.stats)`` is ``tx8emu --stats``'s table (docs/stats.md)."""
        from .views.stats import Stats, Watch

        watch = Watch(self._program)
        return Stats(watch, self.execute(sinks=watch.sinks).tiles)

    @property
    def cycles(self) -> float:
        """Simulated cycles of the engines' clock (docs/timing.md says how sure the model is)."""
        return self.stats.cycles

    @property
    def cycles_range(self) -> tuple[float, float]:
        """The least and the most cycles, with the model's figures at the ends of their ranges."""
        return self.stats.cycles_range

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Return the sanitizer's findings, such as unordered accesses (docs/strict.md)."""
        system = self.execute(strict=True, data=True)
        assert system.sanitizer is not None
        return tuple(system.sanitizer.hazards())

    def compare(self, earlier: Run | str | Path) -> Comparison:
        """Compare the statistics with those of an earlier run, or of a file that ``report`` has written.

        ``print`` shows which figures differ, a notebook a table (docs/stats.md). Runs on several chips are
        compared by the chip that ends last. Tx8Error if the file holds no statistics.
        """
        from emulator.watch.stats.compare import compare, read_report

        from .views.html import ComparisonView

        before = earlier.stats.longest if isinstance(earlier, Run) else read_report(earlier)
        return ComparisonView(compare(before, self.stats.longest).tables)

    def report(self, path: str | Path) -> Path:
        """Write the report of ``tx8emu --report``: a page (docs/report.md) or, to a file .json, its data.

        Tx8Error for any other name, and when the file cannot be written.
        """
        self._program.check_output("the report", path)
        form = report_form(str(path))
        if form == "json":
            from emulator.watch.stats.output import report_file

            write_whole(path, report_file(self.stats.report))
            return Path(path)
        if not form:
            raise Tx8Error(f"'{path}' ends neither in .html, for a page, nor in .json, for data")
        from emulator.watch.report.file import PageFile

        from .views.stats import Watch

        statistics = Watch(self._program).statistics
        page = PageFile(str(path), statistics, self._title)
        page.finish(self.execute(sinks=[statistics, page.sink]).tiles, "", None)
        return Path(path)

    def timeline(self) -> Drawing:
        """Draw when each engine of each tile was busy, in the colours of the graph's nodes."""
        from .views.drawings import timeline

        return timeline(*self._page_data, self._title)

    def scratchpad(self, tile: int = 0) -> Drawing:
        """Draw which buffer has which addresses of a tile's scratchpad, and when; Tx8Error if it is idle."""
        from .views.drawings import scratchpad

        return scratchpad(*self._page_data, self._title, tile)

    def roofline(self) -> Drawing:
        """Draw operations a cycle over operations a byte of DDR, of the run and of its nodes."""
        from .views.drawings import roofline

        return roofline(self._page_data[0], self._title)

    def phases(self) -> Drawing:
        """Draw the graph's phases and the bytes that flow between them through DDR."""
        from .views.drawings import phases

        return phases(self._page_data[0], self._title)

    @cached_property
    def _page_data(self) -> Parts:
        """Return the contents of the page of ``report``, as texts and arrays."""
        from emulator.watch.report.data import content
        from emulator.watch.report.sink import ReportSink

        from .views.stats import Watch

        statistics = Watch(self._program).statistics
        sink = ReportSink(self._program.image, self._program.machine, statistics)
        return content(sink, self.execute(sinks=[statistics, sink]).tiles, "", None)

    def trace(self, path: str | Path) -> Path:
        """Write the trace of ``tx8emu --trace``, for Perfetto (docs/trace.md); Tx8Error as for ``report``."""
        from emulator.watch.trace.sink import Trace

        self._program.check_output("the trace", path)
        with Trace(path, self._program.image, self._program.machine, self._title) as sink:
            self.execute(sinks=[sink])
        return Path(path)

    # -- text ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        outputs = ", ".join(f"{name}: {array.dtype} {_shape(array)}" for name, array in self.outputs.items())
        return f"<tx8.Run of {self._title}: {outputs or 'no outputs'}; {self.instructions:,} instructions>"

    def _repr_html_(self) -> str:
        from .views.html import run_page

        return run_page(self._title, self.instructions, self._inputs, self.outputs, self.stats)


def start(runs: RepeatedRuns, title: str, inputs: Mapping[str, Array], options: Options) -> Run:
    """Run a program; a Fault also shows the text that the program printed."""
    from .views.stats import Stats, Watch

    program = runs.program
    threads, data = options.threads or runs.threads, options.data
    run = Run(program, title, inputs, threads, data)
    watch = Watch(program) if options.timed else None
    with _printing(run) as show:
        sinks = watch.sinks if watch else []
        kept: RunOptions = {"threads": threads, "data": data, "show": show, "sinks": sinks}
        with runs.started(inputs, **kept) as system:
            system.run(options.limit)
            run.outputs = program.results(system) if data else {}
            run.instructions = sum(tile.retired for tile in system.tiles)
            if watch:
                run.__dict__["stats"] = Stats(watch, system.tiles)
    return run


class ChipsRun(Run):
    """A run on several chips; ``spread`` is the sharding of the model's inputs and outputs.

    Without ``spread``, inputs and outputs are those of single chips, such as ``chip1.x``.
    """

    def __init__(
        self,
        program: emulator.Program,
        title: str,
        inputs: Mapping[str, Array],
        options: Options,
        spread: SharedGraph | None,
    ) -> None:
        super().__init__(program, title, inputs, options.threads or host_cores(), options.data)
        self._spread = spread

    def start(self, limit: int | None, timed: bool) -> None:
        """Run the chips to the end; ``limit`` and ``timed`` as for the function ``start``."""
        with _printing(self) as show:
            if timed:
                mesh, self.__dict__["stats"] = self._watched(limit, show=show)
            else:
                mesh = self._mesh(limit, show=show)
        results = self._program.results_of_chips(mesh) if self._options["data"] else {}
        self.outputs = results if self._spread is None or not results else self._spread.joined(results)
        self.instructions = sum(tile.retired for chip in mesh.chips for tile in chip.tiles)

    def _mesh(self, limit: int | None = None, **options: Any) -> ChipMesh:
        """Run the chips once more and return them."""
        inputs = self._inputs if self._spread is None else self._spread.dealt(self._inputs)
        mesh = self._program.start_chips(inputs, **{**self._options, **options})
        mesh.run(limit)
        return mesh

    def _watched(self, limit: int | None = None, **options: Any) -> tuple[ChipMesh, ChipsStats]:
        """Run the chips once more and return them with the statistics."""
        from emulator.watch.stats.sink import Statistics

        from .views.stats import ChipsStats

        sinks = [Statistics(self._program.image, self._program.machine) for _ in range(self._program.chips)]
        mesh = self._mesh(limit, watch=lambda chip: [sinks[chip]], **options)
        return mesh, ChipsStats(sinks, mesh)

    @cached_property
    def stats(self) -> ChipsStats:
        """Return where each chip's time went: ``print(run.stats)`` is the table of ``tx8emu --stats``."""
        return self._watched()[1]

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Return the sanitizer's findings on all chips."""
        return self._mesh(strict=True, data=True).hazards()

    def execute(self, **options: Any) -> System:
        """Refuse: each chip has a system of its own."""
        raise self._refusal("execute", "see stats and hazards")

    @property
    def _page_data(self) -> Parts:
        """Refuse: a drawing shows one chip."""
        raise self._refusal("a drawing", "tx8emu --html writes a page for each chip")

    def report(self, path: str | Path) -> Path:
        """Write the statistics to a file .json; Tx8Error for a page."""
        if report_form(str(path)) == "html":
            raise self._refusal("a page", "tx8emu --html writes one for each chip")
        return super().report(path)

    def trace(self, path: str | Path) -> Path:
        """Refuse: only tx8emu joins the traces of chips."""
        raise self._refusal("a trace", "tx8emu --trace writes one of all chips")

    def _refusal(self, name: str, instead: str) -> Tx8Error:
        return Tx8Error(f"{name} is for a run on one chip; this one is on {self._program.chips}: {instead}")


def start_on_chips(
    program: emulator.Program,
    title: str,
    inputs: Mapping[str, Array],
    options: Options,
    spread: SharedGraph | None,
) -> Run:
    """Run a program on several chips; as ``start``. ``spread`` as for ``ChipsRun``."""
    run = ChipsRun(program, title, inputs, options, spread)
    run.start(options.limit, options.timed)
    return run


@contextmanager
def _printing(run: Run) -> Iterator[Show]:
    """Collect the output of the program; show it if the run fails."""
    written: list[bytes] = []
    try:
        yield lambda _, data: written.append(data)
    except Exception:
        print(b"".join(written).decode(errors="replace"), end="")
        raise
    run.printed = b"".join(written).decode(errors="replace")


def _shape(array: Array) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
