"""Tensor functions: the orders of multiplication, the views, moments, and the planner.

They are pure but for `Moments`, which collects, and `use_constants`, which is for the process.
"""
