"""Explaining: why a finding is one, as values that are stored and drawn."""
