"""Prints the worst error of every elementary function.

    python tests/support/kernels/exact_report.py [PATTERNS]

All patterns of FP16 and BF16; of FP32 and TF32 about PATTERNS (default 100,000), half of them random.
"""

from __future__ import annotations

import sys

from tx8isa.numbers.formats import FLOATS
from unary_cases import LIMITS, worst_ulps


def main(patterns: int) -> None:
    print(f"{'function':10}" + "".join(f"{fmt.token:>22}" for fmt in FLOATS) + "   (ulp, at)")
    for name in LIMITS:
        cells = (worst_ulps(name, fmt, patterns) for fmt in FLOATS)
        print(f"{name:10}" + "".join(f"{worst:11.6f} {at:#10x}" for worst, at in cells))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
