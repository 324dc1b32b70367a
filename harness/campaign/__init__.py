"""Campaigns: from settings over workers and shards to a run folder with its summary."""
