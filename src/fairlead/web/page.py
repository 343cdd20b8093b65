"""The page at `/`: the cluster, its addresses, links and streams, as plain HTML made on the server.

It asks for itself again every few seconds, and needs neither a script nor any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from fairlead.model.ages import age
from fairlead.web.html import document

STYLE = """
h2 { margin-top: 2rem; font-size: 1.1rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .8rem .3rem 0 }
th { border-bottom: 2px solid #9fb3c8; font-weight: 600 } td { border-bottom: 1px solid #d9e2ec }
td.number, th.number { text-align: right } .wrong { color: #a61b1b }
@media (prefers-color-scheme: dark) { .wrong { color: #ff9b9b } td { border-color: #334e68 } }
"""
_MORE = (("/docs", "admin interface"), ("/openapi.json", "OpenAPI"), ("/metrics", "metrics"), ("/health", "health"))

REFRESH_SECONDS = 5
SHOWN_MAX = 1000
"""Links on the page, those with an error first, and streams."""


def render_page(
    cluster: Mapping[str, Any], streams: Iterable[Mapping[str, Any]], links: Sequence[tuple[str, Mapping[str, Any]]]
) -> str:
    """HTML of a cluster: a row of `cluster info`, the first of `stream list`, and (path, row of `replica list`)."""
    name = escape(str(cluster["name"]))
    body = (
        f"<h1>{name}</h1>{_wrong(cluster)}"
        f"<p>Kafka {_codes(cluster['kafka'])} · HTTP {_codes(cluster['http'])} · version {escape(cluster['version'])}"
        f" · {cluster['topics']:,} topics · {cluster['links']:,} links · {cluster['connections']:,} connections</p>"
        f"<h2>Links</h2>{_replicator(cluster['replicator'])}{_links(links)}"
        f"<h2>Streams</h2>{_streams(list(streams), cluster['streams'])}"
        f"<h2>More</h2><p>{' · '.join(f'<a href={escape(url)!r}>{text}</a>' for url, text in _MORE)}</p>"
    )
    return document(f"{name} · Fairlead", body, style=STYLE, refresh_seconds=REFRESH_SECONDS)


def _wrong(cluster: Mapping[str, Any]) -> str:
    lines = [*(f"stopped: {line}" for line in cluster["stopped"]), *cluster["upkeep"]]
    return "".join(f'<p class="wrong">{escape(line)}</p>' for line in lines)


def _replicator(now: Mapping[str, Any]) -> str:
    again = f", started again {now['startedagain']:,} times" if now["startedagain"] else ""
    error = f' · <span class="wrong">{escape(str(now["error"]))}</span>' if now["error"] else ""
    return f"<p>Replicator: {escape(now['state'])} for {age(now['seconds'])}{again}{error}</p>"


def _links(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    head = (
        '<tr><th>stream</th><th>replica</th><th>state</th><th class="number">pending</th>'
        '<th class="number">oldest</th><th>error</th></tr>'
    )
    shown = sorted(rows, key=lambda row: not row[1]["errors"])[:SHOWN_MAX]
    table = f"<table>{head}{''.join(_link(path, row) for path, row in shown)}</table>{_more(len(rows) - len(shown))}"
    return table if rows else "<p>none</p>"


def _more(count: int) -> str:
    return f"<p>and {count:,} more</p>" if count > 0 else ""


def _link(path: str, row: Mapping[str, Any]) -> str:
    state = "paused" if row["paused"] else row["replicaState"].removeprefix("REPLICA_STATE_").lower().replace("_", " ")
    if row["conflicts"]:
        state += f", {row['conflicts']:,} partitions set aside"
    oldest = age(row["oldestPendingSeconds"]) if row["putsPending"] else ""
    errors = row["errors"]
    command = f"<br><code>{escape(errors['Command'])}</code>" if errors.get("Command") else ""
    error = f"for {age(errors['Seconds'])}: {escape(errors['Msg'])}{command}" if errors else ""
    return (
        f"<tr><td>{escape(path)}</td><td>{escape(row['replicaPath'])}</td><td>{state}</td>"
        f'<td class="number">{row["putsPending"]:,}</td><td class="number">{oldest}</td>'
        f'<td class="wrong">{error}</td></tr>'
    )


def _codes(values: Sequence[str]) -> str:
    return " ".join(f"<code>{escape(value)}</code>" for value in values)


def _streams(rows: Sequence[Mapping[str, Any]], count: int) -> str:
    head = (
        '<tr><th>path</th><th class="number">topics</th><th class="number">owned here</th><th>time-to-live</th>'
        '<th class="number">replicas</th><th class="number">upstreams</th><th>own listener</th></tr>'
    )
    return f"<table>{head}{''.join(map(_stream, rows))}</table>{_more(count - len(rows))}"


def _stream(row: Mapping[str, Any]) -> str:
    path = str(row["path"])
    topics, links = (
        "".join(f'<td class="number">{row[name]:,}</td>' for name in names)
        for names in (("numtopics", "numowned"), ("numreplicas", "numupstreams"))
    )
    return (
        f'<tr><td><a href="/rest/stream/topic/list?path={quote(path)}">{escape(path)}</a></td>'
        f"{topics}<td>{_duration(row['ttl'])}</td>{links}"
        f"<td>{_codes([row['kafka']] if row['kafka'] else [])}</td></tr>"
    )


def _duration(seconds: int) -> str:
    """A time-to-live for people: `7 days`, `90 s`, `for ever`."""
    if seconds == 0:
        return "for ever"
    days, rest = divmod(seconds, 86_400)
    return f"{days:,} days" if rest == 0 else f"{seconds:,} s"
