"""Single words of the emulator's tables and queues, by host address.

Addresses are passed around instead of arrays: an array is seven arguments in machine code.
"""

from __future__ import annotations

from emulator.native.primitives.memory import load_word, store_word

get, put = load_word, store_word
