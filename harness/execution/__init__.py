"""Running: where a case lies in memory, its launches, and batches on the fast path."""
