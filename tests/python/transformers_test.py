"""attune.transformers on the CPU target: small random models against eager attention in float32."""
import importlib.util
import sys
import unittest

for package in ("torch", "transformers"):
    if importlib.util.find_spec(package) is None:
        print(f"{package} is missing: pip install {package} to run what concerns it")
        sys.exit(77)

import torch
import transformers
from torch.nn import functional

import attune
import attune.transformers
from attune.torch import ops

attune.transformers.register()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "qwen": lambda: transformers.Qwen3Config(**SMALL),
    "gemma 2": lambda: transformers.Gemma2Config(**SMALL, sliding_window=8, attn_logit_softcapping=5.0, query_pre_attn_scalar=16),
    "gpt-oss": lambda: transformers.GptOssConfig(**SMALL, sliding_window=8, num_local_experts=2, num_experts_per_tok=1),
    "mistral": lambda: transformers.MistralConfig(**SMALL, sliding_window=8),
    "llama 4": lambda: transformers.Llama4TextConfig(**SMALL, intermediate_size_mlp=96, num_local_experts=1, num_experts_per_tok=1, attention_chunk_size=8),
}


def pair(config, kind=transformers.AutoModelForCausalLM):
    """The same random model, on eager attention and on attune."""
    models = []
    for implementation in ("eager", "attune"):
        torch.manual_seed(0)
        model = kind.from_config(config(), attn_implementation=implementation)
        models.append(model.to(DEVICE).eval())
    models[1].load_state_dict(models[0].state_dict())
    for model, implementation in zip(models, ("eager", "attune")):
        assert model.config._attn_implementation == implementation
        for parameter in model.parameters():
            assert parameter.dtype == torch.float32
    return models


def tokens(rows=2, count=37):
    return torch.randint(2, 97, (rows, count), generator=torch.Generator().manual_seed(1)).to(DEVICE)


