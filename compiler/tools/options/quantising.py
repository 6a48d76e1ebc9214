"""The options of tx8cc that quantise a network of floats, or choose its formats."""

from __future__ import annotations

import argparse

_OF_CALIBRATION = ("calibration", "no_bias_correction", "equalise", "smooth")
_OF_CHOICE = ("max_loss", "metric", "formats", "save_formats")


def add_quantising_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that turn a network of floats into one of bytes (docs/quantisation.md)."""
    add = parser.add_argument_group("quantising, with --dtype int8 or auto").add_argument
    add(
        "--calibrate",
        metavar="FILE.npz",
        help="samples of the inputs, an array for each: their runs say which ranges bytes have to stand for",
    )
    add(
        "--calibration",
        metavar="METHOD",
        help="how ranges are chosen: minmax, percentile, percentile:99.9, entropy or mse (default: mse)",
    )
    add("--no-bias-correction", action="store_true", help="leave the mean error of weights in the results")
    add("--equalise", action="store_true", help="give the weights on both sides of a value equal ranges")
    add(
        "--smooth",
        type=_share,
        nargs="?",
        const=0.5,
        metavar="SHARE",
        help="move so much of the spread of channels from values into weights (SmoothQuant; default: 0.5)",
    )
    add(
        "--max-loss",
        type=_loss,
        metavar="0.5%",
        help="keep the fewest nodes out of bytes with which no more is lost, of the cosine of the outputs or "
        "of --metric",
    )
    add("--metric", metavar="FILE.py:FUNCTION", help="a function of outputs by name, larger for better ones")
    add("--formats", metavar="FILE.json", help="take the formats of nodes from a file, edited or not")
    add("--save-formats", metavar="FILE.json", help="write the formats of nodes, and what they cost and win")


def check_quantising(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with a usage error for options of quantising that do not go together."""
    for name in (*_OF_CALIBRATION, *_OF_CHOICE):
        given = getattr(options, name) not in (None, False)
        if given and name in _OF_CHOICE and options.dtype != "auto" and not options.calibrate:
            parser.error(f"--{name.replace('_', '-')} needs --calibrate or --dtype auto")
        if given and name in _OF_CALIBRATION and not options.calibrate:
            parser.error(f"--{name.replace('_', '-')} needs --calibrate")
        if given and options.dtype not in ("int8", "auto"):
            parser.error(f"--{name.replace('_', '-')} needs --dtype int8 or auto")
    if options.metric is not None and not all(options.metric.rpartition(":")[::2]):
        parser.error(f"argument --metric: '{options.metric}' is not FILE.py:FUNCTION")


def _loss(text: str) -> float:
    """Parse a share: 0.5% or 0.005."""
    share = _number(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0.0 <= share <= 1.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share such as 0.5%, from 0% to 100%")
    return share


def _share(text: str) -> float:
    share = _number(text)
    if not 0.0 <= share <= 1.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 1")
    return share


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
