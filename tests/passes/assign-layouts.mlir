// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=true" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts | FileCheck %s
// RUN: attune-opt %s -attn-tile-size="tile-q=64 tile-k=32 warps=4 stages=2 q-registers=false" -attn-to-tile=granularity=16 -canonicalize -cse -tile-assign-layouts | FileCheck %s --check-prefix=SHARED

// CHECK-LABEL: tile.kernel @full
// CHECK:         %[[Q:.*]] = tile.load {{.*}} -> <q 64 x d 64, bf16, shared, #sched.swizzle<128>>
// CHECK:         %[[QF:.*]] = tile.convert %[[Q]] {{.*}} -> <q 64 x d 64, bf16, register, #sched.fragment<a, warps 4>>
// CHECK:         tile.for_blocks
// CHECK:           %[[K:.*]] = tile.load {{.*}} -> <k 32 x d 64, bf16, shared, #sched.swizzle<128>>
// CHECK:           tile.mma %[[QF]], %[[K]] : {{.*}} -> <q 64 x k 32, f32, register, #sched.fragment<c, warps 4>>
// CHECK:           tile.reduce max {{.*}} -> <q 64, f32, register, #sched.fragment<rows, warps 4>>
// CHECK:           tile.convert {{.*}} <q 64 x k 32, f32, register, #sched.fragment<c, warps 4>> -> <q 64 x k 32, bf16, register, #sched.fragment<a, warps 4>>
// CHECK:           tile.mma {{.*}} -> <q 64 x dv 64, f32, register, #sched.fragment<c, warps 4>>

// Where the plan has Q in shared memory it is read from there, in each product.
// SHARED-LABEL: tile.kernel @full
// SHARED:        %[[Q:.*]] = tile.load {{.*}} -> <q 64 x d 64, bf16, shared, #sched.swizzle<128>>
// SHARED:        tile.for_blocks
// SHARED:          tile.mma %[[Q]], %{{.*}} : <q 64 x d 64, bf16, shared, #sched.swizzle<128>>,
attn.attention @full dtype bf16 head_dim 64 x 64 scale 0.125 score {
} mask {
}
