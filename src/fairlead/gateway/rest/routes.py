"""The routes of `/rest`: made from the table of commands, with their part of the OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from fairlead.client.catalog import COMMANDS
from fairlead.client.command import CLUSTERS, Command, Param
from fairlead.gateway.rest.context import RestContext, Rows
from fairlead.gateway.rest.handlers import HANDLERS
from fairlead.gateway.rest.long_json import rendered
from fairlead.model.envelope import envelope, error_envelope
from fairlead.model.errors import InvalidValue

Endpoint = Callable[[Request], Awaitable[Response]]


def build(context: RestContext) -> APIRouter:
    """A route for every command, and one that refuses its wrong method."""
    router = APIRouter()
    for command in COMMANDS:
        router.add_api_route(
            command.path,
            _endpoint(command, context),
            methods=[command.method],
            tags=[" ".join(command.noun)],
            summary=command.what,
            operation_id="_".join((*command.noun, command.verb)),
            openapi_extra=_openapi(command),
        )
        wrong = "GET" if command.changes else "POST"
        router.add_api_route(command.path, _refusal(command, context), methods=[wrong], include_in_schema=False)
    return router


def _endpoint(command: Command, context: RestContext) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        raw = await _parameters(request)
        rows = await _run(command, context, raw)
        body = await rendered(envelope(rows, context.cluster.clock.wall_ms()))
        return Response(body, media_type="application/json")

    return endpoint


def _refusal(command: Command, context: RestContext) -> Endpoint:
    async def refuse(request: Request) -> Response:
        why = "it changes something" if command.changes else "it changes nothing"
        error = InvalidValue(f"{command.path}: {why}, so call it with {command.method}, not {request.method}")
        body = error_envelope(error, context.cluster.clock.wall_ms())
        return JSONResponse(body, status_code=405, headers={"allow": command.method})

    return refuse


async def _run(command: Command, context: RestContext, raw: Mapping[str, object]) -> Rows:
    """Carry a call out here. It is never sent on: the caller asks the cluster that it means."""
    given = command.parse(raw)
    home = command.home_of(given)
    if home is not None:
        context.local(home)
    return await HANDLERS[command.path](context, given)


async def _parameters(request: Request) -> dict[str, object]:
    """Query, form and JSON together; a form is read by hand, it needs no library."""
    found: dict[str, object] = dict(request.query_params)
    if request.method == "GET":
        return found
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return found | dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    return found | _json_object(body)


def _json_object(body: bytes) -> dict[str, object]:
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"the body is neither JSON nor a form: {error}") from error
    if not isinstance(found, dict):
        raise InvalidValue("the body is not a JSON object of parameters")
    return found


# ---------------------------------------------------------------- OpenAPI

_TYPES = {"number": "integer", "boolean": "boolean"}


def _openapi(command: Command) -> dict[str, Any]:
    if not command.changes:
        parameters = [_parameter(param) for param in command.params]
        return {"parameters": parameters}
    properties = {param.name: _schema(param) for param in command.params}
    properties[CLUSTERS] = {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
        "description": "HTTP addresses of the other clusters that the call names",
    }
    required = [param.name for param in command.params if param.required]
    schema = {"type": "object", "properties": properties, "required": required}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": bool(required), "content": {kind: {"schema": schema} for kind in kinds}}}


def _parameter(param: Param) -> dict[str, Any]:
    return {"name": param.name, "in": "query", "required": param.required, "schema": _schema(param)}


def _schema(param: Param) -> dict[str, Any]:
    default = "" if param.default is None else f" (default: {param.default})"
    return {"type": _TYPES.get(param.kind, "string"), "description": param.what + default}
