"""What a command prints: tables for people, plain ones into a pipe, the envelope with `-json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

from fairlead.model.shown import shown

TableRow = Mapping[str, Any]


def print_json(value: Any) -> None:
    """JSON, indented for a terminal, in one line otherwise."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_rows(rows: Sequence[TableRow], columns: Sequence[str]) -> None:
    """A table of the named columns; without names each row is shown as lines of name and value."""
    if not rows:
        print("(none)")
    elif columns:
        _print_table([tuple(_cell(row.get(name)) for name in columns) for row in rows], columns)
    else:
        for number, row in enumerate(rows):
            if number:
                print()
            _print_table([(name, _cell(value)) for name, value in row.items()], ())


def print_error(message: str) -> None:
    """One line on standard error."""
    print(f"fairlead: {shown(' '.join(message.split()))}", file=sys.stderr)


def _print_table(rows: Sequence[tuple[str, ...]], columns: Sequence[str]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console

        # Text of others is no markup: `[a-z]+` would be left out, `[/b]` be an error.
        Console(markup=False, emoji=False, highlight=False).print(_rich_table(rows, columns))
        return
    lines = [tuple(columns), *rows] if columns else list(rows)
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _rich_table(rows: Sequence[tuple[str, ...]], columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=bool(columns), header_style="bold")
    for name in columns or ("name", "value"):
        table.add_column(name, overflow="fold", style="" if columns or name == "value" else "bold")
    for row in rows:
        table.add_row(*row)
    return table


def _cell(value: Any) -> str:
    return shown(_text(value))


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if value else ""
