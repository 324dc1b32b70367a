"""Findings: shrunk, written as reproducers and scripts, and held against the ledger."""
