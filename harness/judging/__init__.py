"""Judging: whether two outcomes are the same, what differs first, and who stands alone."""
