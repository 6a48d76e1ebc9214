"""Signatures of works: two works with the same signature are the same template.

A signature has everything that decides the speed of the code. This is the operators with their attributes,
shapes and formats, which operands are constants, and the values that are not tensors at run time. It omits
names and the values of constants; of factors it only says if they are 1.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from compiler.lowering.record import AnyWork, ChainNode, ChainWork, SequenceWork, Step, Work
from compiler.operators import OPERATORS
from compiler.operators.record import Call

Signature = tuple[Any, ...]


def signature(work: AnyWork, target: Target) -> Signature:
    """A value that is equal for works that differ only in names and values of constants.

    It consists of plain values, so that its text is complete.
    """
    return (*_work(work, {}), (target.tiles, target.spm_bytes, target.compute.token))


_CALLS: WeakKeyDictionary[AnyWork, tuple[Signature, ...]] = WeakKeyDictionary()
"""The signatures of the calls of a work and of its steps; cached, since a work is a stage of many stacks."""


def _calls(work: AnyWork) -> tuple[Signature, ...]:
    known = _CALLS.get(work)
    if known is None:
        call, steps = (work.call, work.steps) if isinstance(work, Work) else (None, ())
        of_steps = (_call(step.call, step.operands) for step in steps)
        known = _CALLS[work] = (_call(_without_factors(work.op, call), work.inputs), *of_steps)
    return known


def _work(work: AnyWork, names: dict[str, int]) -> Signature:
    call, *calls = _calls(work)
    steps = work.steps if isinstance(work, Work) else ()
    return (
        work.op,
        call,
        tuple(_tensor(tensor, names) for tensor in work.inputs),
        _tensor(work.output, names),
        isinstance(work, Work) and work.channels_last,
        _parameters(work, names),
        tuple(_step(step, called, names) for step, called in zip(steps, calls, strict=True)),
    )


def _parameters(work: AnyWork, names: dict[str, int]) -> Signature:
    """Properties that only some works have, by name; all works of a stack number their tensors together."""
    parameters: Signature = ()
    if isinstance(work, Work) and work.compute is not None:
        parameters += (("compute", _plain(work.compute)),)
    if isinstance(work, ChainWork):
        parameters += (("nodes", tuple(_plain(_without_tensors(node)) for node in work.nodes)),)
    if isinstance(work, Work) and work.orders is not None:
        parameters += (("orders", _plain(work.orders)),)
    if isinstance(work, SequenceWork):
        parameters += (("stages", tuple(_work(stage, names) for stage in work.stages)),)
    if work.others:
        parameters += (("others", tuple(names[tensor.symbol] for tensor in work.others)),)
    return parameters


def _without_tensors(node: ChainNode) -> ChainNode:
    """A node of a chain without the values of its operands, except numbers, which are in the code.

    Of factors it only has if they are 1.
    """
    call = _without_factors(node.op, node.call)
    if call is None:
        return node
    inputs = OPERATORS[node.op].inputs if node.op in OPERATORS else ()
    known: list[Array | None] = []
    for at, value in enumerate(call.values):
        if value is None or at >= len(node.operands):
            known.append(value)
        elif at < len(inputs) and inputs[at].factor and value.size == 1:
            known.append(np.asarray(value == 1.0))
        else:
            known.append(None if value.size > 1 else value)
    return dataclasses.replace(node, call=dataclasses.replace(call, values=tuple(known)))


def template_key(work_signature: Signature) -> str:
    """A hash of a signature that is the same in every run."""
    return hashlib.sha256(repr(work_signature).encode()).hexdigest()[:32]


def _step(step: Step, call: Signature, names: dict[str, int]) -> Signature:
    return (step.op, call, tuple(_tensor(tensor, names) for tensor in step.operands), step.running)


def _tensor(tensor: DdrTensor | None, names: dict[str, int]) -> Signature:
    """A tensor with its number among those of the work, because using one tensor twice is not the same as
    using two tensors of the same type."""
    if tensor is None:
        return ()
    number = names.setdefault(tensor.symbol, len(names))
    return (number, tensor.fmt.token, tensor.shape, tensor.value is not None, tensor.blocked)


def _without_factors(op: str, call: Call | None) -> Call | None:
    """A call whose factors are replaced by 0, 1, or a mark for any other number."""
    operator = OPERATORS.get(op)
    if call is None or operator is None:
        return call
    given = {each.name: call.number(each.name) for each in operator.attributes if each.factor}
    factors = {name: value if value in (0.0, 1.0) else -1.0 for name, value in given.items()}
    return dataclasses.replace(call, attrs={**call.attrs, **factors}) if factors else call


def _call(call: Call | None, tensors: tuple[DdrTensor | None, ...]) -> Signature:
    """Attributes, types, shapes, and the values of operands that are not tensors at run time."""
    if call is None:
        return ()
    values = [
        _plain(value) if value is not None and (at >= len(tensors) or tensors[at] is None) else None
        for at, value in enumerate(call.values)
    ]
    inputs = [None if t is None else (t.dtype, t.shape) for t in call.inputs]
    return (call.opset, _plain(dict(call.attrs)), _plain(inputs), tuple(values))


def _plain(value: Any) -> Any:
    """A value in a form whose ``repr`` is complete."""
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes().hex())
    if isinstance(value, Call):
        return _call(value, ())
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value):
        return tuple((f.name, _plain(getattr(value, f.name))) for f in dataclasses.fields(value))
    if isinstance(value, dict):
        return tuple(sorted((name, _plain(entry)) for name, entry in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_plain(entry) for entry in value)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise TypeError(f"a work cannot be compared by {value!r}")
