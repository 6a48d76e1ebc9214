"""Write the headers and the library of the tables, or print a member's signature (docs/crt.md).

python -m tx8isa.c.tsm                    rewrite them
python -m tx8isa.c.tsm --check            exit status 1 when a file is not what the records say
python -m tx8isa.c.tsm --where            print the folders of the headers and of the library's sources
python -m tx8isa.c.tsm TsmArith.AddVV     print the signature of a member and the formats it takes
"""

from __future__ import annotations

import sys

from tx8isa.errors import Tx8Error
from tx8isa.tools.files import write_together

from .members import Member, Table
from .pages import HEADERS, LIBRARY, texts
from .tables import find

USAGE = "usage: python -m tx8isa.c.tsm [--check | --where | TABLE.MEMBER ...]"


def described(table: Table, member: Member) -> str:
    """Describes the parameters of a member, in two lines."""
    status = "published" if member.published else "proposed"
    first = f"{table.name}.{member.name}({member.signature})"
    if member.record is None:
        return f"{first}\n    {member.packet.name}, with other members; signature {status}"
    formats = " ".join(f.token for f in member.record.formats) or "none to choose"
    return f"{first}\n    {member.record.mnemonic}; formats: {formats}; signature {status}"


def check() -> int:
    """Compare the files with the records; return status 1 if one differs."""
    stale = [p.name for p, text in texts().items() if not p.exists() or p.read_text("utf-8") != text]
    for name in stale:
        print(f"{name} differs from the records: run python -m tx8isa.c.tsm", file=sys.stderr)
    return 1 if stale else 0


def main(arguments: list[str]) -> int:
    """Execute the command of the arguments; Tx8Error for a member that does not exist."""
    if arguments == ["--check"]:
        return check()
    if arguments == ["--where"]:
        print(f"{HEADERS}\n{LIBRARY}")
        return 0
    if any(argument.startswith("-") for argument in arguments):
        print(USAGE, file=sys.stderr)
        return 2
    for name in arguments:
        print(described(*find(name)))
    if not arguments:
        write_together({path: [text.encode()] for path, text in texts().items()})
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Tx8Error as error:
        sys.exit(f"tsm: error: {error}")
