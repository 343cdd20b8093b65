"""Calls over HTTP that wait as long as a busy machine may need; httpx itself gives up after five seconds."""

from __future__ import annotations

from functools import partial

import httpx

from tests.support.waiting import WAIT_SECONDS

get = partial(httpx.get, timeout=WAIT_SECONDS, trust_env=False)
post = partial(httpx.post, timeout=WAIT_SECONDS, trust_env=False)
client = partial(httpx.AsyncClient, timeout=WAIT_SECONDS, trust_env=False)
