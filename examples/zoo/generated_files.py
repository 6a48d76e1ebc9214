"""Make small files of known types: formats that Python writes, and sources in many languages.

Texts are composed from words with a seed, so that files differ from each other but are the same everywhere.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import plistlib
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sources import SOURCES

_WORDS = (
    *("time", "person", "year", "way", "day", "thing", "man", "world", "life", "hand", "part", "child"),
    *("eye", "woman", "place", "work", "week", "case", "point", "company", "number", "group", "problem"),
    *("fact", "river", "stone", "garden", "window", "letter", "market", "winter", "summer"),
)


def generated() -> Iterator[tuple[str, bytes, str]]:
    """Name, content and type, by Magika's names, of every file."""
    for kind, template in SOURCES:
        for number in range(2):
            yield f"{kind}{number}", _filled(template, number).encode(), kind
    for kind, make in _WRITERS.items():
        yield kind, make(np.random.default_rng(len(kind))), kind


def _filled(template: str, number: int) -> str:
    """A source with names and numbers of its own, and its last lines repeated so that it is long enough."""
    random = np.random.default_rng(number)
    text = template
    for place in range(9):
        word = _WORDS[int(random.integers(len(_WORDS)))]
        text = text.replace(f"NAME{place}", word).replace(f"NUM{place}", str(int(random.integers(2, 99))))
    return text


def _prose(random: np.random.Generator, sentences: int) -> str:
    return " ".join(
        " ".join(random.choice(_WORDS, size=int(random.integers(5, 12)))).capitalize() + "."
        for _ in range(sentences)
    )


def _csv(random: np.random.Generator) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["id", "name", "price", "count"])
    rows.writerows(
        [at, str(random.choice(_WORDS)), f"{random.uniform(1, 99):.2f}", int(random.integers(50))]
        for at in range(80)
    )
    return text.getvalue().encode()


def _json(random: np.random.Generator) -> bytes:
    items = [{"id": at, "name": str(random.choice(_WORDS)), "tags": [at, None, True]} for at in range(40)]
    return json.dumps({"items": items, "total": 40}, indent=2).encode()


def _zip(random: np.random.Generator) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for at in range(5):
            archive.writestr(f"notes/{at}.dat", random.bytes(900))
    return data.getvalue()


def _tar(random: np.random.Generator) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for at in range(3):
            content = _prose(random, 30).encode()
            info = tarfile.TarInfo(f"notes/{at}.txt")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


def _png(random: np.random.Generator) -> bytes:
    size = 48
    rows = b"".join(b"\0" + random.bytes(3 * size) for _ in range(size))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _bmp(random: np.random.Generator) -> bytes:
    size, pixels = 32, random.bytes(32 * 32 * 3)
    header = struct.pack("<IiiHHIIiiII", 40, size, size, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + header + pixels


def _wav(random: np.random.Generator) -> bytes:
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        tone = 8000 * np.sin(np.arange(4000) / 7) + random.normal(0, 50, 4000)
        file.writeframes(tone.astype("<i2").tobytes())
    return data.getvalue()


def _sqlite(random: np.random.Generator) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        base = sqlite3.connect(path)
        base.execute("create table person (id integer primary key, name text, age integer)")
        rows = [(str(random.choice(_WORDS)), int(random.integers(99))) for _ in range(60)]
        base.executemany("insert into person (name, age) values (?, ?)", rows)
        base.commit()
        base.close()
        return path.read_bytes()


def _pdf(random: np.random.Generator) -> bytes:
    text = "\n".join(f"BT /F1 11 Tf 50 {750 - 20 * at} Td ({_prose(random, 1)}) Tj ET" for at in range(25))
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources "
        "<< /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(text)} >>\nstream\n{text}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, places = "%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {len(parts) + 1}\n0000000000 65535 f \n{table}{end}".encode()


_WRITERS = {
    "csv": _csv,
    "json": _json,
    "txt": lambda random: _prose(random, 120).encode(),
    "zip": _zip,
    "tar": _tar,
    "gzip": lambda random: gzip.compress(_prose(random, 200).encode(), mtime=0),
    "bzip": lambda random: bz2.compress(_prose(random, 200).encode()),
    "xz": lambda random: lzma.compress(_prose(random, 200).encode()),
    "png": _png,
    "bmp": _bmp,
    "wav": _wav,
    "sqlite": _sqlite,
    "pdf": _pdf,
    "applebplist": lambda random: plistlib.dumps(
        {str(word): _prose(random, 2) for word in _WORDS}, fmt=plistlib.FMT_BINARY
    ),
}
"""The function that writes a file of each type."""
