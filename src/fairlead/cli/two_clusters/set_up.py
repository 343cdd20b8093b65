"""The work of `stream replica autosetup`: each cluster does its own part, and this command tells it to.

All is made, or taken back; a copy begins, and links that are paused go on, only once all is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlead.cli.calls import call
from fairlead.cli.two_clusters.copystream import START, ended, set_aside
from fairlead.cli.two_clusters.steps import CREATE, DELETE, INFO, Steps, global_path, settings_of
from fairlead.client.admin import Envelope
from fairlead.client.catalog import BY_PATH
from fairlead.client.command import Command, Given
from fairlead.client.set_up import is_from_now
from fairlead.model.errors import AlreadyExists, FairleadError, NotFound, Unanswered, UnknownStream
from fairlead.model.names import StreamPath
from fairlead.process.interrupts import Interrupted

_ADD = BY_PATH["/rest/stream/replica/add"]
_REMOVE = BY_PATH["/rest/stream/replica/remove"]
_RESUME = BY_PATH["/rest/stream/replica/resume"]
_ADD_UPSTREAM = BY_PATH["/rest/stream/upstream/add"]
_EDIT_UPSTREAM = BY_PATH["/rest/stream/upstream/edit"]
_LIST_UPSTREAMS = BY_PATH["/rest/stream/upstream/list"]
_REMOVE_UPSTREAM = BY_PATH["/rest/stream/upstream/remove"]
_LIST = BY_PATH["/rest/stream/replica/list"]
_LOST = "its answer was lost, and the link is there"
_OF_LINK = {param.name for param in _ADD.params} - {"path", "replica", "paused"}


@dataclass(frozen=True, slots=True)
class Pair:
    """The two streams, with their clusters, and what was given."""

    source: StreamPath
    replica: StreamPath
    given: Given

    @property
    def multimaster(self) -> bool:
        return bool(self.given["multimaster"])

    @property
    def existing(self) -> bool:
        return bool(self.given["useexistingreplica"])

    @property
    def copied(self) -> bool:
        """This command copies before the links begin."""
        return self.given["directcopy"] is False

    @property
    def back(self) -> Pair:
        """The other way."""
        return Pair(self.replica, self.source, self.given)

    @property
    def link(self) -> dict[str, str]:
        """The link as commands name it."""
        return {"path": str(self.source), "replica": str(self.replica)}

    @property
    def upstream(self) -> dict[str, str]:
        """The upstream as commands name it."""
        return {"path": str(self.replica), "upstream": str(self.source)}


def pair_of(command: Command, params: Mapping[str, Any], cluster: str | None) -> Pair:
    """The pair that a call of `autosetup` names."""
    given = command.parse(params)
    is_from_now(given)  # before anything is made
    source = global_path(given["path"], cluster)
    return Pair(source, global_path(given["replica"], source.cluster), given)


def set_up(command: Command, params: Mapping[str, Any], cluster: str | None) -> Envelope:
    """Let each cluster do its part, or take it back; then copy, if the links do not.

    Raises:
        FairleadError: that of the step which failed, with what became of the others.
        Unanswered: the source may do its part yet, so what was done stays; the message says what that is.
        Interrupted: Ctrl-C before the source was asked.
    """
    pair = pair_of(command, params, cluster)
    if pair.replica.cluster == pair.source.cluster:
        answer = call(command, params, cluster)
    else:
        answer = _at_both(command, params, cluster, pair)
    return _copied(answer, pair) if pair.copied else answer


def _at_both(command: Command, params: Mapping[str, Any], cluster: str | None, pair: Pair) -> Envelope:
    steps, asked_last = Steps(), False
    take_back = _source_s_part(pair) if pair.multimaster else None
    try:
        _at_the_replica(steps, pair, params)
        asked_last = not pair.multimaster
        answer = _at_the_source(steps, pair, partial(call, command, params, cluster))
        done = [*steps.done, *answer.first["done"]]
        if take_back is not None and not pair.copied and not pair.given["paused"]:
            steps.did(f"set up {pair.source}", take_back)
            call(_RESUME, pair.back.link)
    except _LeftAsItIs as error:
        raise Unanswered(str(error)) from error
    except FairleadError as error:
        raise steps.undone(error) from error
    except KeyboardInterrupt:
        if asked_last:
            raise
        if take_back is not None:
            steps.did(f"asked {pair.source.cluster} for its part", take_back)
        raise Interrupted(f"nothing was set up: {steps.taken_back() or 'nothing was done yet'}") from None
    return _with(answer, done=done)


def _at_the_replica(steps: Steps, pair: Pair, params: Mapping[str, Any]) -> None:
    """The other cluster's part; its link back is paused until this one's part is done."""
    if not (pair.existing and is_there(pair.replica)):
        place = {"path": str(pair.replica)}
        call(CREATE, {**place, **settings_of(pair.source, "shards")})
        steps.did(f"created {pair.replica} with the settings of {pair.source}", lambda: call(DELETE, place))
    _name_upstream(steps, pair)
    if pair.multimaster:
        options = {"acceptwrites": "true", **{name: params[name] for name in _OF_LINK & params.keys()}}
        call(_ADD, {**pair.back.link, **options, "paused": "true"})
        steps.did(f"named {pair.source} a replica of {pair.replica}", lambda: call(_REMOVE, pair.back.link))


class _LeftAsItIs(FairleadError):
    """Nobody knows whether the source's cluster has done its part, so nothing may be taken back."""


