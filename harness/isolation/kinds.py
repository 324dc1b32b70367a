"""The kinds of deaths that the harness itself gives, and those that are nobody's fault."""

from __future__ import annotations

HANG = "hang"
OUT_OF_MEMORY = "out of memory"
KILLED = "killed"
"""By a signal that nobody here sent."""
UNLOADED = "not loaded"
"""Before the target was loaded."""
SHORT = "short of memory"
"""For want of memory that is not the target's doing."""

NOBODYS = (KILLED, UNLOADED, SHORT)
"""They say nothing about a case."""
