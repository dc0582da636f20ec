"""The official Python client, told by lines of JSON on stdin what to ask.

usage: client.py [async]

An order is {"base": the URL of the API, "client": its options, "endpoint": "chat", "completions" or
"models", "body": what to ask, "extra": what the API does not have, "leave": close the stream after so many parts,
"cancel": a URL that answers when the task is to be cancelled}. Each is
answered by a line of JSON: what came, and the exception if one did.
"""
import asyncio
import json
import sys
import time
import urllib.request

import openai


def take(got, answer):
    """Adds what an answer, or one chunk of it, says."""
    if answer.usage:
        got["usage"] = answer.usage.completion_tokens
    for choice in answer.choices:
        said = getattr(choice, "delta", None) or getattr(choice, "message", None)
        text = said.content if said else choice.text
        if text:
            got["parts"].append(text)
        for call in (said and said.tool_calls) or []:
            got["tool"] = call.function.name or got["tool"]
            got["arguments"] += call.function.arguments or ""
        got["finish"] = choice.finish_reason or got["finish"]


def creator(client, endpoint):
    return client.completions.create if endpoint == "completions" else client.chat.completions.create


def ask(client, order, got):
    if order["endpoint"] == "models":
        got["parts"] = [m.id for m in client.models.list()]
        return
    answer = creator(client, order["endpoint"])(**order["body"], extra_body=order.get("extra"))
    if not order["body"].get("stream"):
        return take(got, answer)
    for chunk in answer:
        take(got, chunk)
        if order.get("leave") and len(got["parts"]) == order["leave"]:
            return answer.close()


async def ask_async(client, order, got):
    if order["endpoint"] == "models":
        got["parts"] = [m.id async for m in client.models.list()]
        return
    answer = await creator(client, order["endpoint"])(**order["body"], extra_body=order.get("extra"))
    if not order["body"].get("stream"):
        return take(got, answer)
    async for chunk in answer:
        take(got, chunk)
        if order.get("leave") and len(got["parts"]) == order["leave"]:
            return await answer.close()


async def ask_until(client, order, got):
    task = asyncio.ensure_future(ask_async(client, order, got))
    if order.get("cancel"):
        await asyncio.to_thread(lambda: urllib.request.urlopen(order["cancel"]).read())
        task.cancel()
    await task


def run(concurrent, order):
    got = {"parts": [], "usage": None, "tool": None, "arguments": "", "finish": None, "error": None}
    options = {"base_url": order["base"], "api_key": "key", "timeout": 30, **order.get("client", {})}
    begin = time.monotonic()
    try:
        if concurrent:
            async def scene():
                async with openai.AsyncOpenAI(**options) as client:
                    await ask_until(client, order, got)
            asyncio.run(scene())
        else:
            with openai.OpenAI(**options) as client:
                ask(client, order, got)
    except (openai.OpenAIError, asyncio.CancelledError) as e:
        body = getattr(e, "body", None)
        got["error"] = {
            "type": type(e).__name__, "api": isinstance(e, openai.APIError), "status": getattr(e, "status_code", 0),
            "code": getattr(e, "code", None), "message": body.get("message") if isinstance(body, dict) else None,
        }
    got["seconds"] = time.monotonic() - begin
    return got


for line in sys.stdin:
    print(json.dumps(run(sys.argv[1:] == ["async"], json.loads(line))), flush=True)
