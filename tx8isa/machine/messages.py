"""Texts of messages about a machine description: the value found, and the values allowed."""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

from msgspec import UnsetType


def kind(annotation: Any) -> Any:
    """The type under ``Annotated``, or the type itself."""
    annotation = needed(annotation)
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def allowed(annotation: Any) -> str:
    """Describe the values a key may have: the range of its Meta, or the literals."""
    annotation = needed(annotation)
    found_kind = kind(annotation)
    if get_origin(found_kind) is tuple:
        return "an array of integers"
    if found_kind not in (int, float, str):
        return " or ".join(repr(choice) for choice in get_args(found_kind))
    if found_kind is str:
        return "a non-empty string"
    limits = [meta for meta in annotation.__metadata__ if meta.ge is not None]
    low, high, step = limits[0].ge, limits[0].le, limits[0].multiple_of
    text = f"{'an integer' if found_kind is int else 'a number'} from {number(low)} to {number(high)}"
    return f"{text}, a multiple of {number(step)}" if step else text


def found(value: object) -> str:
    """Write a TOML value as short text."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value)
    return repr(value)


def number(value: float) -> str:
    """Write a number; sizes and addresses in hexadecimal."""
    return f"{value:#x}" if isinstance(value, int) and value >= 4096 else repr(value)


def needed(annotation: Any) -> Any:
    """Strip the words for an optional key from its type."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    return next(kind for kind in get_args(annotation) if kind is not UnsetType)
