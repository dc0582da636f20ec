"""A plain ASGI app, run by a real uvicorn in uvicorn_test.go."""


async def body_of(receive):
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            return size


async def start(send, status, *headers):
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def whole(send, status, body, *headers):
    await start(send, status, (b"content-length", str(len(body)).encode()), *headers)
    await send({"type": "http.response.body", "body": body})


async def plain(receive, send):
    size = await body_of(receive)
    await whole(send, 200, b"got %d" % size)


async def stream(receive, send):
    await body_of(receive)
    await start(send, 200, (b"content-type", b"text/event-stream"))
    for i in range(20):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % i, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def early(receive, send):
    await whole(send, 413, b"too large")


async def early_close(receive, send):
    await whole(send, 413, b"too large", (b"connection", b"close"))


async def closing(receive, send):
    await body_of(receive)
    await whole(send, 200, b"bye", (b"connection", b"close"))


async def dies(receive, send):
    await body_of(receive)
    await start(send, 200)
    await send({"type": "http.response.body", "body": b"data: 0\n\n", "more_body": True})
    raise RuntimeError("the engine dies in the middle of a stream")


PATHS = {
    "/plain": plain,
    "/stream": stream,
    "/early": early,
    "/early_close": early_close,
    "/closing": closing,
    "/dies": dies,
}


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await PATHS[scope["path"]](receive, send)
