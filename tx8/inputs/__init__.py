"""The values that callers give to programs, as the programs take them.

``arrays`` matches arrays and trees to named inputs, ``chips`` does so on several chips, and ``quantising``
chooses formats from samples.
"""
