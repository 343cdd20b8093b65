"""Commands against a running server, as a user writes them."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.desk import CommandLine
from tests.support import http_calls
from tests.support.sites import Site
from tests.support.waiting import WAIT_SECONDS, wait_until


def test_fairlead_alone_shows_the_first_steps(empty: CommandLine) -> None:
    """Short, with the commands to begin with."""
    out = empty.ok("").out
    assert "fairlead up --name" in out
    assert len(out.splitlines()) < 20


def test_the_version_is_shown(empty: CommandLine) -> None:
    """`fairlead 0.1.0`."""
    assert empty.ok("--version").out.startswith("fairlead 0.")


@pytest.mark.parametrize(
    "noun", ["", "stream", "stream topic", "stream cursor", "stream replica", "stream upstream", "cluster", "clock"]
)
def test_every_noun_has_help(empty: CommandLine, noun: str) -> None:
    """With the list of its commands."""
    assert "Commands" in empty.ok(f"{noun} --help").out


def test_a_noun_alone_shows_its_help(empty: CommandLine) -> None:
    """`fairlead stream` is a question, not a mistake."""
    assert "upstream" in empty.ok("stream").out


def test_a_stream_is_made_shown_and_deleted(fairlead: CommandLine) -> None:
    """In the original's style: one dash, any case, the path in any of its forms."""
    fairlead.ok("stream create -path /life -TTL 60 -autoCreate false -defaultpartitions 2")
    row = fairlead.ok("stream info -path mapr/sanfrancisco/life -json").json["data"][0]
    assert (row["ttl"], row["autocreate"], row["defaultpartitions"]) == (60, False, 2)
    fairlead.ok("stream edit --path sanfrancisco:/life -autocreate")
    assert "autocreate            true" in fairlead.ok("stream info -path /life").out
    fairlead.ok("stream delete -path /life -yes")
    fairlead.refused("stream info -path /life", "stream /life does not exist")


def test_a_table_has_a_row_for_each_stream(fairlead: CommandLine) -> None:
    """Plain columns when nobody looks."""
    fairlead.ok("stream create -path /rows/a")
    lines = fairlead.ok("stream list -path /rows").out.splitlines()
    assert lines[0].split()[:2] == ["path", "numtopics"]
    assert lines[1].split()[:3] == ["/rows/a", "0", "1"]


def test_an_empty_table_says_so(fairlead: CommandLine) -> None:
    """Not an empty screen."""
    assert fairlead.ok("stream replica list -path /default").out == "(none)\n"


def test_deleting_asks_and_refuses_when_nobody_can_answer(fairlead: CommandLine) -> None:
    """Nothing is deleted by a script that does not say --yes."""
    fairlead.ok("stream create -path /kept")
    fairlead.refused("stream delete -path /kept", "add --yes")
    fairlead.ok("stream info -path /kept")


def test_the_clock_is_shown_and_accepted_once_asked(fairlead: CommandLine) -> None:
    """It may let records expire, so a script must say --yes."""
    assert "runs" in fairlead.ok("clock show").out
    fairlead.refused("clock accept", "add --yes")
    fairlead.ok("clock accept -yes")


