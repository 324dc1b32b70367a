"""The campaign as a test: without options the pull-request mode, deterministic."""

from __future__ import annotations

from typing import Any


def test_campaign(kv_shard: Any) -> None:
    kv_shard.run()
