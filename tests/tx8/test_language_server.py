"""``tx8-lsp`` over standard input and output, in the messages that an editor writes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("pygls") is None and os.environ.get("CI") != "true":
    pytest.skip("pygls is not installed: pip install pygls", allow_module_level=True)

TEXT = "# \N{MUSICAL SYMBOL G CLEF}\n.equ N, 8\na: ct.relu.v.fp16 dst=0x20000, src0=0, n=N\nret\n"


class Editor:
    """The editor's side of the protocol: a server's process, and requests with their answers."""

    def __init__(self) -> None:
        start = "from tx8_entry.commands import tx8lsp; raise SystemExit(tx8lsp())"
        self.server = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.number = 0
        self.told: dict[str, list[dict[str, Any]]] = {}

    def send(self, method: str, params: Any, **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.server.stdout is not None
        size = 0
        while (line := self.server.stdout.readline()) != b"\r\n":
            assert line, self.server.communicate()[1].decode()
            if line.startswith(b"Content-Length:"):
                size = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self.server.stdout.read(size))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.told[message["params"]["uri"]] = message["params"]["diagnostics"]
        return message

    def ask(self, method: str, params: Any) -> dict[str, Any]:
        """The answer to a request; diagnostics that come before it are kept."""
        self.number += 1
        self.send(method, params, id=self.number)
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                return message

    def diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """The next diagnostics of a document."""
        self.told.pop(uri, None)
        while uri not in self.told:
            self.receive()
        return self.told[uri]


@pytest.fixture
def editor() -> Iterator[Editor]:
    found = Editor()
    yield found
    found.server.kill()
    found.server.communicate()


def test_an_editor_and_the_server(editor: Editor, tmp_path: Path) -> None:
    uri = (tmp_path / "p.s").as_uri()
    answer = editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    able = answer["result"]["capabilities"]
    assert all(able[f"{name}Provider"] for name in ("hover", "completion", "definition", "rename"))
    editor.send("initialized", {})
    document = {"uri": uri, "languageId": "tx8", "version": 1, "text": TEXT}
    editor.send("textDocument/didOpen", {"textDocument": document})
    assert editor.diagnostics(uri) == []

    def at(line: int, column: int, **more: Any) -> dict[str, Any]:
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}, **more}

    def span(line: int, start: int, end: int) -> dict[str, Any]:
        return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}

    assert "NaN gives +0" in editor.ask("textDocument/hover", at(2, 6))["result"]["contents"]["value"]
    items = editor.ask("textDocument/completion", at(2, len("a: ct.relu.v.fp16 ")))["result"]
    assert [item["label"] for item in items] == ["dst=", "src0=", "n="]
    assert editor.ask("textDocument/definition", at(2, 41))["result"] == {"uri": uri, "range": span(1, 5, 6)}
    edit = editor.ask("textDocument/rename", at(2, 41, newName="COUNT"))["result"]["changes"][uri]
    assert [change["range"] for change in edit] == [span(1, 5, 6), span(2, 41, 42)]
    refused = editor.ask("textDocument/rename", at(2, 6, newName="COUNT"))["error"]["message"]
    assert "ct.relu.v.fp16 is an instruction" in refused and "\n" not in refused

    change = {"range": span(2, 41, 42), "text": "2000000"}
    version = {"textDocument": {"uri": uri, "version": 2}}
    editor.send("textDocument/didChange", {**version, "contentChanges": [change]})
    (told,) = editor.diagnostics(uri)
    assert told["message"] == (
        "operand 'dst': 0x20000 and the 4000000 bytes from there leave the SPM of 0x300000 bytes"
    )
    assert told["range"] == span(2, 3, 17)
    change = {"range": span(2, 0, 48), "text": "/* \N{MUSICAL SYMBOL G CLEF} */ nope"}
    editor.send("textDocument/didChange", {**version, "contentChanges": [change]})
    (told,) = editor.diagnostics(uri)
    assert told["range"] == span(2, 9, 13), "columns in the editor's units of UTF-16"
    editor.send("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert editor.diagnostics(uri) == []
    editor.ask("shutdown", None)
    editor.send("exit", None)
    assert editor.server.wait(60) == 0


def test_mistakes_of_an_included_file_are_told_there(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "inc.s").write_text("addx\n")
    uri, other = (tmp_path / "p.s").as_uri(), (tmp_path / "inc.s").as_uri()
    editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    document = {"uri": uri, "languageId": "tx8", "version": 1, "text": 'nop\n.include "inc.s"\n'}
    editor.send("textDocument/didOpen", {"textDocument": document})
    (told,) = editor.diagnostics(other)
    assert told["message"].startswith("unknown instruction 'addx'")
    assert "included at" in told["message"]
    assert editor.told[uri] == []


def test_a_missing_machine_description_is_one_line() -> None:
    start = "from tx8_entry.commands import tx8lsp; raise SystemExit(tx8lsp())"
    run = subprocess.run(
        [sys.executable, "-c", start, "--machine", "no.toml"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("tx8-lsp: ") and run.stderr.count("\n") == 1
