"""Disposable processes for code that may crash, hang, or write anywhere."""
