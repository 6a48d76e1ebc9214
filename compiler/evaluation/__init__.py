"""What a graph means: its types and shapes, its values, and how far a result may be off.

Everything follows from the operators' records.
"""
