"""Does what it is asked, notes it, and sometimes dies before it can answer."""

import os
import signal

seen = 0


async def app(scope, receive, send):
    global seen
    assert scope["type"] == "http"
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message.get("more_body", False)
    with open(os.environ["ACTS"], "ab", buffering=0) as acts:
        acts.write(dict(scope["headers"])[b"x-operation"] + b"\n")
    seen += 1
    if seen % int(os.environ["DIES_AFTER"]) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"done"})
