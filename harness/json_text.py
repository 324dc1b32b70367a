"""JSON for people and diffs: indented, but what fits on a line stays on it."""

from __future__ import annotations

import json
import textwrap

Plain = dict[str, "Plain"] | list["Plain"] | str | int | float | bool | None

WIDTH = 100
INDENT = "  "


def json_text(value: Plain) -> str:
    """The value as JSON in lines of up to WIDTH columns where strings allow; ends with a newline.

    A list of numbers fills lines instead of taking one for each.
    """
    return _layout(value, "", WIDTH) + "\n"


def _layout(value: Plain, indent: str, room: int) -> str:
    """``value`` in JSON, its first line within ``room`` where possible."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= room or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + INDENT
    if isinstance(value, dict):
        open_, close, parts = "{", "}", [_member(key, value[key], inner) for key in value]
    elif all(isinstance(item, int) for item in value):
        filled = textwrap.fill(line[1:-1], WIDTH, initial_indent=inner, subsequent_indent=inner)
        return f"[\n{filled}\n{indent}]"
    else:
        open_, close, parts = "[", "]", [_layout(item, inner, WIDTH - len(inner)) for item in value]
    return open_ + "\n" + ",\n".join(inner + part for part in parts) + "\n" + indent + close


def _member(key: str, value: Plain, indent: str) -> str:
    name = json.dumps(key, ensure_ascii=False) + ": "
    return name + _layout(value, indent, WIDTH - len(indent) - len(name))
