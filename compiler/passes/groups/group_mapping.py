"""Pass ``group_mapping``: groups that differ only in names and values of constants get one template number.

A template is searched once, and the decision holds for all its groups.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue

from compiler.dialect.ops import GroupOp
from compiler.passes.base import Context, operations
from compiler.passes.work import target_of, unaliased, work_of
from compiler.search import Template, signature, template_key


class GroupMappingPass:
    """Writes the template number of every group, and leaves the templates in the context."""

    name = "group_mapping"

    def run(self, context: Context, module: ModuleOp) -> None:
        numbers: dict[str, int] = {}
        counts: list[int] = []
        context.templates = []
        for operation in operations(module):
            if isinstance(operation, GroupOp):
                template = template_of(context, operation)
                number = numbers.setdefault(template.key, len(numbers))
                if number == len(context.templates):
                    context.templates.append(template)
                    counts.append(0)
                counts[number] += 1
                operation.attributes["template"] = IntegerAttr(number, i64)
        context.templates = [
            replace(template, count=count) for template, count in zip(context.templates, counts, strict=True)
        ]


def template_of(context: Context, group: GroupOp) -> Template:
    """The template of a group; its tensors get numbers in place of names.

    A value and the same value in another shape are one memory, and have one number.
    """
    names: dict[SSAValue, str] = {}

    def symbol(value: SSAValue) -> str:
        return names.setdefault(unaliased(value), f"v.{len(names)}")

    work, target = work_of(context, group, symbol), target_of(context)
    return Template(template_key(signature(work, target)), work, target)
