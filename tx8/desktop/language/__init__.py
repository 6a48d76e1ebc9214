"""Answers to an editor about an assembly text: mistakes, meaning of words, completion, places, renaming.

All answers come from the assembler and the records; ``protocol.py`` beside this folder sends them.
"""
