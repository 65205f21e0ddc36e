#!/usr/bin/env python3
"""Trains GPT-2 small with attune's attention or PyTorch's, and compares their loss curves.

    train_gpt2.py --attention attune
    train_gpt2.py --attention torch --dropout 0.1 --seed 3
    train_gpt2.py --compare --output build/gpt2          curves.json and curves.svg
    train_gpt2.py --device cpu --precision f32 --layers 2 --heads 4 --width 128 --context 256 --vocabulary 512 --grow 200 --steps 600

The data are sequences of uniformly random tokens whose second half repeats the first. Nothing in the first half can be predicted, and
everything in the second can: by attention alone, which has to find the token T/2 - 1 positions back and copy it. The loss is therefore
that of the second halves; the first would add nothing but noise. It starts at ln V, can reach ln(T/2) by what tokens the first half holds,
without knowing where, and falls below 0.5 once attention reads the right position. A wrong output, mask or gradient of attention leaves it
on a plateau. Among T/2 positions the right one is found slowly from uniform attention, so that sequences begin with length SHORTEST and
double to T within --grow steps, with as many tokens a step. The loss jumps with each doubling, as the distance is another, and falls again.

--compare trains in one process, with the same initial weights and data:
    torch flash, torch efficient, attune                  without dropout: the two of PyTorch differ in the order of their sums alone
    torch flash with two dropout seeds, attune            with dropout 0.1
and states of either whether attune's curve stays within the spread of PyTorch's. With curves smoothed over WINDOW steps, a and b those of
PyTorch and c attune's, the spread is max |a - b| over all steps, and attune's deviation max min(|c - a|, |c - b|); it is within the spread
where its deviation is at most that. The curves part where the loss falls, by a few steps more or less, so that chance alone, with nothing
wrong, puts the last of three equal curves outside in one comparison of three, of four (--runs 3) in one of eight, of five in one of sixteen.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WINDOW = 20             # steps that a smoothed point averages
COMPARED_DROPOUT = 0.1
GOAL = 0.5              # the loss of second halves at which the task counts as learnt
WARM_STEPS = 10         # not counted in step times
SHORTEST = 64


def torch_attention(options, backend):
    kernel = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH,
              "cudnn": SDPBackend.CUDNN_ATTENTION}[backend]

    def attention(q, k, v, dropout):
        with sdpa_kernel(kernel):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
    return attention


def attune_attention(options):
    import attune.torch

    def causal(b, h, q, k):
        return q >= k

    def attention(q, k, v, dropout):
        mask = attune.torch.create_block_mask(causal, None, None, q.shape[2], k.shape[2], device=options.device)
        return attune.torch.flex_attention(q, k, v, block_mask=mask, dropout_p=dropout)
    return attention


class Block(nn.Module):
    def __init__(self, options, attention):
        super().__init__()
        width = options.width
        self.heads, self.dropout, self.attention = options.heads, options.dropout, attention
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):                                                               # [B, T, C]
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)    # each [B, H, T, D]
        o = self.attention(q, k, v, self.dropout if self.training else 0.0)             # [B, H, T, D]
        x = x + F.dropout(self.project(o.transpose(1, 2).reshape(B, T, C)), self.dropout, self.training)
        return x + F.dropout(self.narrow(F.gelu(self.widen(self.norm2(x)), approximate="tanh")), self.dropout, self.training)


class GPT2(nn.Module):
    """GPT-2: learnt positions, pre-normalised blocks, the output layer tied to the token embedding. Initial weights are normal with
    deviation 0.02 at width 768, and those that add to the residual stream are divided by sqrt(2 layers). Positions start as sinusoids,
    of which a fixed distance is a linear map; GPT-2's start random."""

    def __init__(self, options, attention):
        super().__init__()
        self.dropout = options.dropout
        self.tokens = nn.Embedding(options.vocabulary, options.width)
        self.positions = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList(Block(options, attention) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)
        for name, parameter in self.blocks.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 * math.sqrt(768 / options.width))
                if name.endswith(("project.weight", "narrow.weight")):
                    parameter.data /= math.sqrt(2 * options.layers)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.normal_(self.tokens.weight, std=0.02)
        rates = torch.exp(-math.log(1e4) * torch.arange(options.width // 2) / (options.width // 2))
        angles = torch.arange(options.context)[:, None] * rates                         # [T, C / 2]
        self.positions.weight.data.copy_(0.02 * torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, tokens):                                                          # [B, T] -> logits [B, T, V]
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        x = F.dropout(x, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.t()


def optimizer_of(model, options):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, 0.95), fused=True)


def learning_rate(step, options):
    """Linear warm-up, then a cosine to a tenth."""
    if step < options.warmup:
        return options.learning_rate * (step + 1) / options.warmup
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    return options.learning_rate * (0.55 + 0.45 * math.cos(math.pi * done))


def length_of(step, options):
    """SHORTEST, doubled at equal intervals until it is T at step options.grow."""
    doublings = max(0, (options.context // SHORTEST).bit_length() - 1)
    if step >= options.grow or not doublings:
        return options.context
    return options.context >> doublings - step * doublings // options.grow


def train(options, attention, label, dropout_seed=0):
    """One run: {"label", "grow", "loss": of each step, "step_ms", "peak_mib", "seconds"}. Weights and data depend on
    options.seed alone; `dropout_seed` moves what dropout drops."""
    cuda = options.device == "cuda"
    torch.manual_seed(options.seed)
    model = GPT2(options, attention).to(options.device).train()
    optimizer = optimizer_of(model, options)
    data = torch.Generator(options.device).manual_seed(options.seed + 1)
    torch.manual_seed(options.seed + 1000 * (dropout_seed + 1))
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    losses, times = [], []
    begin = time.perf_counter()
    for step in range(options.steps):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, options)
        length = length_of(step, options)
        half, batch = length // 2, options.batch * options.context // length
        first = torch.randint(options.vocabulary, (batch, half), device=options.device, generator=data)
        tokens = torch.cat([first, first], 1)                                           # [B, T]
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            logits = model(tokens)[:, half - 1:-1]                                      # of the targets half .. T - 1
        loss = F.cross_entropy(logits.float().flatten(0, 1), first.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
        synchronize()
        if step >= max(WARM_STEPS, options.grow):
            times.append(time.perf_counter() - start)
        if options.log and (step + 1) % options.log == 0:
            recent = torch.stack(losses[-options.log:]).mean().item()
            ms = 1e3 * (time.perf_counter() - start)
            print(f"{label}: step {step + 1}, length {length}, loss of second halves {recent:.4f}, {ms:.1f} ms", flush=True)
    run = {"label": label, "grow": options.grow, "loss": torch.stack(losses).tolist(),
           "step_ms": 1e3 * statistics.median(times or [float("nan")]),
           "peak_mib": torch.cuda.max_memory_allocated() / 2 ** 20 if cuda else None, "seconds": time.perf_counter() - begin}
    del model, optimizer
    if cuda:
        torch.cuda.empty_cache()
    return run


def smooth(curve):
    """Means of the last WINDOW steps, for every step that has as many."""
    window = min(WINDOW, len(curve))
    total = sum(curve[:window])
    means = [total / window]
    for new, old in zip(curve[window:], curve):
        total += new - old
        means.append(total / window)
    return means


def summary(run):
    curve = smooth(run["loss"])
    grown = run["grow"]    # what counts is the loss at full length
    reached = next((step + WINDOW for step, loss in enumerate(curve) if loss < GOAL and step >= grown), None)
    memory = "" if run["peak_mib"] is None else f", peak memory {run['peak_mib']:.0f} MiB"
    goal = f"below {GOAL} from step {reached}" if reached else f"NOT below {GOAL}"
    return f"{run['label']}: loss of second halves {curve[-1]:.4f}, {goal}; {run['step_ms']:.1f} ms a step{memory}, {run['seconds']:.0f} s"


def within_spread(runs, title):
    """Prints the measure of the file's comment for runs of PyTorch and a last one of attune; whether attune's is within."""
    *references, ours = (smooth(run["loss"]) for run in runs)
    spread, spread_step = max((max(losses) - min(losses), step) for step, losses in enumerate(zip(*references)))
    deviation, step = max((min(abs(loss - other) for other in others), step) for step, (loss, *others) in enumerate(zip(ours, *references)))
    within, learnt = deviation <= spread, all(curve[-1] < GOAL for curve in (*references, ours))
    print(f"{title}: PyTorch's {len(references)} differ by at most {spread:.3g} (step {spread_step + WINDOW}); attune is at most "
          f"{deviation:.3g} from the nearest (step {step + WINDOW}): {'within' if within else 'NOT within'} the spread"
          f"{'' if learnt else f'; not every run reached {GOAL}'}")
    print(f"{title}: last losses {', '.join(f'{curve[-1]:.4f}' for curve in references)} and attune's {ours[-1]:.4f}")
    return {"title": title, "spread": spread, "deviation": deviation, "within": within and learnt}


def svg(panels, context, vocabulary):
    """Panels side by side, [(title, runs)], as an SVG of the smoothed curves. Loss is on a logarithmic axis."""
    width, height, left, top, gap = 460, 300, 60, 40, 40
    colours, ours = ("#1f77b4", "#7f7f7f", "#2ca02c", "#9467bd"), "#d62728"
    low, high = math.log(1e-3), math.log(20)
    y = lambda loss: top + height * (high - math.log(min(20, max(1e-3, loss)))) / (high - low)
    parts = []
    for index, (title, runs) in enumerate(panels):
        x0 = left + index * (width + gap + left)
        steps = max(len(run["loss"]) for run in runs)
        parts.append(f'<text x="{x0}" y="{top - 14}" font-weight="bold">{title}</text>')
        parts.append(f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
        for loss in (0.001, 0.01, 0.1, 0.5, 1, 10):
            parts.append(f'<path d="M{x0} {y(loss):.1f}h{width}" stroke="{"#2a2" if loss == GOAL else "#e4e4e4"}"/>'
                         f'<text x="{x0 - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>')
        for loss, name in ((math.log(vocabulary), "ln V"), (math.log(context / 2), "ln T/2")):
            parts.append(f'<path d="M{x0} {y(loss):.1f}h{width}" stroke="#bbb" stroke-dasharray="2 3"/>'
                         f'<text x="{x0 + width - 4}" y="{y(loss) - 3:.1f}" text-anchor="end" fill="#888">{name}</text>')
        for count in range(5):
            step = steps * count // 4
            parts.append(f'<text x="{x0 + width * count / 4:.0f}" y="{top + height + 16}" text-anchor="middle">{step}</text>')
        for row, (run, colour) in enumerate(zip(runs, [*colours[:len(runs) - 1], ours])):
            points = " ".join(f"{x0 + width * (step + WINDOW) / steps:.1f},{y(loss):.1f}" for step, loss in enumerate(smooth(run["loss"])))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
            parts.append(f'<text x="{x0 + 10}" y="{top + height - 12 - 16 * row}" fill="{colour}">{run["label"]}</text>')
    total = len(panels) * (width + gap + left) + 20
    parts.append(f'<text x="{left}" y="{top + height + 36}">step; loss of second halves, mean of {WINDOW} steps</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height + top + 50}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def compare(options):
    cuda = options.device == "cuda"
    kernels = (["flash", "efficient", "cudnn", "math"] if cuda else ["flash", "math"])[:options.runs]
    seeded = "flash" if cuda else "math"        # the CPU's flash kernel has no dropout
    attune = attune_attention(options)
    plain = argparse.Namespace(**{**vars(options), "dropout": 0.0})
    dropped = argparse.Namespace(**{**vars(options), "dropout": options.dropout or COMPARED_DROPOUT})
    panels = [("without dropout", [(plain, torch_attention(options, kernel), f"torch {kernel}", 0) for kernel in kernels]),
              (f"dropout {dropped.dropout}", [(dropped, torch_attention(options, seeded), f"torch {seeded}, seed {seed}", seed)
                                              for seed in range(options.runs)])]
    for _, rows in panels:
        rows.append((rows[0][0], attune, "attune", 0))
    results, verdicts = [], []
    for title, rows in panels:
        runs = []
        for settings, attention, label, seed in rows:
            runs.append(train(settings, attention, label, seed))
            print(summary(runs[-1]), flush=True)
        verdicts.append(within_spread(runs, title))
        results.append((title, runs))
    options.output.mkdir(parents=True, exist_ok=True)
    settings = {name: value for name, value in vars(options).items() if isinstance(value, (int, float, str))}
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    (options.output / "curves.json").write_text(json.dumps({"machine": f"{machine}, PyTorch {torch.__version__}", "options": settings,
        "window": WINDOW, "verdicts": verdicts, "runs": dict(results)}))
    (options.output / "curves.svg").write_text(svg(results, options.context, options.vocabulary))
    print(f"wrote {options.output}/curves.json and curves.svg")
    return 0 if all(verdict["within"] for verdict in verdicts) else 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = arguments.add_argument
    add("--attention", choices=("attune", "torch"), default="attune")
    add("--sdpa", choices=("flash", "efficient", "math", "cudnn"), default="flash", help="PyTorch's kernel, for --attention torch")
    add("--compare", action="store_true", help="all runs, and the measure of the spread; exits with 1 where attune is outside")
    add("--runs", type=int, choices=(2, 3, 4), default=2,
        help="PyTorch's in each comparison: its kernels flash, efficient, cudnn and math, or dropout seeds")
    add("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for --compare's files")
    add("--dropout", type=float, default=0.0, help="of embeddings, attention and both residual branches")
    add("--seed", type=int, default=0, help="of weights, data and dropout")
    add("--steps", type=int, default=1500)
    add("--batch", type=int, default=16)
    add("--learning-rate", type=float, default=1e-3)
    add("--warmup", type=int, default=100, help="steps")
    add("--grow", type=int, default=600, help="steps until sequences have length T; 0: from the first")
    add("--layers", type=int, default=12)
    add("--heads", type=int, default=12)
    add("--width", type=int, default=768)
    add("--context", type=int, default=1024, help="T, the length of a sequence")
    add("--vocabulary", type=int, default=8192, help="V")
    add("--precision", choices=("bf16", "f32"), default="bf16", help="bf16 is autocast")
    add("--device", choices=("cuda", "cpu"), default="cuda")
    add("--log", type=int, default=50, help="steps between lines; 0: none")
    options = arguments.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch can use; see --help for a size that a CPU trains in minutes")
    if options.width % options.heads or options.width % 2 or options.context & (options.context - 1):
        sys.exit(f"width {options.width} must be even and a multiple of heads {options.heads}, and context {options.context} a power of two")
    if options.compare:
        sys.exit(compare(options))
    attention = attune_attention(options) if options.attention == "attune" else torch_attention(options, options.sdpa)
    label = "attune" if options.attention == "attune" else f"torch {options.sdpa}"
    print(summary(train(options, attention, label)))


if __name__ == "__main__":
    main()
