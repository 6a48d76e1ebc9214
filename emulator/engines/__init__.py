"""Engine instructions from issue to execution: decoded, checked, queued, executed in a permitted order.

The code handles one tile, and does not read program text.
"""