class Transformers(unittest.TestCase):
    def close(self, got, want, limit=1e-4):
        self.assertLessEqual((got - want).abs().max().item(), limit * max(1.0, want.abs().max().item()))

    def both(self, models, limit=1e-4, rows=slice(None), **inputs):
        """Logits and gradients of both, at `rows` of the output."""
        results = []
        for model in models:
            model.zero_grad()
            logits = model(**inputs).logits[rows]
            functional.cross_entropy(logits.flatten(0, -2), logits.detach().flatten(0, -2).roll(1, 1).argmax(-1) if logits.dim() > 2 else torch.zeros(
                len(logits), dtype=torch.long, device=DEVICE)).backward()
            results.append((logits.detach(), {name: x.grad for name, x in model.named_parameters() if x.grad is not None}))
        self.close(results[1][0], results[0][0], limit)
        self.assertEqual(results[1][1].keys(), results[0][1].keys())
        for name, grad in results[0][1].items():
            with self.subTest(parameter=name):
                self.close(results[1][1][name], grad, limit)

    def test_logits_and_gradients(self):
        for name, config in CONFIGS.items():
            with self.subTest(model=name):
                self.both(pair(config), input_ids=tokens())

    def test_padding(self):
        padding = torch.ones(2, 37, dtype=torch.long, device=DEVICE)
        padding[1, :9] = 0
        for name in ("llama", "gemma 2", "gpt-oss"):
            with self.subTest(model=name):
                self.both(pair(CONFIGS[name]), rows=(slice(None), slice(9, None)), input_ids=tokens(), attention_mask=padding)

    def test_packed_sequences(self):
        positions = torch.cat([torch.arange(n) for n in (5, 1, 20, 11)])[None].to(DEVICE)
        for name in ("qwen", "gemma 2"):
            with self.subTest(model=name):
                models = pair(CONFIGS[name])
                inputs = {"input_ids": tokens(1), "position_ids": positions, "use_cache": False}
                self.both(models, **inputs)
                self.close(models[1](**inputs).logits[:, 6:26], models[1](input_ids=tokens(1)[:, 6:26]).logits)

    def test_four_dimensional_masks(self):
        causal = torch.ones(37, 37, dtype=torch.bool, device=DEVICE).tril()
        causal[20:, 3:6] = False
        added = torch.zeros(2, 1, 37, 37, device=DEVICE).masked_fill(~causal, torch.finfo(torch.float32).min)
        models = pair(CONFIGS["llama"])
        self.both(models, input_ids=tokens(), attention_mask=added)
        want = models[0](input_ids=tokens(), attention_mask=added).logits
        self.close(models[1](input_ids=tokens(), attention_mask=causal.expand(2, 1, 37, 37)).logits, want)

    def test_generation(self):
        strategies = ({"do_sample": False}, {"num_beams": 3, "do_sample": False}, {"do_sample": True, "top_k": 20})
        caches = ({}, {"cache_implementation": "static"}, {"use_cache": False})
        padding = torch.ones(2, 12, dtype=torch.long, device=DEVICE)
        padding[0, :5] = 0
        for name in ("llama", "gemma 2", "gpt-oss"):
            eager, ours = pair(CONFIGS[name])
            for strategy in strategies:
                for cache in caches:
                    with self.subTest(model=name, strategy=strategy, cache=cache):
                        given = {**strategy, **cache, "max_new_tokens": 20, "attention_mask": padding, "disable_compile": True}
                        results = []
                        for model in (eager, ours):
                            torch.manual_seed(5)
                            results.append(model.generate(tokens(2, 12), **given))
                        self.assertTrue(torch.equal(*results))

    def test_steps_of_generation_compile_no_kernels(self):
        _, model = pair(CONFIGS["llama"])
        model.generate(tokens(1, 8), max_new_tokens=4, do_sample=False)
        known = len(ops.variants)
        model.generate(tokens(1, 9), max_new_tokens=20, do_sample=False)
        self.assertEqual(len(ops.variants), known)

    def test_encoder_and_decoder(self):
        def config():
            return transformers.T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0)
        models = pair(config, transformers.AutoModelForSeq2SeqLM)
        padding = torch.ones(2, 37, dtype=torch.long, device=DEVICE)
        padding[0, 30:] = 0
        self.both(models, input_ids=tokens(), attention_mask=padding, decoder_input_ids=tokens(2, 11))
        self.assertTrue(torch.equal(*[model.generate(tokens(), attention_mask=padding, max_new_tokens=12, do_sample=False) for model in models]))

    def test_vision(self):
        def config():
            return transformers.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8, num_labels=5)
        self.both(pair(config, transformers.AutoModelForImageClassification), pixel_values=torch.randn(2, 3, 32, 32, device=DEVICE))

    def test_compiled(self):
        for name in ("llama", "gemma 2", "gpt-oss"):
            eager, ours = pair(CONFIGS[name])
            if ours._can_set_experts_implementation():
                ours.set_experts_implementation("batched_mm")  # the default does not compile on every device
            forward = torch.compile(ours, fullgraph=True, backend="aot_eager")
            padding = torch.ones(2, 37, dtype=torch.long, device=DEVICE)
            for inputs in ({"input_ids": tokens()}, {"input_ids": tokens(), "attention_mask": padding}):
                with self.subTest(model=name, inputs=list(inputs)):
                    self.close(forward(**inputs, use_cache=False).logits, eager(**inputs, use_cache=False).logits)

    def test_compiled_generation(self):
        """Steps with a growing cache, and encoders of other lengths, record no graph each."""
        eager, ours = pair(CONFIGS["llama"])
        torch._dynamo.reset()
        forward = torch.compile(ours, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            caches = [transformers.DynamicCache() for _ in range(2)]
            for step in range(14):
                ids = tokens(2, 6) if step == 0 else tokens(2, step + 1)[:, -1:]
                wants = eager(input_ids=ids, past_key_values=caches[0], use_cache=True).logits
                self.close(forward(input_ids=ids, past_key_values=caches[1], use_cache=True).logits, wants)

        def config():
            return transformers.T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=96, num_layers=1, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0)
        eager, ours = pair(config, transformers.AutoModelForSeq2SeqLM)
        torch._dynamo.reset()
        forward = torch.compile(ours, fullgraph=True, backend="aot_eager")
        for count in (12, 17, 21, 22):
            self.close(forward(input_ids=tokens(2, count), decoder_input_ids=tokens(2, 5)).logits, eager(input_ids=tokens(2, count), decoder_input_ids=tokens(2, 5)).logits)

    def test_models_that_look_at_their_mask(self):
        """Doge changes it, GPT-2 asks for its dimensions; Bloom adds it to scores and is refused."""
        self.both(pair(lambda: transformers.DogeConfig(**SMALL, keep_window_size=8)), input_ids=tokens())
        eager, ours = pair(lambda: transformers.GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=None))
        results = [model.generate(tokens(2, 8), max_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True, pad_token_id=0)
                   for model in (eager, ours)]
        self.assertTrue(torch.equal(*results))
        bloom = transformers.AutoModelForCausalLM.from_config(transformers.BloomConfig(vocab_size=97, hidden_size=64, n_layer=1, n_head=4))
        bloom.config._attn_implementation = "attune"
        with self.assertRaisesRegex(attune.Error, "outside of transformers' attention interface"):
            bloom.to(DEVICE)(input_ids=tokens())
        shown = attune.transformers.mask(2, 5, 7, q_offset=2, device=DEVICE)
        self.assertTrue(torch.equal(shown[:, :, 1:], torch.ones(5, 7, dtype=torch.bool, device=DEVICE).tril(2)[1:].expand(2, 1, 4, 7)))
        self.assertEqual((shown.dim(), shown.dtype, tuple(shown.shape)), (4, torch.bool, (2, 1, 5, 7)))

    def test_gradient_checkpointing(self):
        models = pair(CONFIGS["gemma 2"])
        for model in models:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.train()
        self.both(models, input_ids=tokens(), use_cache=False)

    def test_what_is_refused(self):
        operands = [torch.zeros(1, 4, 8, 16, device=DEVICE)] * 3
        for option in ("output_attentions", "indices", "block_indices"):
            with self.assertRaisesRegex(attune.Error, f"{option} is not supported"):
                attune.transformers.attention(None, *operands, None, **{option: True})
        with self.assertRaisesRegex(attune.Error, "attention_mask of four dimensions is torch.int64"):
            attune.transformers.attention(None, *operands, torch.ones(1, 1, 8, 8, dtype=torch.int64, device=DEVICE))


if __name__ == "__main__":
    unittest.main()
