"""Functions of JAX: traced with example arguments, lowered or exported, with the trees of their arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.evaluation.survey import Survey
from compiler.graph import Graph, GraphError

from .conversion import first_line, of_lowered


@dataclass(frozen=True)
class JaxFunction:
    """A function that JAX has lowered or exported. ``name`` is what messages call it."""

    lowered: Any
    name: str

    def graph(self, survey: Survey | None = None) -> Graph:
        """Return the graph of the function; ``survey`` as for ``load_stablehlo``."""
        from .importer import graph_of_module

        source = of_lowered(self.lowered, self.name)
        return graph_of_module(source, re.sub(r"\W+", "_", self.name).strip("_") or "jitted", survey)

    @property
    def arguments(self) -> Any:
        """Return the tree of the arguments: a tuple of positional and a dictionary of keyword arguments."""
        return self.lowered.in_tree

    @property
    def results(self) -> Any:
        """Return the tree of the results."""
        return self.lowered.out_tree

    def leaves_with_inputs(self) -> list[int]:
        """Return the leaves of the arguments that are inputs of the graph, in the order of the inputs.

        JAX drops unused leaves, and no input is empty.
        """
        if hasattr(self.lowered, "module_kept_var_idx"):
            kept, shapes = self.lowered.module_kept_var_idx, [each.shape for each in self.lowered.in_avals]
        else:
            import jax

            # JAX has no public name for it; jax.export reads it here as well.
            kept = self.lowered._lowering.compile_args["kept_var_idx"]
            shapes = [each.shape for each in jax.tree_util.tree_leaves(self.lowered.args_info)]
        return [leaf for leaf in sorted(kept) if 0 not in shapes[leaf]]


def open_jax(function: Any, examples: Sequence[Any]) -> JaxFunction:
    """Lower a function by JAX with example arguments, arrays or ``jax.ShapeDtypeStruct``.

    A function that is traced, lowered or exported already needs none. A plain function is given to
    ``jax.jit``. GraphError without JAX, and for a function that it cannot trace.
    """
    name = str(getattr(function, "__name__", None) or getattr(function, "fun_name", "jitted"))
    if hasattr(function, "compiler_ir") or hasattr(function, "mlir_module"):
        return JaxFunction(function, name)
    if not callable(function) and not hasattr(function, "lower"):
        wanted = "expected a function, what jax.jit returns, or its lower()"
        raise GraphError([f"{type(function).__name__} of JAX; {wanted}"])
    try:
        jitted = function if hasattr(function, "lower") else import_jax(name).jit(function)
        return JaxFunction(jitted.lower(*(() if hasattr(jitted, "jaxpr") else examples)), name)
    except GraphError:
        raise
    except Exception as error:  # JAX raises errors of many classes, and those of the function itself
        how = "with these examples" if examples else "without examples of its arguments"
        raise GraphError([f"{name}: JAX cannot trace it {how}: {first_line(error)}"]) from None


def import_jax(source: str) -> Any:
    """Import JAX; GraphError tells how to install it."""
    try:
        import jax
    except ImportError as error:
        missing = f"({error.name or error} is not installed)"
        raise GraphError([f"{source}: tracing a function needs JAX: pip install jax {missing}"]) from None
    return jax
