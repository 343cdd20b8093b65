"""Errors as answers, in the original's envelope. A bug answers a one-line error and is written to the log; nothing here
ever answers with a traceback."""

from __future__ import annotations

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from fairlead.model.clock import Clock
from fairlead.model.envelope import error_envelope, http_status
from fairlead.model.errors import FairleadError, NotFound

_log = structlog.get_logger(__name__)


def add_errors(app: FastAPI, clock: Clock, hint: str) -> None:
    """Let the application answer so; `hint` tells where to look for what there is."""

    @app.exception_handler(FairleadError)
    async def known(request: Request, error: FairleadError) -> JSONResponse:
        return JSONResponse(error_envelope(error, clock.wall_ms()), status_code=http_status(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        what = NotFound(f"{request.method} {request.url.path}: {error.detail}; {hint}")
        return JSONResponse(error_envelope(what, clock.wall_ms()), status_code=error.status_code)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> JSONResponse:
        _log.error("a bug behind the HTTP listener", path=request.url.path, exc_info=error)
        what = FairleadError(
            f"{request.url.path}: a bug ({type(error).__name__}: {error}); the server's log tells more"
        )
        return JSONResponse(error_envelope(what, clock.wall_ms()), status_code=500)
