"""Converts the values that callers pass to the inputs of programs.

``arrays`` matches arrays and trees to named inputs, ``chips`` does so on several chips, and ``quantising``
chooses formats from samples.
"""
