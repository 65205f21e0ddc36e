"""Small random models of timm and diffusers, whose attention sdpa_kernel runs on attune, against PyTorch's in float32."""
import importlib.util
import sys
import threading
import unittest

for package in ("torch", "timm", "diffusers"):
    if importlib.util.find_spec(package) is None:
        print(f"{package} is missing: pip install {package} to run what concerns it")
        sys.exit(77)

import diffusers
import timm
import torch

import attune.torch as at
from attune.torch import sdpa

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.calls = 0
        self.original = sdpa.scaled_dot_product_attention

        def counted(*args, **options):
            self.calls += 1
            return self.original(*args, **options)
        sdpa.scaled_dot_product_attention = counted

    def tearDown(self):
        sdpa.scaled_dot_product_attention = self.original

    def compare(self, model, layers, *args, output=lambda x: x, **inputs):
        """Output, gradients, and output of the compiled model; each layer calls attune once."""
        model = model.to(DEVICE).eval()
        parameters = list(model.parameters())
        want = output(model(*args, **inputs))
        grads = torch.autograd.grad(want.square().sum(), parameters, allow_unused=True)

        def run(*args, **inputs):
            with at.sdpa_kernel():
                return output(model(*args, **inputs))
        got = run(*args, **inputs)
        self.assertEqual(self.calls, layers)
        self.near(got, want)
        for a, b in zip(torch.autograd.grad(got.square().sum(), parameters, allow_unused=True), grads):
            self.assertEqual(a is None, b is None)
            if a is not None:
                self.near(a, b)
        self.near(torch.compile(run, fullgraph=True, backend="aot_eager")(*args, **inputs), want)

    def near(self, got, want):
        self.assertLessEqual((got - want).abs().max().item(), 1e-4 * max(1.0, want.abs().max().item()))

    def test_vit(self):
        model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2, num_classes=5)
        self.compare(model, 2, torch.randn(2, 3, 64, 64, device=DEVICE))

    def test_dit(self):
        model = diffusers.DiTTransformer2DModel(sample_size=8, num_layers=2, patch_size=2, num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4,
                                                num_embeds_ada_norm=10)
        self.compare(model, 2, output=lambda x: x.sample, hidden_states=torch.randn(2, 4, 8, 8, device=DEVICE), timestep=torch.tensor([3, 5], device=DEVICE),
                     class_labels=torch.tensor([1, 2], device=DEVICE))


    def test_attention_of_pytorch(self):
        """torch.nn.MultiheadAttention, whose call is within another function, nested contexts, and threads outside of them."""
        model = torch.nn.MultiheadAttention(32, 4, batch_first=True).to(DEVICE)
        x = torch.randn(2, 9, 32, device=DEVICE)
        hidden = torch.ones(9, 9, dtype=torch.bool, device=DEVICE).triu(1)
        options = ({}, {"attn_mask": hidden}, {"is_causal": True, "attn_mask": hidden}, {"key_padding_mask": torch.arange(9, device=DEVICE).expand(2, 9) > 6})
        for given in options:
            want = model(x, x, x, need_weights=False, **given)[0]
            with at.sdpa_kernel():
                self.near(model(x, x, x, need_weights=False, **given)[0], want)
        self.assertEqual(self.calls, len(options))
        with at.sdpa_kernel():
            with at.sdpa_kernel():
                model(x, x, x, need_weights=False)
            model(x, x, x, need_weights=False)
            thread = threading.Thread(target=lambda: model(x, x, x, need_weights=False))
            thread.start()
            thread.join()
        model(x, x, x, need_weights=False)
        self.assertEqual(self.calls, len(options) + 2)
        self.assertIs(torch.nn.functional.scaled_dot_product_attention, sdpa._original)


if __name__ == "__main__":
    unittest.main()
