"""Makes a tokenizer in a folder: usage: tokenizer.py DIR.

Load tools want one, to make prompts and to count tokens; none can be fetched
where there is no model hub. This one is of bytes and their pairs, so any text
will do. It is not the simulated engines' own: let the tools use the server's
counts.
"""
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

end = "<|endoftext|>"
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(
    ["the quick brown fox jumps over the lazy dog"],
    trainers.BpeTrainer(vocab_size=512, special_tokens=[end], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
)
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, bos_token=end, eos_token=end,
    chat_template="{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
).save_pretrained(sys.argv[1])
