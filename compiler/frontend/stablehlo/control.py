"""Control flow that is known at compile time: functions, loops with a known number of steps, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Block, Operation

from compiler.evaluation.survey import Survey
from compiler.frontend.onnx.partial import Unsupported

from .operations import REWRITES
from .site import Site, Value

Results = list[Value | None]
"""The values of an operation's results; None for results that were refused inside of it."""

_MOST_STEPS = 1000
"""The most steps that are written out: the body is repeated for each."""


class Writer(Protocol):
    """Adds the operations of blocks to the graph (:class:`importer.ModuleImporter`)."""

    functions: dict[str, Operation]
    calls: list[str]
    survey: Survey

    def block(self, block: Block, operands: Sequence[Value | None], prefix: str) -> Results: ...


def _call(writer: Writer, site: Site) -> Results:
    return _written_out(writer, site, site.word("callee"))


def _composite(writer: Writer, site: Site) -> Results:
    """Add a composite as the operation that it is named after, if known, else as its decomposition."""
    rewrite = REWRITES.get(site.word("name"))
    if rewrite is None:
        return _written_out(writer, site, site.word("decomposition"))
    given = site.attributes.get("composite_attributes")
    if isinstance(given, DictionaryAttr):
        site.attributes = {**site.attributes, **given.data}
    made = rewrite(site)
    return [made] if isinstance(made, Value) else list(made)


def _written_out(writer: Writer, site: Site, name: str) -> Results:
    """Add the operations of a function; return its results."""
    if name not in writer.functions:
        raise Unsupported(f"calls '{name}', which is not a function of the module")
    if name in writer.calls:
        raise Unsupported(f"'{name}' calls itself")
    block = writer.functions[name].regions[0].block
    if len(block.args) != len(site.operands):
        raise Unsupported(f"'{name}' takes {len(block.args)} values; {len(site.operands)} are given")
    writer.calls.append(name)
    try:
        return writer.block(block, site.operands, f"{site.name}/")
    finally:
        writer.calls.pop()


def _same(writer: Writer, site: Site) -> Results:
    """Return the operands: the operation only says where and when."""
    return list(site.operands)


_MARKS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Custom calls that return their operand."""


def _custom_call(writer: Writer, site: Site) -> Results:
    target = site.word("call_target_name")
    if target not in _MARKS:
        advice = "write it in operations of jax.numpy, or run it on the host"
        raise Unsupported(f"calls '{target}', code outside of the module: {advice}")
    return list(site.operands)


def _while(writer: Writer, site: Site) -> Results:
    """Add the body once for each step; the condition must be known before each of them."""
    condition, body = site.region(0).block, site.region(1).block
    state: Results = list(site.operands)
    for step in range(_MOST_STEPS + 1):
        prefix = f"{site.name}/{step}/"
        (going,) = writer.block(condition, state, f"{prefix}cond/")
        if going is None:
            return [None] * len(state)
        known = site.known(going)
        if known is None:
            advice = "count steps from a constant to a constant, as lax.scan and fori_loop do"
            raise Unsupported(f"its condition is not known when compiling: {advice}")
        if not known:
            return state
        state = writer.block(body, state, prefix)
        if None in state:
            return [None] * len(state)
    raise Unsupported(f"takes more than {_MOST_STEPS} steps, which would all be written out")


def _case(writer: Writer, site: Site) -> Results:
    """Add the known branch, or else all branches and a Where that selects the taken one."""
    index = site.operand(0)
    last = len(site.op.regions) - 1
    known = site.known(index)
    if known is not None:
        at = int(known)
        return _branch(writer, site, at if 0 <= at <= last else last)
    chosen = _branch(writer, site, last)
    for at in range(last):
        taken = site.pointwise("Equal", index, site.number(at, index))
        chosen = _chosen(site, taken, _branch(writer, site, at), chosen)
    return chosen


def _if(writer: Writer, site: Site) -> Results:
    """Write ``stablehlo.if``, as ``_case`` does for two branches."""
    test = site.operand(0)
    known = site.known(test)
    if known is not None:
        return _branch(writer, site, 0 if bool(known) else 1)
    return _chosen(site, test, _branch(writer, site, 0), _branch(writer, site, 1))


def _branch(writer: Writer, site: Site, at: int) -> Results:
    return writer.block(site.region(at).block, [], f"{site.name}/{at}/")


def _chosen(site: Site, test: Value, some: Results, others: Results) -> Results:
    """Select one of two values for each result."""
    pairs = zip(some, others, strict=True)
    return [None if a is None or b is None else site.pointwise("Where", test, a, b) for a, b in pairs]


CONTROL: dict[str, Callable[[Writer, Site], Results]] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.optimization_barrier": _same,
    "stablehlo.while": _while,
    "stablehlo.case": _case,
    "stablehlo.if": _if,
}
"""Functions that add the blocks that an operation of control flow runs, by its name."""
