"""An engine's KV event publisher, as vLLM and SGLang have it: a PUB socket and a
ROUTER that replays, with libzmq and msgspec. What it publishes it reads from
standard input, one JSON object per line:

  {"events": [...]}                publish a batch; {"hex": ".."} stands for bytes
  {"events": [...], "lost": true}  keep it for replay, but do not publish it
  {"payload": "hex"}               publish these bytes
  {"forget": true}                 have nothing to replay

usage: kvpublisher.py PORT REPLAY_PORT [TOPIC]; REPLAY_PORT 0: no replay, and the
PUB socket says on standard output when somebody subscribes.
"""

import json
import os
import sys

import msgspec
import zmq

port, replay_port, topic = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3] if len(sys.argv) > 3 else "").encode()
context = zmq.Context()
pub = context.socket(zmq.PUB if replay_port else zmq.XPUB)
pub.bind(f"tcp://127.0.0.1:{port}")
poller = zmq.Poller()
poller.register(sys.stdin.fileno(), zmq.POLLIN)
replay = None
if replay_port:
    replay = context.socket(zmq.ROUTER)
    replay.bind(f"tcp://127.0.0.1:{replay_port}")
    poller.register(replay, zmq.POLLIN)
else:
    poller.register(pub, zmq.POLLIN)
pack = msgspec.msgpack.Encoder()
kept, seq, unread = [], 0, b""


def say(text):
    print(text, flush=True)


def undo(v):
    if isinstance(v, dict):
        return bytes.fromhex(v["hex"]) if list(v) == ["hex"] else {k: undo(x) for k, x in v.items()}
    return [undo(x) for x in v] if isinstance(v, list) else v


def publish(line):
    global seq
    order = json.loads(line)
    if order.get("forget"):
        kept.clear()
        return say("forgot")
    payload = bytes.fromhex(order["payload"]) if "payload" in order else pack.encode([1789095808.8, undo(order["events"]), 0])
    kept.append((seq, payload))
    if not order.get("lost"):
        pub.send_multipart((topic, seq.to_bytes(8, "big"), payload))
    seq += 1
    say("published")


def serve():
    client, _, start = replay.recv_multipart()
    for n, payload in kept:
        if n >= int.from_bytes(start, "big"):
            replay.send_multipart((client, b"", topic, n.to_bytes(8, "big"), payload))
    replay.send_multipart((client, b"", b"", (-1).to_bytes(8, "big", signed=True), b""))


say("listening")
while True:
    ready = dict(poller.poll())
    if replay in ready:
        serve()
    if pub in ready and pub.recv()[:1] == b"\x01":
        say("subscribed")
    if sys.stdin.fileno() in ready:
        read = os.read(sys.stdin.fileno(), 1 << 16)
        if not read:
            break
        *lines, unread = (unread + read).split(b"\n")
        for line in lines:
            publish(line)
