"""Chooses the formats of a network: the cheapest ones whose loss is within the limit.

``float_network`` runs a network in a format of floats and finds the values that it cannot hold; ``choice``
compares formats.
"""

from .choice import Allowed, automatic
from .float_network import held_wide

__all__ = ["Allowed", "automatic", "held_wide"]
