"""A cluster of our own to talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.site import Site, run_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_site(tmp_path_factory.mktemp("site")) as site:
        yield site
