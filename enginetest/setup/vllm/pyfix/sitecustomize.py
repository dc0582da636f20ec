"""Loaded by every Python process of vLLM in the engine test.

vLLM waits for messages of its worker by calling os.sched_yield() in a loop. On a
kernel that takes a turn away for each yield, and with two cores for two engines,
the one that waits is then starved for up to half a minute. A short sleep is as
good, and lets others compute.
"""
import os
import time

os.sched_yield = lambda: time.sleep(0.0002)
