"""`fairlead up`, `server` and `replicator`: the processes of a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import structlog
import typer

from fairlead.cli.calls import address_book, chosen_cluster
from fairlead.cli.data import data_option
from fairlead.client.address_book import KnownCluster
from fairlead.client.admin import check_url
from fairlead.model.addresses import parse_address
from fairlead.model.errors import BadRequest, FairleadError, InvalidValue
from fairlead.model.settings import Settings, changed, load
from fairlead.process.environment import variables_set
from fairlead.process.interrupts import ending_at_once
from fairlead.process.logs import configure_logs, log_variables

if TYPE_CHECKING:
    from fairlead.server.assembly import Companion, Server, ServerOptions

ClusterNameOption = Annotated[str, typer.Option("--name", help="name of the cluster; fixed for its data directory")]
Data = Annotated[Path, data_option("data directory; made if it is not there")]
Kafka = Annotated[str | None, typer.Option("--kafka", metavar="HOST:PORT", help="Kafka listener [127.0.0.1:9092]")]
Http = Annotated[str | None, typer.Option("--http", metavar="HOST:PORT", help="HTTP listener [127.0.0.1:7660]")]
Advertise = Annotated[
    str | None, typer.Option("--advertise", metavar="HOST:PORT", help="what Kafka clients are told to connect to")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="listen also where other machines can reach it")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file of settings")]
ReadyFile = Annotated[
    Path | None, typer.Option("--ready-file", help="write name, addresses and pid here, as JSON, once it answers")
]

JsonLogs = Annotated[bool, typer.Option("--json-logs", help="write log lines as JSON, one object a line")]

log = structlog.get_logger("fairlead.cli")


def up(
    name: ClusterNameOption,
    data: Data,
    kafka: Kafka = None,
    http: Http = None,
    advertise: Advertise = None,
    insecure: Insecure = False,
    settings: SettingsFile = None,
    ready_file: ReadyFile = None,
    json_logs: JsonLogs = False,
) -> None:
    """Run a cluster here: server and replicator; enter it in the address book."""
    given = _Given(name, data, kafka, http, advertise, insecure, settings, ready_file, json_logs)
    given.run(replicate=True)


def server(
    name: ClusterNameOption,
    data: Data,
    kafka: Kafka = None,
    http: Http = None,
    advertise: Advertise = None,
    insecure: Insecure = False,
    settings: SettingsFile = None,
    ready_file: ReadyFile = None,
    json_logs: JsonLogs = False,
) -> None:
    """Run only the server of a cluster; the replicator runs somewhere else, or not at all."""
    given = _Given(name, data, kafka, http, advertise, insecure, settings, ready_file, json_logs)
    given.run(replicate=False)


def replicator(
    url: Annotated[str | None, typer.Option("--server", metavar="URL", help="HTTP address of the server")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="the cluster, if no --server is given")] = None,
    data: Annotated[Path | None, data_option("the server's data directory, with its secret")] = None,
    secret_file: Annotated[Path | None, typer.Option("--secret-file", help="the secret, if it lies elsewhere")] = None,
    once: Annotated[bool, typer.Option("--once", help="carry what is there now, then end")] = False,
    settings: SettingsFile = None,
    json_logs: JsonLogs = False,
) -> None:
    """Run only the replicator of a cluster: the Spark application that moves records along its links."""
    if (data is None) == (secret_file is None):
        raise InvalidValue("say where the server's secret is: --data DIR (its data directory) or --secret-file FILE")
    address = check_url(url if url is not None else next(iter(chosen_cluster(cluster).http), ""))
    chosen = _chosen(settings, json_logs)
    os.environ.update(log_variables(chosen.log_level, chosen.log_format))
    secret = ["--data", str(data)] if data is not None else ["--secret-file", str(secret_file)]
    os.execv(sys.executable, _replicator_command(address, settings, *secret, *(["--once"] if once else [])))


@dataclass(frozen=True, slots=True)
class _Given:
    name: str
    data: Path
    kafka: str | None
    http: str | None
    advertise: str | None
    insecure: bool
    settings: Path | None
    ready_file: Path | None
    json_logs: bool

    def run(self, *, replicate: bool) -> None:
        with ending_at_once():
            from fairlead.process.loop import ServerLoop
            from fairlead.server.assembly import serve

        options = self._options()
        self._forget_ready()
        how = options.settings.log_level, options.settings.log_format
        configure_logs(*how)
        with (
            variables_set(log_variables(*how)),
            _errors_in_the_log(options.settings),
            asyncio.Runner(loop_factory=ServerLoop) as runner,
        ):
            runner.run(serve(options, self._companion(replicate, options.settings)))

    def _options(self) -> ServerOptions:
        from fairlead.server.assembly import ServerOptions

        advertise = None if self.advertise is None else parse_address(self.advertise, "--advertise")
        if advertise is not None and advertise.port == 0:
            raise InvalidValue(f"--advertise {self.advertise!r}: clients cannot connect to port 0")
        ready = self.ready_file
        if ready is not None and (not ready.name or (ready.exists() and not ready.is_file())):
            raise InvalidValue(f"--ready-file {ready}: name a file")
        return ServerOptions(self.name, self.data, self._settings(), advertise, self.insecure)

    def _settings(self) -> Settings:
        given = {"kafka_address": self.kafka, "http_address": self.http}
        chosen = _chosen(self.settings, self.json_logs)
        return changed(chosen, {key: value for key, value in given.items() if value is not None})

    def _companion(self, replicate: bool, settings: Settings) -> Companion:
        @asynccontextmanager
        async def companion(server: Server) -> AsyncIterator[None]:
            if not replicate:
                with self._announced(server, f"server of cluster {self.name}, without a replicator", settings):
                    yield
                return
            known = KnownCluster(self.name, tuple(server.cluster.urls), (server.kafka,))
            with _entered(known, settings):
                async with replicating(server, self.data, self.settings):
                    with self._announced(server, f"cluster {self.name} is up", settings, _FIRST_STEPS):
                        yield

        return companion

    @contextmanager
    def _announced(self, server: Server, what: str, settings: Settings, more: str = "") -> Iterator[None]:
        self._announce(server, what, settings, more)
        try:
            yield
        finally:
            self._forget_ready()

    def _forget_ready(self) -> None:
        """Take the ready file away: of an earlier start, which was killed perhaps, or of this one when it ends."""
        if self.ready_file is not None:
            with _ready_file(self.ready_file):
                self.ready_file.unlink(missing_ok=True)

    def _announce(self, server: Server, what: str, settings: Settings, more: str = "") -> None:
        """Say that it answers: for people on standard output, for programs in the ready file and in a log of JSON."""
        if settings.log_format == "json":
            log.info(what, kafka=server.kafka, http=server.http, data=str(self.data))
        else:
            print(f"{what}\n  Kafka  {server.kafka}\n  HTTP   {server.http}\n  data   {self.data}{more}", flush=True)
        if self.ready_file is not None:
            _write_ready(
                self.ready_file,
                {"name": self.name, "kafka": server.kafka, "http": server.http, "pid": os.getpid()},
            )


@contextmanager
def _entered(cluster: KnownCluster, settings: Settings) -> Iterator[None]:
    """Enter a cluster in the address book; one that took any free port is somewhere else the next time."""
    book = address_book()
    book.put(cluster)
    try:
        yield
    finally:
        if any(parse_address(text, "").port == 0 for text in (settings.kafka_address, settings.http_address)):
            book.take_back(cluster)


def _chosen(file: Path | None, json_logs: bool) -> Settings:
    """The settings of file and variables, with what an option says of logs."""
    return changed(load(file, os.environ), {"log_format": "json"} if json_logs else {})


@contextmanager
def _errors_in_the_log(settings: Settings) -> Iterator[None]:
    """Where log lines are JSON, the error that ends the process is one of them."""
    try:
        yield
    except FairleadError as error:
        if settings.log_format != "json":
            raise
        log.error(str(error))
        raise typer.Exit(1) from None


def _write_ready(file: Path, ready: Mapping[str, object]) -> None:
    """Write the whole file at once, for programs that wait for it."""
    fresh = file.with_name(file.name + ".new")
    with _ready_file(file):
        fresh.write_text(json.dumps(ready))
        fresh.replace(file)


@contextmanager
def _ready_file(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadRequest(f"--ready-file {file}: {error.strerror}") from error


_FIRST_STEPS = """

