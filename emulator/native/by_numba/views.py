"""Views of raw memory as a type of Numba: an address, with elements of one type.

An array of Numba is seven words, which functions pass on, and it counts references. A view is one word, is
read and written by one instruction, and an index is not tested for being negative.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import extending as numba_extending
from numba import types as numba_types

types: Any = numba_types
extending: Any = numba_extending


class ViewType(types.Type):  # type: ignore[misc]
    """Numba's type of a view with elements of type ``dtype``."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"View({dtype})")


@extending.register_model(ViewType)
class _ViewModel(extending.models.PrimitiveModel):  # type: ignore[misc]
    """A view is its address, as a pointer to its elements."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_data_type().as_pointer())


def _type_read(context: Any) -> Any:
    def typer(view: Any, index: Any) -> Any:
        return view.dtype if _has_element(view, index) else None

    return typer


def _type_write(context: Any) -> Any:
    def typer(view: Any, index: Any, value: Any) -> Any:
        return types.none if _has_element(view, index) and _holds(view.dtype, value) else None

    return typer


def _has_element(view: Any, index: Any) -> bool:
    return isinstance(view, ViewType) and isinstance(index, types.Integer)


def _holds(element: Any, value: Any) -> bool:
    """Return True if an element takes a value: an integer the low bits of one, a float any other, rounded."""
    if isinstance(element, types.Integer):
        return isinstance(value, types.Integer | types.Boolean)
    return isinstance(value, types.Float)


def _read(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    view, index = values
    place = builder.gep(view, [context.cast(builder, index, signature.args[1], types.int64)])
    return context.unpack_value(builder, signature.args[0].dtype, place, 1)


def _write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    (kind, index_kind, given), (view, index, value) = signature.args, values
    place = builder.gep(view, [context.cast(builder, index, index_kind, types.int64)])
    context.pack_value(builder, kind.dtype, context.cast(builder, value, given, kind.dtype), place, 1)
    return context.get_dummy_value()


extending.type_callable(operator.getitem)(_type_read)
extending.type_callable(operator.setitem)(_type_write)
extending.lower_builtin(operator.getitem, ViewType, types.Integer)(_read)
extending.lower_builtin(operator.setitem, ViewType, types.Integer, types.Any)(_write)
