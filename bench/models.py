#!/usr/bin/env python3
"""models.py: a Llama-shaped random model of transformers, bf16: a training step and decoding, with attention by attune, by SDPA on cuDNN, by FlexAttention.

    models.py                                        both tables, on the GPU
    models.py --only step
    models.py --device cpu --scale 64                that it runs: a small model on the CPU target; the times say nothing

The model has 16 layers, hidden size 2,048, 16 heads of 128 over 8 key heads, and is compiled by torch.compile. `step` is forward, loss and backward of
one sequence of 8,192 tokens, without an optimizer; `attention` beside it is one layer's attention alone, forward and backward, with the host's time hidden.
`decode` generates 512 tokens after a prompt of 1,024 into a static cache by one captured CUDA graph a step. Times are the least of --repeats on a GPU that
does nothing else.
"""
import argparse
import contextlib
import time

import torch
import transformers
from launch_timer import LaunchTimer
from torch.nn.attention import SDPBackend, sdpa_kernel

import attune.torch
import attune.transformers

KINDS = ("attune", "sdpa", "flex_attention")


def model_of(options, kind, layers=16):
    scale = options.scale
    config = transformers.LlamaConfig(hidden_size=2048 // scale, intermediate_size=8192 // scale, num_hidden_layers=max(2, layers // scale), num_attention_heads=16 // min(scale, 8),
                                      num_key_value_heads=8 // min(scale, 8), head_dim=max(16, 128 // scale), vocab_size=32000 // scale, max_position_embeddings=16384)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=kind, dtype=torch.bfloat16).to(options.device)


def backend(options, kind):
    """SDPA's on the GPU is cuDNN's."""
    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if kind == "sdpa" and options.device == "cuda" else contextlib.nullcontext()


def seconds(options, call):
    def wait():
        if options.device == "cuda":
            torch.cuda.synchronize()
    for _ in range(3):
        call()
    times = []
    for _ in range(options.repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times)


def step(options):
    length = 8192 // options.scale
    ids = torch.randint(0, 32000 // options.scale, (1, length), device=options.device)
    print(f"A training step of {length:,} tokens\n\n| attention | step, ms | over attune's | attention, ms | over attune's |\n|---|---|---|---|---|", flush=True)
    first = None
    for kind in KINDS:
        torch.compiler.reset()
        model = model_of(options, kind).train()
        compiled = torch.compile(model)

        def run():
            model.zero_grad(set_to_none=True)
            compiled(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        try:
            with backend(options, kind):
                of_step = 1e3 * seconds(options, run)
                of_attention = attention(options, kind, length)
        except Exception as error:  # a peer that does not run here is a row that says so
            print(f"| {kind} | {str(error).splitlines()[0][:120]} |", flush=True)
            continue
        first = first or (of_step, of_attention)
        print(f"| {kind} | {of_step:.2f} | {of_step / first[0]:.3f} | {of_attention:.3f} | {of_attention / first[1]:.3f} |", flush=True)


def attention(options, kind, length):
    heads, of_keys, dim = 16 // min(options.scale, 8), 8 // min(options.scale, 8), max(16, 128 // options.scale)
    q, k, v = [torch.randn(1, n, length, dim, device=options.device, dtype=torch.bfloat16, requires_grad=True) for n in (heads, of_keys, of_keys)]
    grad = torch.randn_like(q)
    function = {"attune": attune.torch.scaled_dot_product_attention, "sdpa": torch.nn.functional.scaled_dot_product_attention}.get(kind)
    if kind == "flex_attention":
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, length, length, device=options.device)
        flex = torch.compile(flex_attention)
        output = flex(q, k, v, block_mask=mask, enable_gqa=True)

        def forward():
            with torch.no_grad():
                flex(q, k, v, block_mask=mask, enable_gqa=True)
    else:
        output = function(q, k, v, is_causal=True, enable_gqa=True)

        def forward():
            with torch.no_grad():
                function(q, k, v, is_causal=True, enable_gqa=True)
    calls = [forward, lambda: torch.autograd.grad(output, (q, k, v), grad, retain_graph=True)]
    if options.device == "cpu":
        return 1e3 * sum(seconds(options, call) for call in calls)
    other = torch.empty(128 << 20, dtype=torch.int32, device="cuda")
    for call in calls:
        call()
    return sum(min(times) for times in LaunchTimer(torch.cuda, other.max).milliseconds(calls, options.repeats))


def decode(options):
    tokens, prompt = 512 // options.scale, 1024 // options.scale
    print(f"\nDecoding {tokens} tokens after {prompt:,}\n\n| sequences | attention | ms a token | over attune's | compiled after the first step |\n|---|---|---|---|---|", flush=True)
    for batch in (1, 32):
        first = None
        for kind in KINDS[:2]:
            torch.compiler.reset()
            model = model_of(options, kind).eval()
            try:
                of_token, compiled = decode_time(options, model, batch, prompt, tokens)
            except Exception as error:
                print(f"| {batch} | {kind} | {str(error).splitlines()[0][:160]} |", flush=True)
                continue
            first = first or of_token
            print(f"| {batch} | {kind} | {of_token:.3f} | {of_token / first:.3f} | {compiled} |", flush=True)


@torch.no_grad()
def decode_time(options, model, batch, prompt, tokens):
    """Milliseconds a token, and how many graphs were compiled after the first step."""
    ids = torch.randint(0, model.config.vocab_size, (batch, prompt), device=options.device)
    cache = transformers.StaticCache(config=model.config, max_cache_len=prompt + tokens + 8)
    places = torch.arange(prompt, device=options.device)
    # SDPA's choice of a backend is its own here: cuDNN takes no mask of one row.
    token = model(ids, past_key_values=cache, cache_position=places, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)
    compiled = torch.compile(model, mode="reduce-overhead" if options.device == "cuda" else "default", fullgraph=True)
    place = torch.tensor([prompt], device=options.device)

    def one():
        nonlocal token
        torch.compiler.cudagraph_mark_step_begin()
        token = compiled(token, past_key_values=cache, cache_position=place, position_ids=place[None].expand(batch, 1), use_cache=True).logits[:, -1:].argmax(-1).clone()
        place.add_(1)
    for _ in range(4):
        one()
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    if options.device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(tokens):
        one()
    if options.device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin) / tokens, torch._dynamo.utils.counters["stats"]["unique_graphs"] - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("step", "decode"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes of the model and of its inputs")
    options = parser.parse_args()
    attune.transformers.register()
    for of in (step, decode):
        if options.only in (None, of.__name__):
            of(options)


if __name__ == "__main__":
    main()