Try, in another terminal:
  echo hello | fairlead produce first
  fairlead consume first --from-beginning
  fairlead stream create -path /ships

Ctrl-C stops the cluster; what was acknowledged is kept."""


# ---------------------------------------------------------------- the replicator as a child

RESTART_FIRST_SECONDS = 1.0
RESTART_MAX_SECONDS = 60.0
"""The longest pause before the next start; a replicator that ran longer than this had worked."""
END_SECONDS = 20.0
"""It is given this long to end in order, its Java process with it; then it is killed."""


@asynccontextmanager
async def replicating(server: Server, data: Path, settings: Path | None) -> AsyncIterator[None]:
    """Keep a replicator running for as long as the server does."""
    command = _replicator_command(server.local_http, settings, "--data", str(data), "--with-parent", str(os.getpid()))
    keeping = asyncio.create_task(keep_replicating(command, server.replicator))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def run_replicator(command: list[str]) -> int:
    """One life of the child, which ends when this process does, however that is.

    A session of its own keeps a terminal's Ctrl-C from its Java process, which is to be stopped in order.
    """
    child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, start_new_session=True)
    try:
        return await child.wait()
    finally:
        await _end(child)


class Life(Protocol):
    """Who is told of the child's lives: the server, for `/health` and `fairlead status`."""

    def began(self) -> None:
        """A life begins."""
        ...

    def ended(self, why: str) -> None:
        """It is over."""
        ...


async def keep_replicating(
    command: list[str], life: Life, run: Callable[[list[str]], Awaitable[int]] = run_replicator
) -> None:
    """Start it again when it ended by itself; why it did it has said itself, on standard error.

    One that gave up waits longer each time; one that was killed (a negative code) or had worked is needed at once.
    """
    wait = RESTART_FIRST_SECONDS
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        life.began()
        code, why = await _one_life(command, run)
        life.ended(why)
        if code < 0 or loop.time() - began > RESTART_MAX_SECONDS:
            wait = RESTART_FIRST_SECONDS
        log.warning(f"the replicator ended ({why}); started again in {wait:g} s")
        await asyncio.sleep(wait)
        wait = min(2 * wait, RESTART_MAX_SECONDS)


async def _one_life(command: list[str], run: Callable[[list[str]], Awaitable[int]]) -> tuple[int, str]:
    """Its exit code and why it ended. One that cannot be started, as the machine has no process, file or memory left,
    counts as one that gave up."""
    try:
        code = await run(command)
    except OSError as error:
        return 1, f"it could not be started: {error}"
    return code, f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    child.terminate()
    try:
        await asyncio.wait_for(child.wait(), END_SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()


def _replicator_command(url: str, settings: Path | None, *more: str) -> list[str]:
    chosen = [] if settings is None else ["--settings", str(settings)]
    return [sys.executable, "-m", "fairlead.replication", "--server", url, *chosen, *more]
