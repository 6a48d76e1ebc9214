"""The tx8be dialect: a graph on its way to the chip."""
