"""The page at `/docs`: every route with its parameters, as plain HTML made from the OpenAPI description.

It needs no script and no file from elsewhere: it works on a ship, and gives nobody a place in the browser of an admin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fairlead.web.html import document

_STYLE = """
h2 { margin: 2rem 0 0; font-size: 1rem } p { margin: .2rem 0 }
td { padding: .1rem 1rem .1rem 0; vertical-align: top }
"""


def render_docs(description: Mapping[str, Any]) -> str:
    """HTML of an OpenAPI description."""
    title = escape(str(description["info"]["title"]))
    routes = "".join(
        _route(method, path, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    )
    body = (
        f"<h1>{title}</h1><p>{escape(str(description['info']['description']))}</p>"
        f'<p>For programs: <a href="/openapi.json">OpenAPI</a></p>{routes}'
    )
    return document(f"{title}: routes", body, style=_STYLE)


def _route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{kind}{'' if needed else ', optional'}</td>"
        f"<td>{escape(what)}</td></tr>"
        for name, kind, needed, what in _parameters(operation)
    )
    heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
    return f"{heading}<p>{escape(str(operation.get('summary', '')))}</p><table>{rows}</table>"


def _parameters(operation: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Name, kind, whether it must be given, meaning: of the query and of the body."""
    for each in operation.get("parameters", ()):
        yield _parameter(each["name"], each["schema"], needed=each["required"])
    kinds = operation.get("requestBody", {}).get("content", {})
    for schema in [kind["schema"] for kind in kinds.values()][:1]:
        for name, found in schema["properties"].items():
            yield _parameter(name, found, needed=name in schema["required"])


def _parameter(name: str, schema: Mapping[str, Any], *, needed: bool) -> tuple[str, str, bool, str]:
    return name, escape(str(schema.get("type", ""))), needed, str(schema.get("description", ""))
