// RUN: attune-opt %s -attn-to-tile -verify-diagnostics

// expected-error @below {{has no attn.plan; run attn-tile-size first}}
attn.attention @unplanned dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}
