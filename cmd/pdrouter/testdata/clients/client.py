"""The official Python client, as its users write it: usage: client.py BASE_URL MODEL PROMPT.

Prints one JSON object with what it was answered.
"""
import json
import sys

from openai import BadRequestError, NotFoundError, OpenAI

base, model, prompt = sys.argv[1:4]
client = OpenAI(base_url=base, api_key="key", max_retries=0, timeout=30)
messages = [{"role": "user", "content": prompt}]

whole = client.chat.completions.create(model=model, messages=messages, max_tokens=12)
parts, usage = [], None
for chunk in client.chat.completions.create(
    model=model, messages=messages, max_tokens=12, stream=True, stream_options={"include_usage": True}
):
    if chunk.choices and chunk.choices[0].delta.content:
        parts.append(chunk.choices[0].delta.content)
    if chunk.usage:
        usage = chunk.usage.completion_tokens
text = client.completions.create(model=model, prompt=prompt, max_tokens=12).choices[0].text
text_parts = [c.choices[0].text for c in client.completions.create(model=model, prompt=prompt, max_tokens=12, stream=True)]


def code(wanted, **kwargs):
    try:
        client.chat.completions.create(messages=messages, **kwargs)
    except wanted as e:
        return e.code
    return None


print(json.dumps({
    "models": [m.id for m in client.models.list()],
    "chat": whole.choices[0].message.content,
    "chat_stream": parts,
    "usage": usage,
    "completion": text,
    "completion_stream": text_parts,
    "unknown_model": code(NotFoundError, model="nobody"),
    "several": code(BadRequestError, model=model, n=2),
}))
