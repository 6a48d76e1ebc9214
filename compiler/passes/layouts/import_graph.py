"""Pass ``import``: the graph becomes a module with one operation per node."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from compiler.passes.base import Context
from compiler.passes.graph_operations import put_graph


class ImportPass:
    """Fills the empty module."""

    name = "import"

    def run(self, context: Context, module: ModuleOp) -> None:
        put_graph(context, module)
