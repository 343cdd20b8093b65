"""The page of a mirror: its flows, their topics, and what stands still, as plain HTML made on the server.

It asks for itself again every few seconds, and needs neither a script nor any other file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final
from urllib.parse import quote

from fairlead.model.ages import age
from fairlead.web.html import document
from fairlead.web.page import REFRESH_SECONDS, STYLE

TOPICS_MAX: Final = 1_000
"""Of a flow on the page: those that stand still or are behind first."""
_MORE: Final = (("/metrics", "metrics"), ("/rest/mirror/status", "status as JSON"), ("/health", "health"))
_HEAD: Final = (
    '<tr><th>topic</th><th>to</th><th class="number">records</th><th class="number">MB</th>'
    '<th class="number">behind</th><th class="number">MB</th><th>for</th>'
    '<th class="number">in open transactions</th><th class="number">lost</th><th>batches</th><th>stopped</th></tr>'
)


def render_mirror(version: str, flows: Sequence[Mapping[str, Any]]) -> str:
    """HTML of the flows; each as `/rest/mirror/status` tells it."""
    more = " · ".join(f"<a href={escape(url)!r}>{text}</a>" for url, text in _MORE)
    body = f"<h1>Mirror</h1><p>version {escape(version)}</p>{''.join(map(_flow, flows))}<h2>More</h2><p>{more}</p>"
    return document("Mirror · Fairlead", body, style=STYLE, refresh_seconds=REFRESH_SECONDS)


def _flow(flow: Mapping[str, Any]) -> str:
    topics = sorted(flow["topics"], key=lambda topic: (not topic["stopped"], not topic["lag"], topic["topic"]))
    left_out = f" · left out: {flow['looped']:,} that had come from the destination, {flow['aborted']:,} aborted"
    lost = f' · <span class="wrong">lost {flow["lost"]:,}</span>' if flow["lost"] else ""
    records = sum(topic["records"] for topic in topics)
    return (
        f"<h2>{escape(flow['label'])}</h2><p>{escape(flow['state'])} · {records:,} records{left_out}{lost}</p>"
        f"{_wrong(flow)}{_table(topics)}{_notes(flow['notes'])}"
    )


def _wrong(flow: Mapping[str, Any]) -> str:
    """And the button, if it is of use."""
    failing = [*flow["failing"][:TOPICS_MAX]]
    lines = f"{_lines(flow['waits'], 'waits')}{_lines(failing, 'fails')}{_stops(flow['stops'])}"
    if flow["state"] != "ended":
        return f"{_button(flow)}{lines}"
    return f"{_lines([flow['failed']] if flow['failed'] else [], 'ended')}{lines}"


def _button(flow: Mapping[str, Any]) -> str:
    verb = "resume" if flow["state"] == "paused" else "pause"
    url = f"/rest/mirror/{verb}?flow={quote(flow['label'])}"
    return f'<form method="post" action="{escape(url)}"><button>{verb}</button></form>'


def _lines(lines: Sequence[str], what: str) -> str:
    return "".join(f'<p class="wrong">{what}: {escape(line)}</p>' for line in lines)


def _stops(stops: Mapping[str, str]) -> str:
    lines = [f"{what}: {why}" for what, why in sorted(stops.items())]
    more = [f"{len(lines) - TOPICS_MAX:,} more"] if len(lines) > TOPICS_MAX else []
    return _lines([*lines[:TOPICS_MAX], *more], "stopped")


def _notes(notes: Mapping[str, str]) -> str:
    return "".join(f"<p>{escape(what)}: {escape(note)}</p>" for what, note in sorted(notes.items())[:TOPICS_MAX])


def _table(topics: Sequence[Mapping[str, Any]]) -> str:
    if not topics:
        return "<p>no topics</p>"
    more = f"<p>and {len(topics) - TOPICS_MAX:,} more topics</p>" if len(topics) > TOPICS_MAX else ""
    return f"<table>{_HEAD}{''.join(map(_topic, topics[:TOPICS_MAX]))}</table>{more}"


def _topic(topic: Mapping[str, Any]) -> str:
    batches = ", ".join(f"{count:,} {escape(how)}" for how, count in sorted(topic["batches"].items()))
    behind = topic["lagbytes"]
    numbers = (
        f"{topic['records']:,}",
        f"{topic['bytes'] / 1e6:,.1f}",
        f"{topic['lag']:,}",
        "" if behind is None else f"{behind / 1e6:,.1f}",
    )
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    stopped = f"{topic['stopped']:,} of {len(topic['partitions']):,} partitions" if topic["stopped"] else ""
    return (
        f"<tr><td>{escape(topic['topic'])}</td><td>{escape(topic['to'])}</td>{cells}"
        f"<td>{age(int(topic['lagseconds'])) if topic['lag'] else ''}</td>"
        f'<td class="number">{topic["held"]:,}</td><td class="number">{topic["gone"]:,}</td>'
        f'<td>{batches}</td><td class="wrong">{stopped}</td></tr>'
    )
