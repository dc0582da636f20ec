"""Anthropic's Python client asks once: usage: messages.py BASE_URL.

Prints one JSON object with the exception that it throws.
"""
import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="key", timeout=30)
try:
    client.messages.create(model="sim-model", max_tokens=12, messages=[{"role": "user", "content": "Hi"}])
except anthropic.APIStatusError as e:
    print(json.dumps({"type": type(e).__name__, "status": e.status_code, "body": e.body}))
