"""A back end of ``torch.compile``: graphs of inference run on the emulated chip.

    model = torch.compile(model, backend="tx8", options={"dtype": "fp16"})
    with torch.no_grad():
        y = model(x)

PyTorch finds it by an entry point. Parameters and buffers are constants of the program. It is compiled at the
first call with new shapes, and again when a parameter has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import GraphError
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import write_together
from tx8isa.tools.suggestions import hint

from .program import Program, compile

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

    from .run import Run

OPTIONS = ("dtype", "tiles", "machine", "patterns", "search", "residency")
"""Options that torch.compile may pass in ``options=``, as for ``tx8.compile``; ``timed`` is one more."""

_runs: list[Run] = []


def last_run() -> Run:
    """The run of the last graph: cycles, statistics, hazards; Tx8Error before the first."""
    if not _runs:
        raise Tx8Error("no graph of torch.compile has run yet")
    return _runs[-1]


def backend(
    module: GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None, **others: Any
) -> Callable[..., list[Any]]:
    """Return the function that runs a graph, as torch.compile asks for; Tx8Error for a refused graph."""
    from compiler.frontend.torch import import_torch

    torch = import_torch("torch.compile")
    given = dict(options or {})
    unknown = [*others, *(name for name in given if name not in (*OPTIONS, "timed"))]
    if unknown:
        allowed = (*OPTIONS, "timed")
        text = f"torch.compile: unknown option '{unknown[0]}'{hint(unknown[0], allowed)}; there are"
        raise Tx8Error(f"{text} {', '.join(allowed)}")
    tracked = any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples)
    if torch.is_grad_enabled() and tracked:
        raise Tx8Error("torch.compile: tx8 runs inference: call the model in 'with torch.no_grad():'")
    return _Compiled(torch, module, examples, given)


def save(program: ExportedProgram, path: str | Path) -> None:
    """Write a program as ``torch.export.save`` does, with the names that its dimensions have in ``Dim``.

    PyTorch itself stores none in a file. Without them a dimension has the name of its symbol, such as
    ``s17``.
    """
    from compiler.frontend.torch import NAMES_FILE, import_torch, names_of

    torch = import_torch("save")
    names = {NAMES_FILE: json.dumps(names_of(program))}
    write_together({Path(path): lambda file: torch.export.save(program, file, extra_files=names)})


class _Compiled:
    """A graph of PyTorch, with a program for each set of shapes that it was called with."""

    def __init__(
        self, torch: Any, module: GraphModule, examples: Sequence[Any], options: dict[str, Any]
    ) -> None:
        self.torch, self.module, self.options = torch, module, options
        self.timed = bool(self.options.pop("timed", True))
        self.static = [_is_static(torch, each) for each in examples]
        self._programs: dict[tuple[object, ...], tuple[Program, list[Any]]] = {}

    def __call__(self, *arguments: Any) -> list[Any]:
        """Run the graph; return the results as tensors."""
        torch = self.torch
        inputs = [
            each
            for each, static in zip(arguments, self.static, strict=True)
            if isinstance(each, torch.Tensor) and not static
        ]
        key = tuple(map(self._key, arguments, self.static))
        if key not in self._programs:
            self._programs = {kept: found for kept, found in self._programs.items() if _same(kept, key)}
            self._programs[key] = self._compiled(arguments)
        program, results = self._programs[key]
        run = program.run(*map(self._array, inputs), timed=self.timed)
        _runs[:] = [run]
        arrays = iter(run)
        return [
            torch.from_numpy(next(arrays).copy()).to(each.dtype).reshape(each.shape)
            if isinstance(each, torch.Tensor)
            else each
            for each in results
        ]

    def _key(self, argument: Any, static: bool) -> object:
        """Return an argument's part of a program's key: a constant's state, an input's shape, a number."""
        if static:
            return argument.data_ptr(), 0 if argument.is_inference() else argument._version
        if isinstance(argument, self.torch.Tensor):
            return "input", tuple(argument.shape), argument.dtype
        return argument

    def _array(self, tensor: Any) -> Any:
        """Convert a tensor to an array of NumPy, which has no bfloat16."""
        return tensor.float() if tensor.dtype == self.torch.bfloat16 else tensor

    def _compiled(self, arguments: Sequence[Any]) -> tuple[Program, list[Any]]:
        """Return the program for these arguments, and its results: tensors like the outputs, or None."""
        from compiler.frontend.torch import from_exported

        torch = self.torch
        bound = _bound_module(torch, self.module, arguments, self.static)
        inputs = tuple(
            each.clone()
            for each, static in zip(arguments, self.static, strict=True)
            if isinstance(each, torch.Tensor) and not static
        )
        with torch.no_grad():
            try:
                exported = torch.export.export(bound, inputs, strict=False).run_decompositions({})
            except Exception as error:  # PyTorch raises errors of many kinds
                reason = str(error).strip().splitlines() or [type(error).__name__]
                raise GraphError([f"torch.compile: PyTorch cannot export the graph: {reason[0]}"]) from None
        _check_signature(exported.graph_signature)
        outputs = exported.graph.output_node().args[0]
        results = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in outputs]
        graph = from_exported(exported, "torch.compile", "torch_compile")
        return compile(graph, **self.options), results


def _is_static(torch: Any, argument: Any) -> bool:
    """Return True if an argument of a graph is a parameter or buffer of the module, not a call's input."""
    if not isinstance(argument, torch.Tensor):
        return False
    marked = getattr(argument, "_dynamo_static_input_type", None) is not None
    return marked or isinstance(argument, torch.nn.Parameter)


def _bound_module(torch: Any, module: GraphModule, arguments: Sequence[Any], static: Sequence[bool]) -> Any:
    """Wrap the graph in a module that takes only inputs: parameters are buffers, numbers are constants."""

    class Bound(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.graph = module
            for number, (argument, kept) in enumerate(zip(arguments, static, strict=True)):
                if kept:
                    self.register_buffer(f"constant{number}", argument.detach())

        def forward(self, *inputs: Any) -> tuple[Any, ...]:
            remaining, found = iter(inputs), []
            for number, (argument, kept) in enumerate(zip(arguments, static, strict=True)):
                if kept:
                    found.append(getattr(self, f"constant{number}"))
                else:
                    found.append(next(remaining) if isinstance(argument, torch.Tensor) else argument)
            return tuple(self.graph(*found))

    return Bound().eval()


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    """Return True if two keys have the same constants, which are pairs of numbers."""
    pairs = zip(one, other, strict=True)
    return all(first == second for first, second in pairs if isinstance(first, tuple) and len(first) == 2)


def _check_signature(signature: Any) -> None:
    """Raise GraphError for a graph that changes its inputs or the model."""
    changed = [*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values()]
    if changed:
        text = "the graph changes a tensor in place"
        raise GraphError([f"torch.compile: {text} ({changed[0]}); tx8 runs graphs without side effects"])
