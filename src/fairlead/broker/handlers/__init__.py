"""A module per Kafka API, in rooms by what it is about.

    API_KEY = 60                     Kafka's number
    VERSIONS = range(0, 3)           optional: fewer than kio knows
    RAW = True                       optional: `handle` takes the body's bytes instead of kio's request
    async def handle(ctx: RequestContext, request: Any) -> Answer
    def submit(ctx: RequestContext, body: memoryview) -> Submitted   instead of `handle`, see `dispatch.Submitted`

`request` is kio's frozen dataclass of the version in use; a field that old versions lack is read with `getattr` and a
default. The answer is a mapping of kio's field names (see `protocol/messages.py`; one mapping fits all versions, error
codes are `ErrorCode`, `throttle_time` need not be given), a `Packed` answer, or None for no answer at all (acks=0).
An exception that leaves `handle` closes the connection, as Kafka does with what it cannot answer: handlers answer
with codes (`broker.errors.code_of`, `message_of`).
"""
