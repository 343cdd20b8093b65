"""Which command mends a link. Where none does, the error's message says what to do, or the link goes on by itself."""

from __future__ import annotations

from fairlead.cluster.values import LinkRecord
from fairlead.gateway.links.errors import LinkStalled, RolledBack, StreamChanged
from fairlead.model.errors import FairleadError, NotAgreed, UnknownStream, Unreachable
from fairlead.model.names import StreamPath


def cure(error: FairleadError, source: StreamPath, record: LinkRecord) -> str:
    """The command line for an error of the link from `source`; empty if no command helps."""
    replica = record.replica_path
    pair = f"-path {source} -replica {replica}"
    match error:
        case NotAgreed():
            return f"fairlead stream upstream add -path {replica} -upstream {source}"
        case StreamChanged():
            return f"fairlead stream replica remove {pair} --yes && fairlead stream replica add {pair}"
        case RolledBack() if not record.moves_owners:
            return f"fairlead stream replica resume {pair} -rescan"
        case RolledBack():
            return f"fairlead stream recover -path {source}"
        case UnknownStream():
            return f"fairlead stream create -path {replica} -copymetafrom {source}"
        case Unreachable():
            return f"fairlead up --name {replica.cluster} --data DIR"
        case LinkStalled():
            return f"fairlead stream replica pause {pair} && fairlead stream replica resume {pair}"
    return ""
