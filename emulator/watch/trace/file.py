"""The file of a trace: events are appended while the program runs, the file appears when it is complete.

Chrome's trace event format, in its form as a JSON object: ``traceEvents`` is the list of events.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from tx8isa.errors import Tx8Error

SEPARATOR = ",\n"
"""Text between two events."""
_LEVEL = 3
"""Compression level: a trace shrinks to a twentieth; higher levels take longer than all other work."""


_MOST_PROCESSES = 1000
"""Process numbers of a chip in a trace of several: more than a chip has tiles."""
_NUMBERED = re.compile('"(pid|id)":([0-9]+)')


class TraceFile:
    """A trace that grows under a temporary name. A path that ends in ``.gz`` is compressed.

    Tx8Error when nothing can be written there. A write that fails later raises nothing, because the run goes
    on: ``error`` says what happened, and the file is dropped.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.error: str | None = None
        self._temporary: Path | None = None
        try:
            self._raw = self._open()
        except OSError as error:
            raise Tx8Error(f"{self.path}: cannot be written: {error.strerror}") from None
        self._stream: Any = self._raw
        if self.path.name.endswith(".gz"):
            # without name and time the same trace has the same bytes
            self._stream = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0)
        self._before = '{"displayTimeUnit":"ns","traceEvents":[\n'
        self._open_now = True

    def _open(self) -> BinaryIO:
        if self.path.exists() and not self.path.is_file():  # a pipe or device: there is nothing to rename
            return self.path.open("wb")
        name = f".{self.path.name[:100]}.{os.getpid()}"
        self._temporary = self.path.parent / name
        return os.fdopen(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), "wb")

    def add(self, events: Iterable[str]) -> None:
        """Append events, each the text of a JSON object, or of several with ``SEPARATOR`` between them."""
        text = SEPARATOR.join(events)
        if text:
            self._write(self._before + text)
            self._before = SEPARATOR

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Complete the file, with a summary of the run, and rename it; a second call does nothing."""
        if not self._open_now:
            return
        before = self._before.removesuffix(SEPARATOR)
        self._write(f'{before}\n],"otherData":{json.dumps(summary, ensure_ascii=False)}}}\n')
        if not self._open_now:
            return
        try:
            self._close()
            if self._temporary:
                self._temporary.replace(self.path)
                self._temporary = None
        except OSError as error:
            self._fail(error)

    def abandon(self) -> None:
        """Drop a file that is not complete."""
        with contextlib.suppress(OSError):  # a full disk has been reported already
            self._close()
        if self._temporary:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    def _write(self, text: str) -> None:
        if not self._open_now:
            return
        try:
            self._stream.write(text.encode())
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.error = f"{self.path}: the trace is lost: {error.strerror or error}"
        self.abandon()

    def _close(self) -> None:
        if self._open_now:
            self._open_now = False
            try:
                if self._stream is not self._raw:
                    self._stream.close()
            finally:
                self._raw.close()


class PartOfTrace:
    """The part of one of several chips in a trace: its processes and arrows have numbers of their own."""

    def __init__(self, whole: TraceFile, chip: int, chips: int) -> None:
        self._whole, self._chip, self._chips = whole, chip, chips
        self.summary: Mapping[str, Any] = {}

    @property
    def error(self) -> str | None:
        """The error of the whole file."""
        return self._whole.error

    def add(self, events: Iterable[str]) -> None:
        """Append events, as to the whole file."""
        text = SEPARATOR.join(events)
        if text:
            self._whole.add((_NUMBERED.sub(self._renumbered, text),))

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Keep the summary of this part; the whole file is completed by who has made it."""
        self.summary = summary

    def abandon(self) -> None:
        """Does nothing: who has made the whole file drops it."""

    def _renumbered(self, found: re.Match[str]) -> str:
        kind, number = found[1], int(found[2])
        if kind == "pid":
            return f'"pid":{self._chip * _MOST_PROCESSES + number}'
        return f'"id":{number * self._chips + self._chip}'
