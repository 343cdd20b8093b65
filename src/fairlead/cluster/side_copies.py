"""Side copies: links beside a link that bring the past of topics which come into it; each step is one request to meta/.

    begin     the side copy is there, and the link says what it will leave out next
    close     both send nothing from some commits on
    end       the link brings what both have brought, and the side copy is gone
    let_out   the link leaves out more at once; no side copy is needed, and one that is under way is given up

Always true: below the commits of `close` a topic came by the link with its old expressions or by the side copy, from
there on it comes by the link with the new ones. So a crash between two steps loses nothing: whoever finds the records
goes on with the next.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead.cluster.keys import LINK
from fairlead.cluster.records import put_record
from fairlead.cluster.topic_filter import TopicFilter
from fairlead.cluster.values import FilterNext, LinkRecord, SideCopy, link_from_json, link_json
from fairlead.model.errors import NotFound
from fairlead.streamlog.writing.draft import Draft
from fairlead.streamlog.writing.entries import delete_entry


def drafted(draft: Draft, link: bytes) -> LinkRecord:
    """The record of a link, as it is in this very commit. Raises: NotFound."""
    entry = draft.state.entry(LINK.key(link))
    if entry is None:
        raise NotFound(f"link {link.hex()} was removed")
    return link_from_json(link, entry)


def put_link(draft: Draft, link: LinkRecord) -> None:
    """Put the record of a link in its place."""
    put_record(draft, LINK.key(link.id), link_json(link))


def give_up(draft: Draft, link: LinkRecord) -> LinkRecord:
    """The link without its side copy, if it has one; it is not put."""
    if link.filter_next is not None:
        delete_entry(draft, LINK.key(link.filter_next.side))
    return replace(link, filter_next=None)


def let_out(draft: Draft, link: bytes, to: TopicFilter) -> None:
    """Leave out more than before. Raises: NotFound."""
    put_link(draft, replace(give_up(draft, drafted(draft, link)), topics=to.topics, exclude_topics=to.exclude))


def begin(draft: Draft, link: bytes, to: TopicFilter, side: bytes, ends: tuple[int, ...]) -> None:
    """Bring the past of topics that come into a link with the filter `to` by a link `side` of its own; `ends`: where
    the shards of the source end. Raises: NotFound."""
    record = give_up(draft, drafted(draft, link))
    copy = replace(
        record,
        id=side,
        created=ends,
        rescan=0,
        widened=None,
        topics=to.topics,
        exclude_topics=to.exclude,
        side_copy=SideCopy(link, record.topics, record.exclude_topics),
    )
    put_link(draft, copy)
    put_link(draft, replace(record, filter_next=FilterNext(side, to.topics, to.exclude)))


def close(draft: Draft, link: bytes, side: bytes, until: tuple[int, ...]) -> None:
    """A link and its side copy send nothing from these commits on. Nothing if it has another one by now.

    Raises:
        NotFound: the link was removed.
    """
    record, copy = drafted(draft, link), drafted(draft, side)
    if record.filter_next is not None and record.filter_next.side == side and copy.side_copy is not None:
        put_link(draft, replace(record, filter_next=replace(record.filter_next, until=until)))
        put_link(draft, replace(copy, side_copy=replace(copy.side_copy, until=until)))


def end(draft: Draft, link: bytes, side: bytes, until: tuple[int, ...]) -> None:
    """The link brings what it and its side copy have brought. Nothing if it has another one by now. Raises:
    NotFound."""
    record = drafted(draft, link)
    following = record.filter_next
    if following is None or (following.side, following.until) != (side, until):
        return
    record = replace(give_up(draft, record), topics=following.topics, exclude_topics=following.exclude_topics)
    put_link(draft, replace(record, widened=side))