@pytest.mark.parametrize(("answer", "code"), [("n\n", 130), ("y\n", 0)])
def test_deleting_waits_for_the_answer(
    fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    """No keeps it, yes deletes it."""
    fairlead(f"stream create -path /asked{code}")
    keyboard = io.StringIO(answer)
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    done = fairlead(f"stream delete -path /asked{code}")
    assert done.code == code
    assert f"Delete the stream /asked{code}" in done.out + done.err


def test_topics_and_cursors(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, written, read by a group, shown with its lag, deleted."""
    fairlead.ok("stream create -path /t")
    fairlead.ok("stream topic create -path /t -topic pos")
    _produce(fairlead, monkeypatch, "/t:pos", b"one\ntwo\n")
    assert fairlead.ok("consume -path /t -topic pos -group g -max-records 1").out == "one\n"
    assert fairlead.ok("consume /t:pos --group g").out == "two\n"
    (cursor,) = fairlead.ok("stream cursor list -path /t -json").json["data"]
    assert (cursor["consumergroup"], cursor["committedoffset"], cursor["produceroffset"]) == ("g", 2, 1)
    assert fairlead.ok("stream cursor delete -path /t -consumergroup g --yes").out.split() == ["deleted", "1"]
    assert "logappendtime" not in fairlead.ok("stream topic info -path /t -topic pos").out
    fairlead.ok("stream topic edit -path /t -topic pos -partitions 3")
    assert len(fairlead.ok("stream topic info -path /t -topic pos").out.splitlines()) == 4
    fairlead.ok("stream topic delete -path /t -topic pos --yes")
    assert fairlead.ok("stream topic list -path /t").out == "(none)\n"


def test_a_record_is_written_and_read_with_key_and_header(
    fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare topic name works at once: it is made in /default."""
    _produce(fairlead, monkeypatch, "hail --key-separator = --header port=sf", b"anna=ahoy\n")
    assert fairlead.ok("consume hail --from-beginning --key --header").out == "port=sf\tanna\tahoy\n"
    shown = fairlead.ok("consume hail --from-beginning --offset").out
    assert shown.startswith("0\t0\t17")


def test_a_record_that_is_refused_says_what_is_wrong_with_it(
    fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    """The client's own words are `Broker failed to validate record` and `Local: Unknown partition`."""
    admin = AdminClient({"bootstrap.servers": site.kafka})
    admin.create_topics([NewTopic("latest", 1, config={"cleanup.policy": "compact"})])["latest"].result()
    for arguments, said in (
        ("latest", "topic latest is compacted, so each record needs a key; add --key or --key-separator"),
        ("latest --key k --partition 7", "topic latest has no such partition; `fairlead stream topic info` lists them"),
        ("latest --key-separator =", "line 'hello' has no key separator '='"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
        fairlead.refused(f"produce {arguments}", said)


def test_producing_to_a_topic_that_is_not_made_by_itself_says_that_it_is_not_there(
    fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Kafka client waits for it without a word."""
    monkeypatch.setattr("fairlead.cli.records.FLUSH_SECONDS", 0.5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
    fairlead.refused("produce /nope:t", "topic /nope:t does not exist")


def test_bytes_that_are_no_text_are_carried_as_they_are(fairlead: CommandLine) -> None:
    """A record is bytes."""
    program = [sys.executable, "-m", "fairlead.cli.main"]
    subprocess.run([*program, "produce", "bytes"], input=b"\xff\xfe\n", check=True, timeout=WAIT_SECONDS)
    read = [*program, "consume", "bytes", "--from-beginning"]
    assert subprocess.run(read, capture_output=True, check=True, timeout=WAIT_SECONDS).stdout == b"\xff\xfe\n"


def _produce(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: str, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    fairlead.ok(f"produce {arguments}")


def test_metrics_count_what_was_produced(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    """Records and bytes in, bytes out."""
    _produce(fairlead, monkeypatch, "counted", b"one\ntwo\n")
    fairlead.ok("consume counted --from-beginning")
    text = http_calls.get(f"{site.url}/metrics").text
    for name in ("produced_records", "produced_bytes", "fetched_bytes", "requests"):
        (value,) = (line.split()[1] for line in text.splitlines() if line.startswith(f"fairlead_kafka_{name}_total "))
        assert float(value) >= 2


def test_a_stream_is_exposed_on_its_own_port(fairlead: CommandLine) -> None:
    """And again after it was taken back; once at a time."""
    fairlead.ok("stream create -path /own")
    row = fairlead.ok("stream expose -path /own -port 0 -json").json["data"][0]
    assert row["kafka"].startswith("127.0.0.1:")
    fairlead.refused("stream expose -path /own -port 0", "exposed")
    fairlead.ok("stream expose -path /own -remove")
    fairlead.ok("stream expose -path /own -port 0")


def test_a_port_that_is_taken_is_refused(fairlead: CommandLine, site: Site) -> None:
    """With what to do."""
    fairlead.ok("stream create -path /taken")
    port = site.kafka.rpartition(":")[2]
    fairlead.refused(f"stream expose -path /taken -port {port}", "in use")


def test_replicas_and_upstreams_inside_one_cluster(fairlead: CommandLine) -> None:
    """Added paused, listed with the original's fields, resumed, paused, removed."""
    fairlead.ok("stream create -path /src")
    fairlead.ok("stream create -path /dst -copymetafrom /src")
    fairlead.ok("stream replica add -path /src -replica /mapr/sanfrancisco/dst -paused")
    assert "paused                         true" in fairlead.ok("stream replica list -path /src").out
    fairlead.ok("stream upstream add -path /dst -upstream mapr/sanfrancisco/src")
    assert "/mapr/sanfrancisco/src" in fairlead.ok("stream upstream list -path /dst").out
    fairlead.ok("stream replica resume -path mapr/sanfrancisco/src -replica /mapr/sanfrancisco/dst")
    fairlead.ok("stream replica pause -path /src -replica /dst")
    fairlead.refused("stream replica remove -path /src -replica /dst", "--yes")
    fairlead.ok("stream replica remove -path /src -replica /dst --yes")
    fairlead.ok("stream upstream remove -path /dst -upstream /src --yes")
    assert fairlead.ok("stream upstream list -path /dst").out == "(none)\n"


def test_status_shows_what_runs(fairlead: CommandLine, site: Site) -> None:
    """One line a cluster; exit code 1 if one is down."""
    shown = fairlead.ok("status").out
    assert " ok " in shown
    assert re.search(r"  down \d+ (s|min)\n", shown)  # this site has no replicator, and no link that needs one
    fairlead.ok("cluster add -name lisbon -http http://127.0.0.1:1 -kafka 127.0.0.1:1")
    done = fairlead("status")
    assert done.code == 1
    assert "lisbon: no server answers at http://127.0.0.1:1" in done.out


def test_status_names_a_failing_link_and_the_command_that_mends_it(fairlead: CommandLine) -> None:
    """The exit code is 1 until all is well; the command runs as it is printed."""
    fairlead.ok("stream create -path /fails")
    fairlead.ok("stream create -path /fails2")
    fairlead.ok("stream replica add -path /fails -replica /fails2")
    # Until the destination has refused, it fails for want of a replicator.
    wait_until(lambda: "upstream add" in fairlead("status").out, "the link fails")
    done = fairlead("status")
    assert "sanfrancisco: link /fails to /mapr/sanfrancisco/fails2 fails for " in done.out
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[1].split()[1] == "degraded"
    (command,) = re.findall(r"fairlead (stream upstream add .*)", done.out)
    (row,) = fairlead("status -json").json
    assert row["failing"][0]["command"] == f"fairlead {command}"
    fairlead.ok(command)
    wait_until(lambda: "upstream add" not in fairlead("status").out, "the link is mended")
    fairlead.ok("stream replica remove -path /fails -replica /fails2 --yes")
    assert fairlead("status").code == 0


def test_the_address_book(fairlead: CommandLine, site: Site) -> None:
    """A cluster says its name and Kafka address itself; the first is the default."""
    assert fairlead.ok("cluster list").out.splitlines()[1].split() == ["sanfrancisco", site.url, site.kafka, "true"]
    assert f"kafka         {site.kafka}" in fairlead.ok("cluster info").out
    fairlead.refused(f"cluster add -name lisbon -http {site.url}", "is called sanfrancisco")
    fairlead.refused("cluster remove -name lisbon --yes", "cluster lisbon is not in")
    fairlead.ok("cluster remove -name sanfrancisco --yes")
    fairlead.refused("stream list", "no cluster is known")


BAD = [
    ("stream info -path ships", "starts with '/'"),
    ("stream info -path /mapr/sanfrancisco", "a global path is"),
    ("stream info -path /nope", "stream /nope does not exist"),
    ("stream create -path /default", "exists"),
    ("stream create -path /x -ttl soon", "-ttl 'soon'"),
    ("stream create -path /x -ttl -5", "ttl -5"),
    ("stream create -path /x -autocreate=maybe", "give true or false"),
    ("stream create -path /x -autocreate maybe", "give true or false"),
    ("stream create -path /x\ud800", "unprintable part"),
    ("stream purge -path /default", "stream purge: not implemented yet"),
    ("stream assign list -path /default", "stream assign list: not implemented yet"),
    ("stream replica edit -path /default -replica /x -throttle", "-throttle true: not implemented yet"),
    ("stream create -path /x -compression zip", "use one of off, lz4"),
    ("stream create -path /x -compact true", "-compact true: not implemented yet"),
    ("stream create -path /x -consumeperm p", "not implemented yet"),
    ("stream topic create -path /default -topic a/b", "topic name 'a/b'"),
    ("stream topic info -path /default -topic nope", "topic nope does not exist"),
    ("stream replica add -path /default -replica /mapr/lisbon/x", "cluster lisbon is not in"),
    ("stream replica add -path /default -replica /default", "itself"),
    ("stream replica autosetup -path /default -replica /x -throttle true", "not implemented yet"),
    ("stream replica add -path /default -replica /x -synchronous", "-synchronous true: not implemented yet"),
    ("stream replica edit -path /default -replica /nope -acceptwrites true", "not a replica"),
    ("stream replica pause -path /default -replica /nope", "not a replica"),
    ("stream upstream remove -path /default -upstream /nope -yes", "not an upstream"),
    ("stream list -cluster lisbon", "cluster lisbon is not in"),
    ("consume nope --from-beginning", "topic nope does not exist"),
    ("consume /nope:t --from-beginning", "does not exist"),
    ("consume a/b --from-beginning", "topic name"),
    ("consume", "name one topic"),
    ("consume t --from-beginning --group=", "give the consumer group a name"),
    ("cluster add -http localhost", "http://HOST:PORT"),
    ("cluster add -http http://127.0.0.1:99999", "the port is a number"),
    ("up --name x --data /tmp/x --advertise lisbon:0", "clients cannot connect to port 0"),
    ("cluster add -http http://127.0.0.1:1", "no server answers"),
    ("stream delete -path /default --yes --cluster=", "the name of the cluster is empty"),
    ("consume t --cluster=", "the name of the cluster is empty"),
    ("fsck --data=", "--data is empty"),
    ("up --name x --data=", "--data is empty"),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_1(fairlead: CommandLine, line: str, said: str) -> None:
    """Never a traceback."""
    fairlead.refused(line, said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stream explode", "No such command"),
        ("stream info", "Missing option '--path'"),
        ("stream info -path /x -colour red", "No such option"),
        ("copystream -src /x", "--dst"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_2(fairlead: CommandLine, line: str, said: str) -> None:
    """With where to read more."""
    fairlead.refused(line, said, code=2)


def test_json_carries_the_error_too(fairlead: CommandLine) -> None:
    """For programs: the envelope on standard output, the line on standard error."""
    done = fairlead("stream info -path /nope -json")
    assert done.code == 1
    assert done.json["errors"][0]["code"] == "unknown_stream"


def test_a_bug_is_one_line_and_says_how_to_learn_more(fairlead: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback comes only with FAIRLEAD_LOG_LEVEL=debug."""
    monkeypatch.setattr("fairlead.cli.calls.default_file", lambda variables: 1 / 0)
    fairlead.refused("stream list", "a bug: ZeroDivisionError", code=70)
    monkeypatch.setenv("FAIRLEAD_LOG_LEVEL", "debug")
    assert "Traceback" in fairlead("stream list").err


def test_fsck_finds_no_damage_and_names_it(
    empty: CommandLine, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 and a line for each damaged object."""
    empty.refused(f"fsck --data {tmp_path}", "not the data directory of a cluster")
    other = Site("lisbon", tmp_path)
    other.start("server")
    other.cli("cluster", "add", "-http", other.url)
    other.cli("stream", "topic", "create", "-path", "/default", "-topic", "t", "-cluster", "lisbon")
    other.stop()
    assert "no damage" in empty.ok(f"fsck --data {other.data}").out
    (commit,) = (each for each in other.data.glob("streams/*/shard-0000/commit/*/*"))
    commit.write_bytes(commit.read_bytes()[:-7])
    done = empty(f"fsck --data {other.data}")
    assert done.code == 1
    assert commit.name in done.out
    (other.data / "cluster.json").write_text("{}")
    assert "cluster.json: not the description of a cluster" in empty(f"fsck --data {other.data}").out
    (other.data / "cluster.json").unlink()
    assert "cluster.json: the object is missing" in empty(f"fsck --data {other.data}").out


@pytest.mark.parametrize(
    ("variable", "arguments", "said"),
    [
        (("FAIRLEAD_LINGER_MS", "soon"), "", "FAIRLEAD_LINGER_MS"),
        (("FAIRLEAD_LINGR_MS", "1"), "", "unknown setting FAIRLEAD_LINGR_MS"),
        (None, "--settings /nowhere.toml", "/nowhere.toml"),
        (None, "--kafka localhost", "HOST:PORT"),
        (None, "--kafka=", "Kafka address ''"),
        (None, "--http=", "HTTP address ''"),
        (None, "--advertise x:99999", "--advertise"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    empty: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str] | None,
    arguments: str,
    said: str,
) -> None:
    """Of the file, the variable or the option; before anything is made."""
    if variable is not None:
        monkeypatch.setenv(*variable)
    empty.refused(f"server --name lisbon --data {tmp_path}/d {arguments}", said)
    assert not (tmp_path / "d").exists()


def test_a_ready_file_that_cannot_be_written_is_one_line(empty: CommandLine, tmp_path: Path) -> None:
    """The server stops again."""
    empty.refused(
        f"server --name x --data {tmp_path / 'data'} --kafka 127.0.0.1:0 --http 127.0.0.1:0 --ready-file /nosuch/x",
        "--ready-file /nosuch/x: No such file",
    )


def test_a_copy_is_allowed_by_hand(fairlead: CommandLine) -> None:
    """By verbs below `copystream`, which is a command itself."""
    fairlead.ok("stream create -path /allowing")
    fairlead.ok("copystream allow -path /allowing -from /mapr/newyork/ships")
    assert "/mapr/newyork/ships" in fairlead.ok("copystream list -path /allowing").out
    fairlead.ok("copystream remove -path /allowing -from /mapr/newyork/ships")
    assert fairlead.ok("copystream list -path /allowing").out == "(none)\n"
    assert (
        "no copy of /mapr/newyork/ships is allowed"
        in fairlead("copystream remove -path /allowing -from /mapr/newyork/ships").err
    )
    assert "-from" in fairlead("copystream allow -path /allowing").err


def test_a_copy_that_is_refused_leaves_no_permission(fairlead: CommandLine) -> None:
    """The command asks for it first, and takes it back."""
    fairlead.ok("stream create -path /refusing")
    assert "/not-there does not exist" in fairlead("copystream -src /not-there -dst /refusing").err
    assert fairlead.ok("copystream list -path /refusing").out == "(none)\n"
    assert "/not-there does not exist" in fairlead("copystream -src /not-there -dst /new").err
    assert "/new does not exist" in fairlead("stream info -path /new").err


def test_a_topic_gets_another_name(fairlead: CommandLine) -> None:
    """Its records stay; what cannot be is refused in one line, and nobody is asked twice."""
    fairlead.ok("stream create -path /names -conflicts alias")
    assert fairlead.ok("stream info -path /names -json").json["data"][0]["conflicts"] == "alias"
    fairlead.refused("stream edit -path /names -conflicts merge", "setaside")
    fairlead.ok("stream topic create -path /names -topic ships -partitions 3")
    line = "stream topic resolve -path /names -topic"
    fairlead.refused(f"{line} ships -rename boats", "--yes")
    fairlead.refused(f"{line} ships --yes", "give one of -rename, -as and -take")
    fairlead.refused(f"{line} ships -rename a -as b --yes", "give one of -rename, -as and -take")
    fairlead.refused(f"{line} ships -as boats --yes", "no topic waits here for the name ships")
    fairlead.refused(f"{line} none -rename boats --yes", "topic none does not exist")
    fairlead.ok(f"{line} ships -rename boats --yes")
    (row,) = fairlead.ok("stream topic list -path /names -json").json["data"]
    assert (row["topic"], row["partitions"]) == ("boats", 3)


def test_a_name_that_no_host_can_have_is_told(empty: CommandLine, tmp_path: Path) -> None:
    """It is not entered; where it stands in the address book already, the other clusters are shown all the same."""
    for line in (
        "cluster add -name x -http http://a..b:7660 -kafka h:1",
        "cluster add -name x -http http://h:7660 -kafka a..b:1",
        f"up --name x --data {tmp_path}/x --kafka a..b:9092",
        f"up --name x --data {tmp_path}/x --http xn--a.{'x' * 70}:7660",
    ):
        empty.refused(line, "cannot be the name of a host")
    book = [f'[clusters.{name}]\nhttp = ["{url}"]\n' for name, url in (("x", "http://a..b:1"), ("y", "http://xn--a:9"))]
    (tmp_path / "clusters.toml").write_text("".join(book) + '[clusters.z]\nhttp = ["http://127.0.0.1:1"]\n')
    done = empty("status --json")
    assert (done.code, done.err) == (1, "")
    assert [(row["cluster"], row["state"]) for row in done.json] == [("x", "down"), ("y", "down"), ("z", "down")]
    assert ["cannot be the name of a host" in row["why"][0] for row in done.json] == [True, True, False]


@pytest.mark.parametrize(
    "line",
    [
        "stream cursor list -path /s -consumergroup \udcff",
        "stream cursor delete -path /s -consumergroup \udcff --yes",
        "stream topic list -path /s -topics \udcff",
        "job show -id \udcff",
    ],
)
def test_bytes_that_are_no_text_are_refused_where_text_is_meant(fairlead: CommandLine, line: str) -> None:
    """A command line is bytes; a name or an expression is text."""
    fairlead.refused(line, "'\\udcff': is no UTF-8 text")


@pytest.mark.parametrize("file", [".", "/", "/dev/null", "/tmp"])
def test_a_ready_file_needs_a_name(empty: CommandLine, tmp_path: Path, file: str) -> None:
    """Said before the cluster is up. What is there and no file is not replaced."""
    empty.refused(f"server --name x --data {tmp_path}/x --ready-file {file}", f"--ready-file {file}: name a file")
    assert not (tmp_path / "x").exists()
