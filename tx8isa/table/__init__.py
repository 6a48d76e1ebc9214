"""The records of all instructions as one table: collected, proved, encoded, documented.

Instructions are looked up here by name or by bytes.
"""
