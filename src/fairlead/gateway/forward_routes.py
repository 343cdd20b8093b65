"""HTTP of the gateway for replicas that pass writes on, as far as it is HTTP: whoever does not leave it is told why.

GET /gateway/forward    Upgrade: fairlead-forward; `apply/http_protocol.py` takes those connections over
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from fairlead.wire.forward import hello_of
from fairlead.wire.upgrade import FORWARD_PATH, FORWARD_TOKEN

router = APIRouter()


@router.get(FORWARD_PATH, include_in_schema=False)
async def forward(request: Request) -> Response:
    """Answers a caller that asks for something else than to leave HTTP, or asks wrongly."""
    hello_of(request.scope["query_string"])
    message = f"{FORWARD_PATH} is for a cluster that passes writes on, which leaves HTTP by `Upgrade: {FORWARD_TOKEN}`"
    return JSONResponse({"error": message}, 426, {"Connection": "Upgrade", "Upgrade": FORWARD_TOKEN})
