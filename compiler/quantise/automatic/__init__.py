"""Chooses the formats of a network by itself: the cheapest ones that lose no more than is allowed.

``float_network`` runs a network in a format of floats and finds what that cannot hold, ``choice`` compares.
"""

from .choice import Allowed, automatic
from .float_network import held_wide

__all__ = ["Allowed", "automatic", "held_wide"]
