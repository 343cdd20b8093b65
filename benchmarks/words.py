"""Numbers and tables as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: float) -> str:
    """Three digits that matter: 1,234,567 or 84.3 or 0.52."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns in line; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the heading."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]])
