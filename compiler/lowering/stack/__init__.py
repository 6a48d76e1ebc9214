"""Stacks of convolutions and pools in one phase."""
