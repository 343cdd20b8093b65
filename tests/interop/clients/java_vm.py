"""Java's own client library, called from Python: a virtual machine beside the tests that has Kafka's jars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JJavaError

from tests.interop.clients.kafka_tools import JARS, JVM_FLAGS

_WRAPPERS = frozenset({"java.util.concurrent.ExecutionException", "java.util.concurrent.CompletionException"})


class JavaVM:
    """`vm.of("org.apache.kafka.clients.admin.Admin")` is a Java class: call its constructor or static methods."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway

    def of(self, name: str) -> Any:
        """A class by its full name; `$` before the name of one inside it."""
        found = self._gateway.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def list(self, *items: Any) -> Any:
        """A `java.util.List`."""
        made = self._gateway.jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def map(self, items: Mapping[Any, Any]) -> Any:
        """A `java.util.Map`."""
        made = self._gateway.jvm.java.util.HashMap()
        for key, value in items.items():
            made.put(key, value)
        return made

    def objects(self, *items: Any) -> Any:
        """An array of objects."""
        made = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made

    @contextmanager
    def closing(self, client: Any) -> Iterator[Any]:
        """A client until the block ends."""
        try:
            yield client
        finally:
            client.close()


@contextmanager
def java_vm(jars: Path = JARS) -> Iterator[JavaVM]:
    """A virtual machine until the block ends; it ends with this process too."""
    # A session of Spark in this process has put in its own, which asks Spark's machine what an error of any machine is.
    java_gateway.get_return_value = protocol.get_return_value
    port, token = launch_gateway(
        jarpath=find_jar_path(), classpath=f"{jars}/*", javaopts=list(JVM_FLAGS), die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield JavaVM(gateway)
    finally:
        gateway.shutdown()


def refusal(call: Callable[[], Any]) -> str | None:
    """How Java shows why `call` failed: its class without package, and its message. None if it did not fail."""
    try:
        call()
    except Py4JJavaError as error:
        raised = error.java_exception
        while raised.getClass().getName() in _WRAPPERS:
            raised = raised.getCause()
        return f"{raised.getClass().getSimpleName()}: {raised.getMessage()}"
    return None
