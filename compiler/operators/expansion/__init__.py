"""Operators written as graphs of simpler ones.

A :class:`builder.Builder` collects the nodes, ``parts`` has building blocks for expansions, and
:func:`composite.composite` makes a record from an expansion.
:func:`expander.expand_graph` replaces the nodes of a graph by their expansions.
"""
