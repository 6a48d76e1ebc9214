"""The Language Server Protocol: turns requests of an editor into calls of ``language``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from asm.diagnostics import Diagnostic
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine
from tx8isa.tools.version import VERSION

from .language.answers import completions, hover
from .language.memory import Memory
from .language.places import Place, definition, renamable, renamed
from .language.text import Reading, read
from .rest import Rest

_KINDS = {
    "engine": lsp.CompletionItemKind.Function,
    "core": lsp.CompletionItemKind.Function,
    "directive": lsp.CompletionItemKind.Keyword,
    "macro": lsp.CompletionItemKind.Snippet,
    "operand": lsp.CompletionItemKind.Field,
    "register": lsp.CompletionItemKind.Variable,
    "word": lsp.CompletionItemKind.EnumMember,
    "name": lsp.CompletionItemKind.Reference,
}
_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}
_MARKED = re.compile(r"[\w.$]+|.")


class AssemblyServer(LanguageServer):
    """A server for the assembly texts that an editor has open."""

    def __init__(self, machine: Machine, folders: Sequence[str]) -> None:
        super().__init__("tx8-lsp", VERSION)
        self.memory, self.folders, self.rest = Memory(machine), folders, Rest()
        self._readings: dict[str, Reading] = {}
        self._told: dict[str, set[str]] = {}
        """The addresses of the files with diagnostics, by the text that includes them."""
        for name, answer in _FEATURES.items():
            options = _COMPLETION if name == lsp.TEXT_DOCUMENT_COMPLETION else None
            self.feature(name, _RENAME if name == lsp.TEXT_DOCUMENT_RENAME else options)(answer)

    def reading(self, uri: str) -> Reading:
        """Assemble the newest text of a document."""
        text = self.workspace.get_text_document(uri).source
        known = self._readings.get(uri)
        if known is None or known.text != text:
            known = self._readings[uri] = read(text, _path(uri), self.memory, self.folders)
        return known

    def publish(self, uri: str) -> None:
        """Send the mistakes and warnings of a document and of the files that it includes."""
        reading = self.reading(uri)
        by_uri: dict[str, list[Diagnostic]] = {uri: [], **{old: [] for old in self._told.get(uri, ())}}
        for told in reading.told:
            by_uri.setdefault(uri if told.file == reading.name else _uri(told.file), []).append(told)
        self._told[uri] = {other for other, found in by_uri.items() if found}
        for other, found in by_uri.items():
            diagnostics = [self._diagnostic(reading, told) for told in found]
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(other, diagnostics))

    def close(self, uri: str) -> None:
        """Forget a document and clear its diagnostics."""
        self._readings.pop(uri, None)
        for other in self._told.pop(uri, set()):
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(other, []))

    def _diagnostic(self, reading: Reading, told: Diagnostic) -> lsp.Diagnostic:
        number, start = told.line - 1, told.column - 1
        own = told.file == reading.name and number < len(reading.written)
        line = reading.written[number] if own else told.source
        marked = _MARKED.match(line, start)
        place = self.range_of(line, number, start, marked.end() if marked is not None else start)
        text = "\n".join((told.message, *told.notes))
        return lsp.Diagnostic(place, text, severity=_SEVERITIES[told.kind], source="tx8as")

    def range_of(self, line: str, number: int, start: int, end: int) -> lsp.Range:
        """Convert a part of a line to the editor's units."""
        units = self.workspace.position_codec.client_num_units
        return lsp.Range(*(lsp.Position(number, units(line[:at])) for at in (start, end)))

    def cursor(
        self, document: lsp.TextDocumentIdentifier, position: lsp.Position
    ) -> tuple[Reading, int, int]:
        """Return the reading, line and column of a request."""
        reading = self.reading(document.uri)
        place = self.workspace.position_codec.position_from_client_units(reading.written, position)
        return reading, place.line, place.character


def _path(uri: str) -> str:
    """The path of a file; a text without a file keeps its address as its name."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _uri(path: str) -> str:
    return Path(path).resolve().as_uri()


def _opened(server: AssemblyServer, params: lsp.DidOpenTextDocumentParams) -> None:
    server.publish(params.text_document.uri)
    server.rest.opened()


def _changed(server: AssemblyServer, params: lsp.DidChangeTextDocumentParams) -> None:
    server.publish(params.text_document.uri)
    server.rest.typed()


def _closed(server: AssemblyServer, params: lsp.DidCloseTextDocumentParams) -> None:
    server.close(params.text_document.uri)


def _hover(server: AssemblyServer, params: lsp.HoverParams) -> lsp.Hover | None:
    reading, line, column = server.cursor(params.text_document, params.position)
    found = hover(reading, line, column)
    if found is None:
        return None
    word, text = found
    place = server.range_of(reading.written[line], line, word.start, word.end)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), place)


def _complete(server: AssemblyServer, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    return [
        lsp.CompletionItem(found.text, kind=_KINDS[found.kind], detail=found.detail or None)
        for found in completions(*server.cursor(params.text_document, params.position))
    ]


def _define(server: AssemblyServer, params: lsp.DefinitionParams) -> lsp.Location | None:
    reading, line, column = server.cursor(params.text_document, params.position)
    place = definition(reading, line, column)
    if place is None:
        return None
    uri = params.text_document.uri if place.file == reading.name else _uri(place.file)
    return lsp.Location(uri, _range(server, reading, place))


def _range(server: AssemblyServer, reading: Reading, place: Place) -> lsp.Range:
    line = reading.written[place.line] if place.file == reading.name else " " * place.end
    return server.range_of(line, place.line, place.start, place.end)


def _prepare(server: AssemblyServer, params: lsp.PrepareRenameParams) -> lsp.Range:
    reading, line, column = server.cursor(params.text_document, params.position)
    with _refusals():
        word = renamable(reading, line, column)
    return server.range_of(reading.written[line], line, word.start, word.end)


def _rename(server: AssemblyServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    reading, line, column = server.cursor(params.text_document, params.position)
    with _refusals():
        places = renamed(reading, line, column, params.new_name, server.memory, server.folders)
    edits = [lsp.TextEdit(_range(server, reading, place), params.new_name) for place in places]
    return lsp.WorkspaceEdit({params.text_document.uri: edits})


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert a Tx8Error to an error of the protocol, which the editor shows."""
    try:
        yield
    except Tx8Error as error:
        raise JsonRpcInvalidParams(str(error)) from None


_COMPLETION = lsp.CompletionOptions(trigger_characters=[".", "=", ",", " "])
_RENAME = lsp.RenameOptions(prepare_provider=True)
_FEATURES: dict[str, Callable[..., Any]] = {
    lsp.TEXT_DOCUMENT_DID_OPEN: _opened,
    lsp.TEXT_DOCUMENT_DID_CHANGE: _changed,
    lsp.TEXT_DOCUMENT_DID_CLOSE: _closed,
    lsp.TEXT_DOCUMENT_HOVER: _hover,
    lsp.TEXT_DOCUMENT_COMPLETION: _complete,
    lsp.TEXT_DOCUMENT_DEFINITION: _define,
    lsp.TEXT_DOCUMENT_PREPARE_RENAME: _prepare,
    lsp.TEXT_DOCUMENT_RENAME: _rename,
}
