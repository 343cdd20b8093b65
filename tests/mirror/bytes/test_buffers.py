"""Memory goes round, and never while somebody looks at it."""

from __future__ import annotations

from fairlead.mirror.bytes.buffers import Buffers

MB = 1 << 20


def address(buffers: Buffers, size: int) -> int:
    """Where the next buffer lies, which nobody keeps."""
    return int(buffers.take(size).__array_interface__["data"][0])


def test_a_buffer_is_used_again_once_no_view_of_it_is_left() -> None:
    """A view of a view keeps it too."""
    buffers = Buffers()
    first = address(buffers, MB)
    assert address(buffers, MB) == first
    view = buffers.take(MB).data[10:20].toreadonly()
    assert address(buffers, MB) != first
    del view
    assert first in {address(buffers, MB), address(buffers, MB)}


def test_a_buffer_is_as_large_as_was_asked_for() -> None:
    """A smaller one that is free does not do."""
    buffers = Buffers()
    assert len(buffers.take(MB)) >= MB
    assert len(buffers.take(3 * MB + 1)) >= 3 * MB + 1
    assert len(Buffers().take(0)) == 0


def test_no_more_is_kept_than_allowed() -> None:
    """What is above is made and given back to the machine."""
    buffers = Buffers(bytes_max=2 * MB)
    looked_at = [buffers.take(MB).data for _ in range(5)]
    kept = {view.obj.__array_interface__["data"][0] for view in looked_at[:2]}  # type: ignore[attr-defined]
    del looked_at
    found = [buffers.take(MB) for _ in range(2)]
    assert {one.__array_interface__["data"][0] for one in found} == kept
    assert len(buffers.take(5 * MB)) == 5 * MB
