// RUN: attune-opt %s -split-input-file -attn-differentiate -canonicalize "-attn-recompute=arch=sm_90a save=dropout" -verify-diagnostics

// expected-error @+1 {{what dropout keeps is to be saved, but the variant has no dropout}}
attn.attention @plain dtype bf16 head_dim 64 x 64 scale 0.125 attributes {gradients = #attn.gradients<[]>} score {
} mask {
}