def _at_the_source(steps: Steps, pair: Pair, asked: Callable[[], Envelope]) -> Envelope:
    """The source's part, which is done too if only its answer was lost: then the link is there. It may come yet if the
    link is not: a replica that a link leads to is not to be deleted.

    Raises:
        _LeftAsItIs: nobody knows whether it will be there. FairleadError: the source has refused.
    """
    try:
        return asked()
    except Unanswered as error:
        with suppress(FairleadError):
            if _is_linked(pair):
                done = [f"named {pair.replica} a replica of {pair.source}"]
                row = {"source": str(pair.source), "replicaPath": str(pair.replica), "done": done, "next": _LOST}
                return Envelope((row,), {"status": "OK", "total": 1, "data": [row]})
        raise _LeftAsItIs(
            f"{error}; nothing is taken back of what was done before: {', '.join(steps.done) or 'nothing'}. If "
            f"`fairlead stream replica list -path {pair.source}` shows no link to it, remove this and set up again"
        ) from error


def _is_linked(pair: Pair) -> bool:
    """The source sends to the replica."""
    rows = call(_LIST, {"path": str(pair.source)}).data
    return any(row["replicaPath"] == str(pair.replica) for row in rows)


def _name_upstream(steps: Steps, pair: Pair) -> None:
    """Name it, or mark the one that a replica which is there names already."""
    masters = {"multimaster": "true"} if pair.multimaster else {}
    try:
        call(_ADD_UPSTREAM, {**pair.upstream, **masters})
        what = f"named {pair.source} an upstream of {pair.replica}"
        steps.did(what, lambda: call(_REMOVE_UPSTREAM, pair.upstream))
    except AlreadyExists:
        if not pair.existing:
            raise
        if masters and not upstream_of(pair)["multimaster"]:
            call(_EDIT_UPSTREAM, {**pair.upstream, **masters})
            what = f"marked {pair.source}, an upstream of {pair.replica}, as a master"
            steps.did(what, partial(call, _EDIT_UPSTREAM, {**pair.upstream, "multimaster": "false"}))


def upstream_of(pair: Pair) -> Mapping[str, Any]:
    """The source as the replica names it; empty if it does not."""
    rows = call(_LIST_UPSTREAMS, {"path": str(pair.replica)}).data
    return next((row for row in rows if row["upstream"] == str(pair.source) and not row.get("copy")), {})


def _source_s_part(pair: Pair) -> Callable[[], None]:
    """What takes back what the source's cluster did of it, as far as it has come; what was there before stays."""
    named = bool(upstream_of(pair.back))

    def take_back() -> None:
        with suppress(NotFound):
            call(_REMOVE, pair.link)
        if not named:
            with suppress(NotFound):
                call(_REMOVE_UPSTREAM, pair.back.upstream)

    return take_back


def is_there(path: StreamPath) -> bool:
    """There is a stream at this path."""
    with suppress(UnknownStream):
        call(INFO, {"path": str(path)})
        return True
    return False


def _copied(answer: Envelope, pair: Pair) -> Envelope:
    """Copy what is there, then let the links go on.

    Raises:
        FairleadError, Interrupted: the links are there, and paused, and it says how they go on; or all is done, and
            partitions are set aside.
    """
    ways = [pair, pair.back] if pair.multimaster else [pair]
    resumes = " and ".join(f"fairlead stream replica resume -path {way.source} -replica {way.replica}" for way in ways)
    done, conflicts = list(answer.first["done"]), 0
    try:
        for way in ways if pair.existing else ways[:1]:
            names = {"src": str(way.source), "dst": str(way.replica)}
            call(START, names)
            copy = ended(names, None).first
            done.append(f"copied {copy['recordsCopied']:,} records of {way.source} to {way.replica}")
            conflicts += copy["conflicts"]
    except FairleadError as error:
        raise FairleadError(f"{error}; all is set up and paused, to start without a copy run: {resumes}") from error
    except KeyboardInterrupt:
        raise Interrupted(f"all is set up, and the copy goes on; after it run: {resumes}") from None
    what_follows = f"nothing is sent yet: run {resumes}"
    if not pair.given["paused"]:
        for way in ways:
            call(_RESUME, way.link)
        what_follows = "what comes later follows"
    if conflicts:
        raise FairleadError(f"{'; '.join(done)}; {set_aside(conflicts)}; {what_follows}")
    return _with(answer, done=done, next=what_follows)


def _with(answer: Envelope, **changes: Any) -> Envelope:
    row = {**answer.first, **changes}
    return Envelope((row,), {**answer.envelope, "data": [row]})
