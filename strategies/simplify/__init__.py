"""Simplification: the order of cases, and the passes that make a failing case simple."""
