"""Engine instructions from issue to execution: decoded, checked, queued, executed in a permitted order.

It knows one tile and no program text.
"""
