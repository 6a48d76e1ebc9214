"""Draw the pictures of the documents that show runs.

python docs/draw.py            write them to docs/pictures
python docs/draw.py --check    exit status 1 when one is not what the runs say
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from drawing import animation, group, modes, pipeline, ring_of_chips, second_run, slow, trace

FOLDER = Path(__file__).parent / "pictures"
PICTURES: dict[str, Callable[[], str]] = {
    "dte_modes.svg": modes.draw,
    "group_tiles.svg": group.draw,
    "pipeline.svg": pipeline.draw,
    "ring_of_chips.svg": ring_of_chips.draw,
    "ring_of_tiles.svg": animation.draw,
    "second_run.svg": second_run.draw,
    "trace.svg": trace.draw,
    **{picture.file: partial(slow.draw, picture) for picture in slow.PICTURES},
}


def main(arguments: list[str]) -> int:
    """Write or check the pictures; the exit status."""
    check = arguments[:1] == ["--check"]
    names = arguments[check:] or list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        print(f"draw.py: no picture {unknown[0]}; there are {', '.join(PICTURES)}", file=sys.stderr)
        return 2
    stale = False
    for name in names:
        path, drawn = FOLDER / name, PICTURES[name]()
        if not check:
            path.write_text(drawn, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != drawn:
            print(f"{name} is not what the runs say: run python docs/draw.py {name}", file=sys.stderr)
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
