"""Pass ``import``: the graph as a module, an operation for every node."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from .base import Context
from .graph_operations import put_graph


class ImportPass:
    """Fills an empty module."""

    name = "import"

    def run(self, context: Context, module: ModuleOp) -> None:
        put_graph(context, module)
