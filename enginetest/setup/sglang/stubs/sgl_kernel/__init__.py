"""In place of SGLang's compiled kernels, on a CPU without AMX.

For a dense model SGLang's CPU path computes by torch, and needs one kernel only:
the one below. Everything else can be imported, and fails when it is called.
"""
import importlib.machinery
import sys
import types


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len):
    """Notes for each request where the KV of its new tokens is."""
    taken = 0
    for request, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()):
        count = end - start
        req_to_token[request, start:end] = out_cache_loc[taken:taken + count].to(req_to_token.dtype)
        taken += count


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"the engine test has no kernel {name}")

    return missing


def _submodule(name):
    module = types.ModuleType(f"{__name__}.{name}")
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    module.__getattr__ = __getattr__
    sys.modules[module.__name__] = module
    return module


flash_attn, kvcacheio, mamba, quantization, elementwise, utils = map(
    _submodule, ("flash_attn", "kvcacheio", "mamba", "quantization", "elementwise", "utils"))
