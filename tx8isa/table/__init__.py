"""The records of all instructions as one table: collected, proved, encoded, documented.

Whoever needs an instruction by name or by bytes asks here.
"""
