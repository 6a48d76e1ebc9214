"""Which parts of the operands a part of a result is computed from.

``forms`` has what records of several families say, ``reshaping`` the parts of tensors whose elements keep
their order, ``propagation`` goes backwards through nodes, and ``divisions`` finds the axes along which a call
can be divided.
"""
