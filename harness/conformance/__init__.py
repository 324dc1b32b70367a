"""The conformance test: what a target lacks, in plain words."""
