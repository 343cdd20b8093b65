"""A cluster whose description or own log is lost, or another's, is not opened as a new one."""

from __future__ import annotations

import pytest
from tests.cluster.opening import Open

from fairlead.cluster.values import StreamSettings
from fairlead.model.errors import Damaged
from fairlead.storage import identity, names
from fairlead.storage.identity import Identity
from fairlead.storage.memory import MemoryStorage


async def closed(open_cluster: Open) -> bytes:
    """The id of a cluster with a stream, which was opened twice."""
    cluster = await open_cluster("sanfrancisco")
    await cluster.create_stream("/ships", StreamSettings())
    return (await open_cluster("sanfrancisco")).id


async def refused(open_cluster: Open, storage: MemoryStorage, objects: dict[str, bytes]) -> Damaged:
    """Why a cluster of these objects is not opened."""
    storage.replace(objects)
    with pytest.raises(Damaged) as found:
        await open_cluster("sanfrancisco")
    assert storage.snapshot().keys() - objects.keys() <= {
        name for name in storage.snapshot() if names.parse_epoch(name)
    }, "something was built upon it"
    return found.value


async def test_a_lost_description_is_not_made_anew(open_cluster: Open, storage: MemoryStorage) -> None:
    """Another id would be another cluster to all others; the message says which id it was."""
    id = await closed(open_cluster)
    objects = {name: data for name, data in storage.snapshot().items() if name != names.CLUSTER}
    error = await refused(open_cluster, storage, objects)
    assert (error.name, id.hex() in str(error)) == (names.CLUSTER, True)
    objects = {name: data for name, data in objects.items() if not name.startswith("meta/manifest/")}
    assert (await refused(open_cluster, storage, objects)).name == names.CLUSTER


async def test_the_description_of_another_cluster_is_refused(open_cluster: Open, storage: MemoryStorage) -> None:
    """It has the same name, as copies of one installation have."""
    id = await closed(open_cluster)
    other = identity.encode(Identity("sanfrancisco", b"7" * 16))
    error = await refused(open_cluster, storage, {**storage.snapshot(), names.CLUSTER: other})
    assert (error.name, id.hex() in str(error), (b"7" * 16).hex() in str(error)) == (names.CLUSTER, True, True)


async def test_a_lost_log_of_the_cluster_is_no_new_one(open_cluster: Open, storage: MemoryStorage) -> None:
    """All streams would be gone, and their objects left behind."""
    await closed(open_cluster)
    objects = storage.snapshot()
    kept = {name: data for name, data in objects.items() if not name.startswith("meta/")}
    assert (await refused(open_cluster, storage, kept)).name == "meta"
    kept = {name: data for name, data in objects.items() if not name.startswith("meta/manifest/")}
    assert (await refused(open_cluster, storage, kept)).name.startswith("meta/manifest")


async def test_a_first_start_that_was_cut_off_is_no_damage(open_cluster: Open, storage: MemoryStorage) -> None:
    """After the description, and after the first claim."""
    await closed(open_cluster)
    objects = storage.snapshot()
    claim = names.epoch(names.META, 1)
    for kept in ({names.CLUSTER}, {names.CLUSTER, claim}):
        storage.replace({name: objects[name] for name in kept})
        assert [stream.path for stream in (await open_cluster("sanfrancisco")).streams()] == ["/default"]
