"""Calls operations through the Python client, as a test on the other side of stdin and stdout asks it to.

A request is a line: {"id": 1, "method": "session/create", "params": {...}}. Each event of the turn it runs is a line
{"id": 1, "event": {...}}, and its end {"id": 1, "result": ...} or {"id": 1, "error": {"code": ..., "message": ...}}.
The words after the script are the address of a server, or the command that starts one.
"""

import asyncio
import json
import sys

from rkat import RkatError, connect


def tell(line: dict) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def serve(client, request: dict) -> None:
    own = request["id"]
    try:
        result = await client.call(
            request["method"],
            request["params"],
            on_event=lambda delivery: tell({"id": own, "event": delivery.event}),
        )
        tell({"id": own, "result": result})
    except RkatError as error:
        tell({"id": own, "error": {"code": error.code, "message": error.message, "details": error.details}})


async def main() -> None:
    first, *rest = sys.argv[1:]
    is_address = first.startswith("http://")
    client = await (connect(url=first, token="conformance") if is_address else connect(command=first, args=rest))
    loop = asyncio.get_running_loop()
    running = set()
    try:
        # Side by side: an interrupt comes while a turn runs.
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            task = asyncio.create_task(serve(client, json.loads(line)))
            running.add(task)
            task.add_done_callback(running.discard)
    finally:
        await client.close()


asyncio.run(main())
