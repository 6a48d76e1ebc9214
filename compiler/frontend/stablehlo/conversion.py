"""Converts the other forms of a module to MLIR's generic form: the pretty form, bytecode, functions of JAX.

This needs jaxlib, which is not a dependency of tx8: ``pip install jax``.
"""

from __future__ import annotations

import re
from typing import Any

from compiler.graph import GraphError

from .text import SourceModule, parsed

_MISSING = "needs JAX: pip install jax"


def of_text(text: str, source: str) -> SourceModule:
    """Read a text in the pretty form. GraphError without jaxlib, and for any other text."""
    return _converted(_libraries(source, "reading StableHLO in its pretty form"), text, source)


def of_bytecode(data: bytes, source: str) -> SourceModule:
    """Read MLIR's bytecode: a portable artifact of StableHLO. GraphError as in ``of_text``."""
    return _converted(_libraries(source, "reading a portable artifact of StableHLO"), data, source)


def of_lowered(lowered: Any, name: str) -> SourceModule:
    """Return the module of a function that was lowered by JAX, or exported by ``jax.export``."""
    if hasattr(lowered, "mlir_module"):
        return of_text(str(lowered.mlir_module()), name)
    return _generic(lowered.compiler_ir("stablehlo"), name)


def _libraries(source: str, what: str) -> tuple[Any, Any, Any]:
    """Return MLIR of jaxlib, its dialect StableHLO, and JAX's context for both."""
    try:
        from jax._src.interpreters.mlir import make_ir_context
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as error:
        missing = error.name or str(error)
        raise GraphError([f"{source}: {what} {_MISSING} ({missing} is not installed)"]) from None
    return ir, stablehlo, make_ir_context


def _converted(libraries: tuple[Any, Any, Any], content: str | bytes, source: str) -> SourceModule:
    ir, stablehlo, make_context = libraries
    try:
        with make_context() as context:
            if isinstance(content, bytes) and b"StableHLO" in content[:64]:
                module = stablehlo.deserialize_portable_artifact(context, content)
            else:
                module = ir.Module.parse(content, context)
            return _generic(module, source)
    except GraphError:
        raise
    except Exception as error:  # MLIR raises errors of its own classes
        raise GraphError([f"{source}: not a module of StableHLO: {first_line(error)}"]) from None


def _generic(module: Any, source: str) -> SourceModule:
    """Print a module of MLIR in the generic form and parse it."""
    text = module.operation.get_asm(print_generic_op_form=True)
    return parsed(text, source, _origins(module.operation), _argument_names(module))


def _origins(operation: Any) -> list[str]:
    """Return the origin of each operation, from the outermost inwards, in the order of the text."""
    found = [_origin(str(operation.location))]
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                found += _origins(inner.operation)
    return found


def _origin(location: str) -> str:
    """Shorten ``loc("jit(f)/add"("f"("file.py":3:5)))`` to ``jit(f)/add, file.py:3``."""
    name = re.match(r'loc\("([^"]*)"(?!:)', location)
    files = re.findall(r'"([^"]+)":(\d+)', location)
    parts = [] if name is None else [name[1]]
    if files:
        file, line = files[0]
        parts.append(f"line {line}" if file == "-" else f"{file}:{line}")
    return ", ".join(parts) or "at a place that is not recorded"


def _argument_names(module: Any) -> list[str]:
    """Return the names that JAX gave the arguments of main; empty if an argument has none."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and str(op.attributes["sym_name"]) == '"main"':
            arguments = op.regions[0].blocks[0].arguments
            found = [re.match(r'loc\("([^"]*)"(?!:)', str(item.location)) for item in arguments]
            return [name[1] for name in found if name is not None]
    return []


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that is not empty."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)
