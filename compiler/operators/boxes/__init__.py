"""The parts of the operands that a part of a result is computed from.

``forms`` has the rules that records of several families share, and ``reshaping`` the parts of tensors whose
elements keep their order. ``propagation`` goes backwards through nodes. ``divisions`` finds the axes along
which a call can be divided.
"""
