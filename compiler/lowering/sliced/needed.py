"""The parts of a call's operands that a tile needs for its share of the result, by the operators' records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.evaluation.sizes import Domain, Size, always
from compiler.graph import Array, Shape, Tensor
from compiler.lowering.pointwise.record import POINTWISE
from compiler.lowering.record import LOWERINGS
from compiler.operators import OPERATORS
from compiler.operators.boxes.divisions import Following, followings
from compiler.operators.record import Call
from compiler.operators.windows.geometry import Window

from .tile_share import Needed, Reach, TileShare, Undividable, shape_of_share


def check_lowering(op: str, call: Call, shares: tuple[Needed, ...]) -> None:
    """Undividable if the lowering of an operator does not support the shares of a tile.

    Most lowerings arrange constants when compiling, and that is the same for all tiles.
    """
    for at, (value, share) in enumerate(zip(call.values, shares, strict=True)):
        if value is not None and share is not None and op not in POINTWISE:
            raise Undividable(f"{op} needs all of operand {at}, which is known when compiling")
    entry, shared = LOWERINGS[op], shared_call(op, call, shares)
    problem = entry.check(shared) if entry.check is not None else None
    if problem is not None:
        raise Undividable(f"{op} does not support shares: {problem}")
    if entry.on_core is not None and entry.on_core(shared):
        raise Undividable(f"{op} of shares is computed by the kernel core, which knows no shares")


def needed_shares(op: str, call: Call, shape: Shape, share: TileShare) -> tuple[Needed, ...]:
    """The part of each operand of a call that a tile needs for its share of the result of ``shape``.

    Undividable if the part is neither a share nor all of an operand, or if the operator has another meaning
    on shares, because its attributes have numbers of the whole.
    """
    shares = _operand_shares(op, call, shape, share)
    if share.count > 1 and not any(shares):
        raise Undividable(f"{op} needs its operands whole for a share of axis {share.axis} of its result")
    shared = shared_call(op, call, shares)
    (found, *_), expected = OPERATORS[op].shapes(shared), share.of(shape)
    if found != expected:
        raise Undividable(f"{op} of shares gives {found}, where the share of its result is {expected}")
    _check_rules(op, shared)
    return shares


def _check_rules(op: str, shared: Call) -> None:
    """Undividable if a call on shares breaks a rule of its operator, as with attributes for the whole."""
    domain = _domain(shared)
    calls = [shared] if domain is None else [_at(shared, point) for point in domain.samples()]
    for call in calls:
        for rule in OPERATORS[op].rules:
            if (found := rule.check(call)) is not None:
                raise Undividable(f"{op} of shares breaks a rule: {rule.text}; found {found}")


def _operand_shares(op: str, call: Call, shape: Shape, share: TileShare) -> tuple[Needed, ...]:
    """The shares of the operands.

    All parts begin at multiples of a unit. An operand that does not follow these may follow larger ones. Then
    several tiles have the same share, as of heads of keys if there are fewer than of queries.
    """
    if share.count == 1:
        return (None,) * len(call.inputs)
    shares: dict[int, Needed] = {}
    known = share.reach is None and not isinstance(shape[share.axis], Size)
    unit = math.gcd(share.size, shape[share.axis]) if known else 1
    for same in range(1, share.count if share.even(shape) else 2):
        if share.count % same:
            continue
        for at, following in _followings(op, call, share.axis, unit * same).items():
            if at not in shares and following is not None:
                shares[at] = _operand_share(op, call, at, following, shape, share, unit, same)
            shares.setdefault(at, None)
        if len(shares) == len(call.inputs):
            return tuple(shares[at] for at in sorted(shares))
    missing = min(set(range(len(call.inputs))) - set(shares))
    raise Undividable(
        f"a share of axis {share.axis} of the result of {op} needs no share of operand {missing}"
    )


def _followings(op: str, call: Call, axis: int, unit: int) -> Mapping[int, Following | None]:
    """Return how each operand follows units of a result's axis, equal at all examined points of a range.

    Undividable if points differ.
    """
    domain = _domain(call)
    if domain is None:
        return followings(OPERATORS[op], call, axis, unit)
    found: list[dict[int, Following | None]] = []
    for point in domain.samples():
        known = _at(call, point)
        (shape, *_) = OPERATORS[op].shapes(known)
        if shape[axis] >= _FEWEST_UNITS * unit:
            found.append(followings(OPERATORS[op], known, axis, unit))
    if not found or any(each != found[0] for each in found):
        raise Undividable(f"operands of {op} do not follow axis {axis} of its result alike at all sizes")
    return found[0]


def _domain(call: Call) -> Domain | None:
    """The sizes of a run that the shapes of operands depend on."""
    sizes: list[Any] = [size for tensor in call.inputs if tensor is not None for size in tensor.shape]
    return next((size.domain for size in sizes if isinstance(size, Size)), None)


_FEWEST_UNITS = 4
"""Least units of an axis for which some are at no end."""


def _at(call: Call, point: int) -> Call:
    """A call with the sizes that it has at a point of a range."""

    def known(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(known, value))
        return int(value.values[point]) if isinstance(value, Size) else value

    inputs = tuple(t and replace(t, shape=known(t.shape)) for t in call.inputs)
    values = tuple(
        np.array([known(size) for size in value.reshape(-1)], np.int64).reshape(value.shape)
        if value is not None and value.dtype == object
        else value
        for value in call.values
    )
    attrs = {name: known(value) for name, value in call.attrs.items()}
    return replace(call, inputs=inputs, values=values, attrs=attrs)


def _operand_share(
    op: str, call: Call, at: int, following: Following, shape: Shape, share: TileShare, unit: int, same: int
) -> TileShare:
    """The share of an operand that follows a result; ``same``: number of tiles that have each unit.

    Undividable if windows reach beyond the operand, and the operator does not pad with zeros.
    """
    operand = call.shape(at)
    extent, units = operand[following.axis], shape[share.axis] // (unit * same)
    overlap = following.before != 0 or following.after != 0
    if share.reach is None and not overlap and always(following.step * units == extent):
        return TileShare(following.axis, share.count // same, following.step * (share.size // unit))
    step, rest = divmod(following.step, unit)
    if same > 1 or rest or (overlap and _window_of(op, call) is None):
        raise Undividable(f"shares of axis {following.axis} of {operand} are not all of it, or overlap")
    reach = share.reached(shape)
    found = TileShare(
        following.axis,
        share.count,
        share.size * step + following.before + following.after,
        Reach(reach.pitch * step, reach.last * step, reach.before * step + following.before),
    )
    padded = OPERATORS[op].window is not None and OPERATORS[op].product is None
    if padded and found.exceeds(operand):
        raise Undividable(f"windows of {op} reach beyond axis {following.axis} of {operand}")
    return found


def _window_of(op: str, call: Call) -> Window | None:
    """The windows of an operator if a share can have them; products of bytes have their own padding."""
    record = OPERATORS[op]
    if record.window is None or (record.product is not None and not call.tensor(0).is_float):
        return None
    window: Window = record.window(call)
    return window


def _without_padding(op: str, call: Call, shares: tuple[Needed, ...]) -> Call:
    """The call of windows on a share that already includes the padding."""
    image, window = shares[0], _window_of(op, call)
    if image is None or image.reach is None or window is None:
        return call
    axis = image.axis - 2
    begin, end = (
        tuple(0 if at == axis else pad for at, pad in enumerate(pads))
        for pads in (window.pads_begin, window.pads_end)
    )
    return replace(call, attrs={**call.attrs, "pads": (*begin, *end), "auto_pad": "NOTSET"})


def shared_call(op: str, call: Call, shares: tuple[Needed, ...]) -> Call:
    """A call on a tile's shares of its operands."""
    call = _without_padding(op, call, shares)
    inputs: list[Tensor | None] = []
    values: list[Array | None] = []
    for tensor, value, share in zip(call.inputs, call.values, shares, strict=True):
        inputs.append(None if tensor is None else replace(tensor, shape=shape_of_share(tensor.shape, share)))
        values.append(value if share is None else None)
    return replace(call, inputs=tuple(inputs), values=tuple(values))
