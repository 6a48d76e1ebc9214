"""The lexer of Pygments for assembly: ``pygmentize -l tx8 prog.s`` (docs/editors.md)."""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, default
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Token, Whitespace

from .rules import STATEMENT, TextRule, states

TOKENS: dict[str, Any] = {
    "blank": Whitespace,
    "comment": Comment.Single,
    "label": Name.Label,
    "symbol": Name.Constant,
    "directive": Keyword.Pseudo,
    "engine": Keyword,
    "core": Name.Function,
    "macro": Name.Function.Magic,
    "parameter": Name.Variable.Magic,
    "operand": Name.Attribute,
    "register": Name.Variable,
    "word": Name.Builtin,
    "type": Keyword.Type,
    "function": Name.Builtin.Pseudo,
    "number": Number,
    "character": String.Char,
    "name": Name,
    "operator": Operator,
    "punctuation": Punctuation,
    "wrong": Token.Error,
}
"""The token of each kind of text."""


def _rule(rule: TextRule) -> tuple[Any, ...]:
    tokens = [TOKENS[kind] for kind in rule.kinds]
    found = tokens[0] if len(tokens) == 1 else bygroups(*tokens)
    return (rule.pattern, found, rule.operands) if rule.operands else (rule.pattern, found)


def _tables() -> dict[str, list[tuple[Any, ...]]]:
    """Return the states of ``rules`` in the form of Pygments, with states for comments and strings."""
    comment = (r"/\*", Comment.Multiline, "comment")
    found: dict[str, list[tuple[Any, ...]]] = {
        "comment": [(r"[^*]+|\*(?!/)", Comment.Multiline), (r"\*/", Comment.Multiline, "#pop")],
        "string": [
            (r"\\(?:x[0-9a-fA-F]+|[0-7]{1,3}|[^\n])", String.Escape),
            (r'[^"\\\n]+', String.Double),
            (r'"', String.Double, "#pop"),
            default("#pop"),  # the end of the line
        ],
    }
    for state, rules in states().items():
        begins = state == STATEMENT
        ends = ((r"\n", Whitespace), (";", Punctuation))
        found["root" if begins else state] = [
            *(end if begins else (*end, "#pop") for end in ends),
            comment,
            (r'"', String.Double, "string"),
            *map(_rule, rules),
        ]
    return found


class Tx8Lexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Assembly of the TX8: the kernel core, engine instructions, and the assembler's directives."""

    name = "TX8 assembly"
    aliases: ClassVar = ["tx8"]
    filenames: ClassVar = ["*.tx8.s"]
    tokens: ClassVar = _tables()
