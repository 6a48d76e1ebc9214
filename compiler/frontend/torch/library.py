"""PyTorch itself: imported if it is installed, silent, with errors of one line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compiler.graph import GraphError


def import_torch(source: str) -> Any:
    """Import PyTorch; GraphError tells how to install it."""
    try:
        import onnxscript  # noqa: F401  (PyTorch's exporter is written in it)
        import torch
        import torch.export
        import torch.onnx
    except ImportError as error:
        wanted = (
            f"reading it needs PyTorch: pip install torch onnxscript ({error.name or error} is not installed)"
        )
        raise GraphError([f"{source}: {wanted}"]) from None
    return torch


@contextmanager
def silence() -> Iterator[None]:
    """Suppress the messages of PyTorch."""
    loggers = [
        logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export", "onnxscript")
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def cause_of(error: BaseException) -> str:
    """Return the innermost error's text, since outer ones describe the exporter's steps, and a remedy."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = first_line(error)
    fast = any(name in text for name in _FAST_PATHS)
    return f"{text}; call torch.backends.mha.set_fastpath_enabled(False)" if fast else text


_FAST_PATHS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
"""Operators that replace a whole layer in PyTorch if nothing needs a gradient."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that is not empty."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)
