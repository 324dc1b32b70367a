"""Targets: what offers the two launchers, and the targets that come with the project."""
