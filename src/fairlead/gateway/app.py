"""The HTTP listener as one FastAPI application: admin interface, links, health, metrics, the page.

In: an open cluster, its links and listeners, its apply connections. Out: answers in the original's envelope.
"""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, Response

from fairlead import __version__
from fairlead.gateway import forward_routes, metrics, records_routes, transfer_routes
from fairlead.gateway.apply import routes as apply_routes
from fairlead.gateway.apply import socket as apply_socket
from fairlead.gateway.apply.http_protocol import TakesForwards
from fairlead.gateway.apply.socket import ApplyGateway
from fairlead.gateway.links import control_routes
from fairlead.gateway.links.manager import LinkManager
from fairlead.gateway.pulling import answering, compared, serving
from fairlead.gateway.rest import routes
from fairlead.gateway.rest.clock import holds
from fairlead.gateway.rest.cluster import describe
from fairlead.gateway.rest.context import RestContext
from fairlead.gateway.rest.health import health_of
from fairlead.gateway.rest.stream import page_rows
from fairlead.gateway.takeovers import answering as standing
from fairlead.listening.errors import add_errors
from fairlead.listening.guard import Guard
from fairlead.web.docs import render_docs
from fairlead.web.page import SHOWN_MAX, render_page

ABOUT = "Admin interface of one cluster. Parameters as in `fairlead stream …`; see docs/guides/rest.md."


def build_app(
    context: RestContext,
    links: LinkManager,
    apply: ApplyGateway,
    guard: Guard,
    forwards: TakesForwards | None = None,
) -> FastAPI:
    """The whole application for one cluster; `links` has those whose source is here, `apply` the connections that bring
    frames for its replicas, and `forwards` takes those by which replicas pass writes on. `guard` stands before all of
    it."""
    app = FastAPI(title="Fairlead", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.cluster = context.cluster
    app.state.links = links
    app.state.apply = apply
    app.state.guard = guard
    app.state.pull_room = serving.Room()
    app.state.forwards = forwards
    app.add_middleware(guard.wrap)
    app.include_router(routes.build(context))
    for routing in (
        control_routes,
        apply_socket,
        apply_routes,
        transfer_routes,
        answering,
        compared,
        standing,
        forward_routes,
        records_routes,
    ):
        app.include_router(routing.router)
    _add_pages(app, context, apply)
    add_errors(app, context.cluster.clock, "/docs lists what there is")
    return app


def _add_pages(app: FastAPI, context: RestContext, apply: ApplyGateway) -> None:
    @app.get("/health", tags=["server"], summary="ok, degraded with the reasons, or 503 if nothing is served")
    async def health() -> JSONResponse:
        found = health_of(context)
        body = {
            "status": found.status,
            "cluster": context.cluster.name,
            "reasons": found.reasons,
            "stopped": found.stopped,
            "expiryheld": holds(context),
            "replicator": found.replicator,
        }
        return JSONResponse(body, status_code=200 if found.serves else 503)

    @app.get("/metrics", tags=["server"], summary="Numbers for Prometheus")
    async def numbers() -> Response:
        return Response(await metrics.render(context, apply.counts), media_type=metrics.CONTENT_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render_docs(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(render_page(describe(context), page_rows(context, SHOWN_MAX), context.links.rows()))
