"""The file of a trace: events are appended while the program runs, the file appears when it is complete.

Chrome's trace event format, in its form as a JSON object: ``traceEvents`` is the list of events.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tx8isa.errors import Tx8Error
from tx8isa.tools.files import GrowingFile, failure_named

SEPARATOR = ",\n"
"""The text between two events."""
_LEVEL = 3
"""Compression level: a trace shrinks to a twentieth; higher levels take longer than all other work."""


_MOST_PROCESSES = 1000
"""Process numbers of a chip in a trace of several chips: more than a chip has tiles."""
_PIECE = 1 << 20
"""Letters of a part that are copied at a time."""
_NUMBERED = re.compile('"(pid|id)":([0-9]+)')


class TraceFile:
    """A trace that grows under a temporary name. A path that ends in ``.gz`` is compressed.

    Tx8Error when nothing can be written there. A write that fails later raises nothing, because the run
    continues: ``error`` has the message, and the file is dropped.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.error: str | None = None
        self._growing = GrowingFile(self.path)
        with failure_named(self.path):
            self._raw = self._growing.open()
        self._stream: Any = self._raw
        if self.path.name.endswith(".gz"):
            # without name and time the same trace has the same bytes
            self._stream = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0)
        self._before = '{"displayTimeUnit":"ns","traceEvents":[\n'
        self._open_now = True

    def add(self, events: Iterable[str]) -> None:
        """Append events, each the text of a JSON object, or of several with ``SEPARATOR`` between them."""
        text = SEPARATOR.join(events)
        if text:
            self._write(self._before + text)
            self._before = SEPARATOR

    def add_pieces(self, pieces: Iterable[str]) -> None:
        """Append events whose text comes in pieces that begin and end anywhere."""
        before = self._before
        for piece in pieces:
            self._write(before + piece)
            before, self._before = "", SEPARATOR

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
            self._growing.keep()
        except (OSError, Tx8Error) as error:
            self._fail(error)

    def abandon(self) -> None:
        """Drop a file that is not complete."""
        with contextlib.suppress(OSError):  # a full disk has been reported already
            self._close()
        self._growing.drop()

    def _write(self, text: str) -> None:
        if not self._open_now:
            return
        try:
            self._stream.write(text.encode())
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError | Tx8Error) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        self.error = f"{self.path}: the trace is lost: {reason or error}"
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
    """The part of one of several chips in a trace; its processes and arrows have separate numbers.

    Until all parts are joined, it is kept in a temporary file without a name, in the trace's folder if there
    is one.
    """

    def __init__(self, path: str | Path, chip: int, chips: int) -> None:
        folder = Path(path).parent
        place = folder if folder.is_dir() else None
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="", dir=place)  # noqa: SIM115
        self._path, self._chip, self._chips, self._empty = path, chip, chips, True
        self.summary: Mapping[str, Any] = {}
        self.error: str | None = None

    def add(self, events: Iterable[str]) -> None:
        """Append events of the chip."""
        text = SEPARATOR.join(events)
        self.add_numbered([_NUMBERED.sub(self._renumbered, text)] if text else [])

    def add_numbered(self, events: Iterable[str]) -> None:
        """Append events whose processes have the numbers of the whole trace."""
        text = SEPARATOR.join(events)
        if text:
            self._write(text if self._empty else SEPARATOR + text)
            self._empty = False

    def add_pieces(self, pieces: Iterable[str]) -> None:
        """Append the text of a part that was kept elsewhere; all pieces are read, even after an error."""
        for piece in pieces:
            self._write(piece)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Keep the summary of this part; the whole file is completed by its maker."""
        self.summary = summary

    def abandon(self) -> None:
        """Drop the part."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, text: str) -> None:
        if self.error:
            return
        try:
            self._file.write(text)
        except OSError as error:
            self.error = f"{self._path}: the trace is lost: {error.strerror or error}"

    def pieces(self) -> Iterator[str]:
        """Yield the events, in pieces."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece

    def _renumbered(self, found: re.Match[str]) -> str:
        kind, number = found[1], int(found[2])
        if kind == "pid":
            return f'"pid":{self._chip * _MOST_PROCESSES + number}'
        return f'"id":{number * self._chips + self._chip}'
