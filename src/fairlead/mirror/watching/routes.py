"""The HTTP application of a mirror: a page, metrics, status, and what pauses and resumes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from fairlead import __version__
from fairlead.listening.errors import add_errors
from fairlead.listening.guard import Guard
from fairlead.mirror.watching import metrics
from fairlead.mirror.watching.looking import Looking
from fairlead.mirror.watching.status import FlowStatus, Watched, status_of
from fairlead.model.clock import Clock
from fairlead.model.envelope import envelope
from fairlead.model.errors import NotFound
from fairlead.web.mirror_page import render_mirror

HINT: Final = (
    "there are /, /metrics, /health, /rest/mirror/status, and by POST /rest/mirror/pause and /rest/mirror/resume"
)

REASONS_MAX: Final = 100


def build_app(flows: Sequence[Watched], looking: Looking, clock: Clock, guard: Guard) -> FastAPI:
    """The application of these flows; `guard` stands before all of it."""
    app = FastAPI(title="Fairlead mirror", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.guard = guard
    app.add_middleware(guard.wrap)
    add_errors(app, clock, HINT)

    def now() -> list[FlowStatus]:
        return [status_of(flow, looking, clock) for flow in flows]

    def rows() -> list[dict[str, Any]]:
        return [_row(status) for status in now()]

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(render_mirror(__version__, rows()))

    @app.get("/metrics")
    async def numbers() -> Response:
        return Response(metrics.render(now()), media_type=metrics.CONTENT_TYPE)

    @app.get("/health")
    async def health() -> JSONResponse:
        found = now()
        reasons = [f"{flow.label}: {each}" for flow in found for each in _wrong(flow)][:REASONS_MAX]
        return JSONResponse({"status": "degraded" if reasons else "ok", "reasons": reasons})

    @app.get("/rest/mirror/status")
    async def status() -> JSONResponse:
        return JSONResponse(envelope(rows(), clock.wall_ms()))

    @app.post("/rest/mirror/pause")
    async def pause(request: Request, flow: str | None = None) -> Response:
        return told(request, flow, paused=True)

    @app.post("/rest/mirror/resume")
    async def resume(request: Request, flow: str | None = None) -> Response:
        return told(request, flow, paused=False)

    def told(request: Request, label: str | None, *, paused: bool) -> Response:
        chosen = [flow for flow in flows if label in (None, flow.label)]
        if not chosen:
            raise NotFound(f"flow {label!r}: there are {', '.join(flow.label for flow in flows)}")
        for flow in chosen:
            flow.pause(paused)
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/", status_code=303)
        names = [{"flow": flow.label, "state": "paused" if paused else "running"} for flow in chosen]
        return JSONResponse(envelope(names, clock.wall_ms()))

    return app


def _wrong(status: FlowStatus) -> Iterator[str]:
    if status.failed is not None:
        yield f"it has ended: {status.failed}"
    yield from status.waits
    yield from status.failing
    yield from (f"{what}: {why}" for what, why in sorted(status.stops.items()))


def _row(status: FlowStatus) -> dict[str, Any]:
    """As REST tells it and the page shows it: with the sums of each topic."""
    row = asdict(status)
    for told, topic in zip(row["topics"], status.topics, strict=True):
        told |= {
            "lag": topic.lag,
            "lagbytes": topic.lag_bytes(topic.lag),
            "lagseconds": topic.lag_seconds,
            "held": topic.held,
            "gone": topic.gone,
            "stopped": topic.stopped,
        }
    return row
