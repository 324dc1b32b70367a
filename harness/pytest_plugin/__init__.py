"""The pytest plugin: campaigns and reproducers as tests."""
