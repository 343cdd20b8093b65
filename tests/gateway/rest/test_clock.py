"""`clock show`, `accept`, and where else a clock that is not believed shows."""

from __future__ import annotations

import re

from tests.gateway.desk import desks
from tests.streamlog.world import DAY_MS, FakeClock

YEAR_MS = 365 * DAY_MS


async def test_a_jump_shows_everywhere_until_it_is_accepted() -> None:
    """`/health` and `cluster info` name it without failing, since nothing is lost by waiting."""
    clock = FakeClock()
    async with desks("sf", clock=clock) as (desk,):
        await desk.post("stream/create", path="/s")
        clock.wall += YEAR_MS
        clock.pass_ms(60_000)
        rows = {row["path"]: row for row in await desk.get("clock/show")}
        assert rows["/s"]["expiry"] == "held"
        assert rows["/s"]["clockaheadmillis"] == YEAR_MS
        assert (rows["/s"]["heldmillis"], rows["/s"]["leftmillis"]) == (0, DAY_MS)
        clock.pass_ms(3_600_000)
        health = await desk.http.get(f"{desk.url}/health")
        assert (health.status_code, health.json()["status"]) == (200, "ok")
        (info,) = await desk.get("cluster/info")
        assert health.json()["expiryheld"] == info["expiryheld"]
        (why,) = info["expiryheld"]
        assert why.startswith("/default, /s: nothing expires for 23 h 0 min, since the clock is 365 days 0 h ahead of")
        metrics = (await desk.http.get(f"{desk.url}/metrics")).text
        (jump,) = re.findall(r'fairlead_clock_jump_ms{stream="/s"} (.*)', metrics)
        assert float(jump) == YEAR_MS
        assert 'fairlead_expiry_held_seconds{stream="/s"} 82800.0' in metrics
        accepted = await desk.post("clock/accept")
        assert {"path": "/s", "clockaheadmillis": YEAR_MS} in accepted
        assert {row["expiry"] for row in await desk.get("clock/show")} == {"runs"}
        assert await desk.post("clock/accept") == []
        assert 'fairlead_expiry_held_seconds{stream="/s"} 0.0' in (await desk.http.get(f"{desk.url}/metrics")).text
