// RUN: attune-print-cuda %s | FileCheck %s --check-prefixes=ALL,BF16
// RUN: sed 's/dtype bf16/dtype f16/' %s > %t.mlir && attune-print-cuda %t.mlir | FileCheck %s --check-prefixes=ALL,F16
// RUN: sed 's/dtype bf16/dtype f32/' %s > %t.mlir && attune-print-cuda %t.mlir | FileCheck %s --check-prefixes=ALL,F32
// RUN: sed 's/attributes {/attributes {precise, /' %s > %t.mlir && attune-print-cuda %t.mlir | FileCheck %s --check-prefixes=ALL,F32

// Every scalar op.

sched.kernel @scalars(lse: optional out [b, h, q] f32) grid [b, h, q by 128] arch "sm_80" threads 128 blocks_per_sm 1 shared_bytes 0 dtype bf16
    plan <q 128 x k 64, warps = 4, blocks_per_sm = 1>
    attributes {tensors = [#attn.tensor<x, f32, rank 1>, #attn.tensor<half, f16, rank 2>, #attn.tensor<brain, bf16, rank 0>,
                           #attn.tensor<int, i32, rank 1>, #attn.tensor<wide, i64, rank 1>, #attn.tensor<seen, i8, rank 1>],
                scalars = [#attn.scalar<cap, f32>, #attn.scalar<window, i32>, #attn.scalar<shift, i64>, #attn.scalar<on, i1>]} {
  // ALL:      alignas(8) float cap;
  // ALL-NEXT: alignas(8) int window;
  // ALL-NEXT: alignas(8) long long shift;
  // ALL-NEXT: alignas(8) bool on;
  // ALL-NEXT: float *lse;  // [b, h, q], or null
  // ALL-NEXT: long long lse_stride[3], lse_extent[3];
  // ALL-NEXT: const float *x;
  // ALL-NEXT: long long x_stride[1], x_extent[1];
  // ALL-NEXT: const f16 *half;
  // ALL-NEXT: long long half_stride[2], half_extent[2];
  // ALL-NEXT: const bf16 *brain;
  // ALL-NEXT: const int *int_;
  // ALL-NEXT: long long int__stride[1], int__extent[1];
  // ALL-NEXT: const long long *wide;
  // ALL-NEXT: long long wide_stride[1], wide_extent[1];
  // ALL-NEXT: const unsigned char *seen;
  // ALL-NEXT: long long seen_stride[1], seen_extent[1];
  // ALL-NEXT: };
  // ALL-NEXT: static_assert(sizeof(Params) == 320,
  %X = tile.param "tensors.x" : !tile.view<1, f32>
  %half = tile.param "tensors.half" : !tile.view<2, f16>
  %brain = tile.param "tensors.brain" : !tile.view<0, bf16>
  %ints = tile.param "tensors.int" : !tile.view<1, i32>
  %wide = tile.param "tensors.wide" : !tile.view<1, i64>
  %seen = tile.param "tensors.seen" : !tile.view<1, i8>
  %L = tile.param "lse" : !tile.view<3, f32>
  %cap = tile.param "scalars.cap" : f32
  %window = tile.param "scalars.window" : i32
  %shift = tile.param "scalars.shift" : i64
  %on = tile.param "scalars.on" : i1
  %seed = tile.param "seed" : i64
  // ALL: const long long seed = params.seed_pointer ? *params.seed_pointer : params.seed;
  sched.for_work grid (%number) {
    %tile_rows = arith.constant 128 : i32
    %work_queries = tile.axis_extent "q" : i32
    %work_heads = tile.axis_extent "h" : i32
    %work_tiles = arith.ceildivui %work_queries, %tile_rows {tile.name = "q_tiles"} : i32
    %work_place = arith.divui %number, %work_tiles {tile.name = "head"} : i32
    %b_bits = arith.divui %work_place, %work_heads : i32
    %h_bits = arith.remui %work_place, %work_heads : i32
    %b = sched.nonnegative %b_bits {tile.name = "b"} : i32
    %h = sched.nonnegative %h_bits {tile.name = "h"} : i32
    %t = sched.thread_id : i32
    %c0 = arith.constant 0 : i32
    // ALL: const float x = load_f32(params.x + thread * params.x_stride[0]);
    %x = tile.element %X[%t] in_range [true] {tile.name = "x"} : !tile.view<1, f32> (i32) -> f32
    // ALL: const float y = load_f16(params.half + clamp_index(h, params.half_extent[0]) * params.half_stride[0] +
    // ALL-NEXT:     thread * params.half_stride[1]);
    %y = tile.element %half[%h, %t] in_range [false, true] {tile.name = "y"} : !tile.view<2, f16> (i32, i32) -> f32
    // ALL: const float z = load_bf16(params.brain);
    %z = tile.element %brain[] in_range [] {tile.name = "z"} : !tile.view<0, bf16> () -> f32
    // ALL: const int m = load_i32(params.int_ + thread * params.int__stride[0]);
    %m = tile.element %ints[%t] in_range [true] {tile.name = "m"} : !tile.view<1, i32> (i32) -> i32
    // ALL: const int n = load_i32(params.int_ + clamp_index(m, params.int__extent[0]) * params.int__stride[0]);
    %n = tile.element %ints[%m] in_range [false] {tile.name = "n"} : !tile.view<1, i32> (i32) -> i32
    // ALL: const long long v = load_i64(params.wide +
    // ALL-NEXT:     clamp_index(params.shift, params.wide_extent[0]) * params.wide_stride[0]);
    %v = tile.element %wide[%shift] in_range [false] {tile.name = "v"} : !tile.view<1, i64> (i64) -> i64
    // ALL: const long long w = wrap_add(v, seed);
    %w = arith.addi %v, %seed {tile.name = "w"} : i64
    // ALL: const bool flag = load_bool(params.seen + thread * params.seen_stride[0]);
    %flag = tile.element %seen[%t] in_range [true] {tile.name = "flag"} : !tile.view<1, i8> (i32) -> i1
    // ALL: const bool other = flag != params.on;
    %other = arith.xori %flag, %on {tile.name = "other"} : i1

    %r0 = arith.addf %x, %y {tile.name = "r0"} : f32
    // ALL: const float r0 = x + y;
    %r1 = arith.subf %x, %y {tile.name = "r1"} : f32
    // ALL: const float r1 = x - y;
    %r2 = arith.mulf %x, %y {tile.name = "r2"} : f32
    // ALL: const float r2 = x * y;
    %r3 = arith.divf %x, %y {tile.name = "r3"} : f32
    // BF16: const float r3 = fast_divide(x, y);
    // F16: const float r3 = fast_divide(x, y);
    // F32: const float r3 = x / y;
    %r4 = arith.remf %x, %y {tile.name = "r4"} : f32
    // ALL: const float r4 = fmodf(x, y);
    %r5 = arith.maximumf %x, %y {tile.name = "r5"} : f32
    // ALL: const float r5 = max_nan(x, y);
    %r6 = arith.minimumf %x, %y {tile.name = "r6"} : f32
    // ALL: const float r6 = min_nan(x, y);
    %r7 = arith.maxnumf %x, %y {tile.name = "r7"} : f32
    // ALL: const float r7 = fmaxf(x, y);
    %r8 = arith.minnumf %x, %y {tile.name = "r8"} : f32
    // ALL: const float r8 = fminf(x, y);
    %r9 = math.copysign %x, %y {tile.name = "r9"} : f32
    // ALL: const float r9 = copysignf(x, y);
    %r10 = math.powf %x, %y {tile.name = "r10"} : f32
    // ALL: const float r10 = powf(x, y);
    %r11 = math.atan2 %x, %y {tile.name = "r11"} : f32
    // ALL: const float r11 = atan2f(x, y);
    %r12 = arith.negf %x {tile.name = "r12"} : f32
    // ALL: const float r12 = -x;
    %r13 = math.absf %x {tile.name = "r13"} : f32
    // ALL: const float r13 = fabsf(x);
    %r14 = math.floor %x {tile.name = "r14"} : f32
    // ALL: const float r14 = floorf(x);
    %r15 = math.ceil %x {tile.name = "r15"} : f32
    // ALL: const float r15 = ceilf(x);
    %r16 = math.trunc %x {tile.name = "r16"} : f32
    // ALL: const float r16 = truncf(x);
    %r17 = math.round %x {tile.name = "r17"} : f32
    // ALL: const float r17 = roundf(x);
    %r18 = math.roundeven %x {tile.name = "r18"} : f32
    // ALL: const float r18 = rintf(x);
    %r19 = math.exp %x {tile.name = "r19"} : f32
    // BF16: const float r19 = fast_exp(x);
    // F16: const float r19 = fast_exp(x);
    // F32: const float r19 = expf(x);
    %r20 = math.exp2 %x {tile.name = "r20"} : f32
    // BF16: const float r20 = fast_exp2(x);
    // F16: const float r20 = fast_exp2(x);
    // F32: const float r20 = exp2f(x);
    %r21 = math.expm1 %x {tile.name = "r21"} : f32
    // ALL: const float r21 = expm1f(x);
    %r22 = math.log %x {tile.name = "r22"} : f32
    // BF16: const float r22 = fast_log(x);
    // F16: const float r22 = fast_log(x);
    // F32: const float r22 = logf(x);
    %r23 = math.log2 %x {tile.name = "r23"} : f32
    // BF16: const float r23 = fast_log2(x);
    // F16: const float r23 = fast_log2(x);
    // F32: const float r23 = log2f(x);
    %r24 = math.log10 %x {tile.name = "r24"} : f32
    // ALL: const float r24 = log10f(x);
    %r25 = math.log1p %x {tile.name = "r25"} : f32
    // ALL: const float r25 = log1pf(x);
    %r26 = math.tanh %x {tile.name = "r26"} : f32
    // BF16: const float r26 = fast_tanh(x);
    // F16: const float r26 = exp_tanh(x);
    // F32: const float r26 = tanhf(x);
    %r27 = math.sin %x {tile.name = "r27"} : f32
    // ALL: const float r27 = sinf(x);
    %r28 = math.cos %x {tile.name = "r28"} : f32
    // ALL: const float r28 = cosf(x);
    %r29 = math.tan %x {tile.name = "r29"} : f32
    // ALL: const float r29 = tanf(x);
    %r30 = math.erf %x {tile.name = "r30"} : f32
    // ALL: const float r30 = erff(x);
    %r31 = math.atan %x {tile.name = "r31"} : f32
    // ALL: const float r31 = atanf(x);
    %r32 = math.sqrt %x {tile.name = "r32"} : f32
    // BF16: const float r32 = fast_sqrt(x);
    // F16: const float r32 = fast_sqrt(x);
    // F32: const float r32 = sqrtf(x);
    %r33 = math.rsqrt %x {tile.name = "r33"} : f32
    // BF16: const float r33 = fast_rsqrt(x);
    // F16: const float r33 = fast_rsqrt(x);
    // F32: const float r33 = rsqrtf(x);
    %r34 = math.fma %x, %y, %x {tile.name = "r34"} : f32
    // ALL: const float r34 = fmaf(x, y, x);
    %r35 = arith.select %flag, %x, %y {tile.name = "r35"} : f32
    // ALL: const float r35 = flag ? x : y;
    %r36 = arith.addi %m, %n {tile.name = "r36"} : i32
    // ALL: const int r36 = wrap_add(m, n);
    %r37 = arith.subi %m, %n {tile.name = "r37"} : i32
    // ALL: const int r37 = wrap_sub(m, n);
    %r38 = arith.muli %m, %n {tile.name = "r38"} : i32
    // ALL: const int r38 = wrap_mul(m, n);
    %r39 = arith.addi %m, %n overflow<nsw> {tile.name = "r39"} : i32
    // ALL: const int r39 = m + n;
    %r40 = arith.subi %m, %n overflow<nsw> {tile.name = "r40"} : i32
    // ALL: const int r40 = m - n;
    %r41 = arith.muli %m, %n overflow<nsw> {tile.name = "r41"} : i32
    // ALL: const int r41 = m * n;
    %r42 = arith.divsi %m, %n {tile.name = "r42"} : i32
    // ALL: const int r42 = m / n;
    %r43 = arith.remsi %m, %n {tile.name = "r43"} : i32
    // ALL: const int r43 = m % n;
    %r44 = arith.floordivsi %m, %n {tile.name = "r44"} : i32
    // ALL: const int r44 = floor_div(m, n);
    %r45 = arith.ceildivsi %m, %n {tile.name = "r45"} : i32
    // ALL: const int r45 = ceil_div(m, n);
    %r46 = arith.divui %m, %n {tile.name = "r46"} : i32
    // ALL: const unsigned r46 = (unsigned)m / (unsigned)n;
    %r47 = arith.remui %m, %n {tile.name = "r47"} : i32
    // ALL: const unsigned r47 = (unsigned)m % (unsigned)n;
    %r48 = arith.minsi %m, %n {tile.name = "r48"} : i32
    // ALL: const int r48 = min(m, n);
    %r49 = arith.maxsi %m, %n {tile.name = "r49"} : i32
    // ALL: const int r49 = max(m, n);
    %r50 = arith.minui %m, %n {tile.name = "r50"} : i32
    // ALL: const unsigned r50 = min((unsigned)m, (unsigned)n);
    %r51 = arith.maxui %m, %n {tile.name = "r51"} : i32
    // ALL: const unsigned r51 = max((unsigned)m, (unsigned)n);
    %r52 = arith.andi %m, %n {tile.name = "r52"} : i32
    // ALL: const int r52 = m & n;
    %r53 = arith.ori %m, %n {tile.name = "r53"} : i32
    // ALL: const int r53 = m | n;
    %r54 = arith.xori %m, %n {tile.name = "r54"} : i32
    // ALL: const int r54 = m ^ n;
    %r55 = arith.shli %m, %n {tile.name = "r55"} : i32
    // ALL: const unsigned r55 = (unsigned)m << n;
    %r56 = arith.shrui %m, %n {tile.name = "r56"} : i32
    // ALL: const unsigned r56 = (unsigned)m >> n;
    %r57 = arith.shrsi %m, %n {tile.name = "r57"} : i32
    // ALL: const int r57 = m >> n;
    %r58 = math.absi %m {tile.name = "r58"} : i32
    // ALL: const int r58 = wrap_abs(m);
    %r59 = arith.addi %v, %w {tile.name = "r59"} : i64
    // ALL: const long long r59 = wrap_add(v, w);
    %r60 = arith.subi %v, %w {tile.name = "r60"} : i64
    // ALL: const long long r60 = wrap_sub(v, w);
    %r61 = arith.muli %v, %w {tile.name = "r61"} : i64
    // ALL: const long long r61 = wrap_mul(v, w);
    %r62 = arith.addi %v, %w overflow<nsw> {tile.name = "r62"} : i64
    // ALL: const long long r62 = v + w;
    %r63 = arith.subi %v, %w overflow<nsw> {tile.name = "r63"} : i64
    // ALL: const long long r63 = v - w;
    %r64 = arith.muli %v, %w overflow<nsw> {tile.name = "r64"} : i64
    // ALL: const long long r64 = v * w;
    %r65 = arith.divsi %v, %w {tile.name = "r65"} : i64
    // ALL: const long long r65 = v / w;
    %r66 = arith.remsi %v, %w {tile.name = "r66"} : i64
    // ALL: const long long r66 = v % w;
    %r67 = arith.floordivsi %v, %w {tile.name = "r67"} : i64
    // ALL: const long long r67 = floor_div(v, w);
    %r68 = arith.ceildivsi %v, %w {tile.name = "r68"} : i64
    // ALL: const long long r68 = ceil_div(v, w);
    %r69 = arith.divui %v, %w {tile.name = "r69"} : i64
    // ALL: const long long r69 = (long long)((unsigned long long)v / (unsigned long long)w);
    %r70 = arith.remui %v, %w {tile.name = "r70"} : i64
    // ALL: const long long r70 = (long long)((unsigned long long)v % (unsigned long long)w);
    %r71 = arith.minsi %v, %w {tile.name = "r71"} : i64
    // ALL: const long long r71 = min(v, w);
    %r72 = arith.maxsi %v, %w {tile.name = "r72"} : i64
    // ALL: const long long r72 = max(v, w);
    %r73 = arith.minui %v, %w {tile.name = "r73"} : i64
    // ALL: const long long r73 = (long long)min((unsigned long long)v, (unsigned long long)w);
    %r74 = arith.maxui %v, %w {tile.name = "r74"} : i64
    // ALL: const long long r74 = (long long)max((unsigned long long)v, (unsigned long long)w);
    %r75 = arith.andi %v, %w {tile.name = "r75"} : i64
    // ALL: const long long r75 = v & w;
    %r76 = arith.ori %v, %w {tile.name = "r76"} : i64
    // ALL: const long long r76 = v | w;
    %r77 = arith.xori %v, %w {tile.name = "r77"} : i64
    // ALL: const long long r77 = v ^ w;
    %r78 = arith.shli %v, %w {tile.name = "r78"} : i64
    // ALL: const long long r78 = (long long)((unsigned long long)v << w);
    %r79 = arith.shrui %v, %w {tile.name = "r79"} : i64
    // ALL: const long long r79 = (long long)((unsigned long long)v >> w);
    %r80 = arith.shrsi %v, %w {tile.name = "r80"} : i64
    // ALL: const long long r80 = v >> w;
    %r81 = arith.cmpi eq, %m, %n {tile.name = "r81"} : i32
    // ALL: const bool r81 = m == n;
    %r82 = arith.cmpi ne, %m, %n {tile.name = "r82"} : i32
    // ALL: const bool r82 = m != n;
    %r83 = arith.cmpi slt, %m, %n {tile.name = "r83"} : i32
    // ALL: const bool r83 = m < n;
    %r84 = arith.cmpi sle, %m, %n {tile.name = "r84"} : i32
    // ALL: const bool r84 = m <= n;
    %r85 = arith.cmpi sgt, %m, %n {tile.name = "r85"} : i32
    // ALL: const bool r85 = m > n;
    %r86 = arith.cmpi sge, %m, %n {tile.name = "r86"} : i32
    // ALL: const bool r86 = m >= n;
    %r87 = arith.cmpi ult, %m, %n {tile.name = "r87"} : i32
    // ALL: const bool r87 = (unsigned)m < (unsigned)n;
    %r88 = arith.cmpi ule, %m, %n {tile.name = "r88"} : i32
    // ALL: const bool r88 = (unsigned)m <= (unsigned)n;
    %r89 = arith.cmpi ugt, %m, %n {tile.name = "r89"} : i32
    // ALL: const bool r89 = (unsigned)m > (unsigned)n;
    %r90 = arith.cmpi uge, %m, %n {tile.name = "r90"} : i32
    // ALL: const bool r90 = (unsigned)m >= (unsigned)n;
    %r91 = arith.cmpf oeq, %x, %y {tile.name = "r91"} : f32
    // ALL: const bool r91 = x == y;
    %r92 = arith.cmpf ogt, %x, %y {tile.name = "r92"} : f32
    // ALL: const bool r92 = x > y;
    %r93 = arith.cmpf oge, %x, %y {tile.name = "r93"} : f32
    // ALL: const bool r93 = x >= y;
    %r94 = arith.cmpf olt, %x, %y {tile.name = "r94"} : f32
    // ALL: const bool r94 = x < y;
    %r95 = arith.cmpf ole, %x, %y {tile.name = "r95"} : f32
    // ALL: const bool r95 = x <= y;
    %r96 = arith.cmpf one, %x, %y {tile.name = "r96"} : f32
    // ALL: const bool r96 = (x < y) || (x > y);
    %r97 = arith.cmpf ord, %x, %y {tile.name = "r97"} : f32
    // ALL: const bool r97 = !((x != x) || (y != y));
    %r98 = arith.cmpf ueq, %x, %y {tile.name = "r98"} : f32
    // ALL: const bool r98 = !((x < y) || (x > y));
    %r99 = arith.cmpf ugt, %x, %y {tile.name = "r99"} : f32
    // ALL: const bool r99 = !(x <= y);
    %r100 = arith.cmpf uge, %x, %y {tile.name = "r100"} : f32
    // ALL: const bool r100 = !(x < y);
    %r101 = arith.cmpf ult, %x, %y {tile.name = "r101"} : f32
    // ALL: const bool r101 = !(x >= y);
    %r102 = arith.cmpf ule, %x, %y {tile.name = "r102"} : f32
    // ALL: const bool r102 = !(x > y);
    %r103 = arith.cmpf une, %x, %y {tile.name = "r103"} : f32
    // ALL: const bool r103 = x != y;
    %r104 = arith.cmpf uno, %x, %y {tile.name = "r104"} : f32
    // ALL: const bool r104 = (x != x) || (y != y);
    %r105 = arith.andi %flag, %other {tile.name = "r105"} : i1
    // ALL: const bool r105 = flag && other;
    %r106 = arith.ori %flag, %other {tile.name = "r106"} : i1
    // ALL: const bool r106 = flag || other;
    %r107 = arith.xori %flag, %other {tile.name = "r107"} : i1
    // ALL: const bool r107 = flag != other;
    %r108 = arith.sitofp %m {tile.name = "r108"} : i32 to f32
    // ALL: const float r108 = (float)m;
    %r109 = arith.uitofp %m {tile.name = "r109"} : i32 to f32
    // ALL: const float r109 = (float)(unsigned)m;
    %r110 = arith.uitofp %flag {tile.name = "r110"} : i1 to f32
    // ALL: const float r110 = (float)flag;
    %r111 = arith.sitofp %flag {tile.name = "r111"} : i1 to f32
    // ALL: const float r111 = -(float)flag;
    %r112 = arith.sitofp %v {tile.name = "r112"} : i64 to f32
    // ALL: const float r112 = (float)v;
    %r113 = arith.fptosi %x {tile.name = "r113"} : f32 to i32
    // ALL: const int r113 = float_to_int(x);
    %r114 = arith.fptosi %x {tile.name = "r114"} : f32 to i64
    // ALL: const long long r114 = float_to_int64(x);
    %r115 = arith.extsi %m {tile.name = "r115"} : i32 to i64
    // ALL: const long long r115 = (long long)m;
    %r116 = arith.extui %m {tile.name = "r116"} : i32 to i64
    // ALL: const long long r116 = (long long)(unsigned)m;
    %r117 = arith.extui %flag {tile.name = "r117"} : i1 to i32
    // ALL: const int r117 = (int)flag;
    %r118 = arith.extsi %flag {tile.name = "r118"} : i1 to i32
    // ALL: const int r118 = -(int)flag;
    %r119 = arith.trunci %v {tile.name = "r119"} : i64 to i32
    // ALL: const int r119 = (int)v;
    %r120 = arith.trunci %m {tile.name = "r120"} : i32 to i1
    // ALL: const bool r120 = (m & 1) != 0;
    %r121 = arith.bitcast %x {tile.name = "r121"} : f32 to i32
    // ALL: const int r121 = __float_as_int(x);
    %r122 = arith.bitcast %m {tile.name = "r122"} : i32 to f32
    // ALL: const float r122 = __int_as_float(m);

    // Constants, precedence and inlining.
    %true = arith.constant true
    %inf = arith.constant 0x7F800000 : f32
    %nan = arith.constant 0x7FC00000 : f32
    %third = arith.constant 0.333333343 : f32
    %tiny = arith.constant 1.17549435E-38 : f32
    %big = arith.constant 16777216.0 : f32
    %minus = arith.constant -2.5 : f32
    %lowest = arith.constant -2147483648 : i32
    %five = arith.constant 5 : i64
    %a0 = arith.subf %y, %x : f32
    %a1 = arith.subf %x, %a0 : f32
    %a2 = arith.negf %minus : f32
    %a3 = arith.mulf %a1, %a2 : f32
    // ALL: const float a = (x - (y - x)) * -(-2.5f) + 0.33333334f;
    %a4 = arith.addf %a3, %third {tile.name = "a"} : f32
    %b0 = arith.maxnumf %tiny, %big : f32
    %b1 = arith.select %flag, %inf, %b0 : f32
    %b2 = arith.select %other, %nan, %b1 : f32
    // ALL: const float term = other ? not_a_number : (flag ? infinity : fmaxf(1.1754944e-38f, 16777216.0f));
    // ALL-NEXT: const float chosen = term * params.cap;
    %b3 = arith.mulf %b2, %cap {tile.name = "chosen"} : f32
    %d0 = arith.andi %m, %window : i32
    %d1 = arith.cmpi eq, %d0, %lowest : i32
    %d2 = arith.xori %d1, %true : i1
    %d3 = arith.andi %d2, %flag : i1
    // ALL: const bool both = (!((m & params.window) == -2147483647 - 1) && flag) || other;
    %d4 = arith.ori %d3, %other {tile.name = "both"} : i1
    %e0 = arith.addi %v, %five overflow<nsw> : i64
    // ALL: const long long sum = (v + 5ll) * w;
    %e1 = arith.muli %e0, %w overflow<nsw> {tile.name = "sum"} : i64
    // natural numbers need no unsigned
    // ALL: const int part = (thread & 31) >> 2;
    %c2 = arith.constant 2 : i32
    %c31 = arith.constant 31 : i32
    %f0 = arith.andi %t, %c31 : i32
    %f1 = arith.shrui %f0, %c2 {tile.name = "part"} : i32

    %s0 = arith.addf %x, %r0 : f32
    %s1 = arith.addf %s0, %r1 : f32
    %s2 = arith.addf %s1, %r2 : f32
    %s3 = arith.addf %s2, %r3 : f32
    %s4 = arith.addf %s3, %r4 : f32
    %s5 = arith.addf %s4, %r5 : f32
    %s6 = arith.addf %s5, %r6 : f32
    %s7 = arith.addf %s6, %r7 : f32
    %s8 = arith.addf %s7, %r8 : f32
    %s9 = arith.addf %s8, %r9 : f32
    %s10 = arith.addf %s9, %r10 : f32
    %s11 = arith.addf %s10, %r11 : f32
    %s12 = arith.addf %s11, %r12 : f32
    %s13 = arith.addf %s12, %r13 : f32
    %s14 = arith.addf %s13, %r14 : f32
    %s15 = arith.addf %s14, %r15 : f32
    %s16 = arith.addf %s15, %r16 : f32
    %s17 = arith.addf %s16, %r17 : f32
    %s18 = arith.addf %s17, %r18 : f32
    %s19 = arith.addf %s18, %r19 : f32
    %s20 = arith.addf %s19, %r20 : f32
    %s21 = arith.addf %s20, %r21 : f32
    %s22 = arith.addf %s21, %r22 : f32
    %s23 = arith.addf %s22, %r23 : f32
    %s24 = arith.addf %s23, %r24 : f32
    %s25 = arith.addf %s24, %r25 : f32
    %s26 = arith.addf %s25, %r26 : f32
    %s27 = arith.addf %s26, %r27 : f32
    %s28 = arith.addf %s27, %r28 : f32
    %s29 = arith.addf %s28, %r29 : f32
    %s30 = arith.addf %s29, %r30 : f32
    %s31 = arith.addf %s30, %r31 : f32
    %s32 = arith.addf %s31, %r32 : f32
    %s33 = arith.addf %s32, %r33 : f32
    %s34 = arith.addf %s33, %r34 : f32
    %s35 = arith.addf %s34, %r35 : f32
    %s36 = arith.addf %s35, %r108 : f32
    %s37 = arith.addf %s36, %r109 : f32
    %s38 = arith.addf %s37, %r110 : f32
    %s39 = arith.addf %s38, %r111 : f32
    %s40 = arith.addf %s39, %r112 : f32
    %s41 = arith.addf %s40, %r122 : f32
    %s42 = arith.sitofp %r36 : i32 to f32
    %s43 = arith.addf %s41, %s42 : f32
    %s44 = arith.sitofp %r37 : i32 to f32
    %s45 = arith.addf %s43, %s44 : f32
    %s46 = arith.sitofp %r38 : i32 to f32
    %s47 = arith.addf %s45, %s46 : f32
    %s48 = arith.sitofp %r39 : i32 to f32
    %s49 = arith.addf %s47, %s48 : f32
    %s50 = arith.sitofp %r40 : i32 to f32
    %s51 = arith.addf %s49, %s50 : f32
    %s52 = arith.sitofp %r41 : i32 to f32
    %s53 = arith.addf %s51, %s52 : f32
    %s54 = arith.sitofp %r42 : i32 to f32
    %s55 = arith.addf %s53, %s54 : f32
    %s56 = arith.sitofp %r43 : i32 to f32
    %s57 = arith.addf %s55, %s56 : f32
    %s58 = arith.sitofp %r44 : i32 to f32
    %s59 = arith.addf %s57, %s58 : f32
    %s60 = arith.sitofp %r45 : i32 to f32
    %s61 = arith.addf %s59, %s60 : f32
    %s62 = arith.sitofp %r46 : i32 to f32
    %s63 = arith.addf %s61, %s62 : f32
    %s64 = arith.sitofp %r47 : i32 to f32
    %s65 = arith.addf %s63, %s64 : f32
    %s66 = arith.sitofp %r48 : i32 to f32
    %s67 = arith.addf %s65, %s66 : f32
    %s68 = arith.sitofp %r49 : i32 to f32
    %s69 = arith.addf %s67, %s68 : f32
    %s70 = arith.sitofp %r50 : i32 to f32
    %s71 = arith.addf %s69, %s70 : f32
    %s72 = arith.sitofp %r51 : i32 to f32
    %s73 = arith.addf %s71, %s72 : f32
    %s74 = arith.sitofp %r52 : i32 to f32
    %s75 = arith.addf %s73, %s74 : f32
    %s76 = arith.sitofp %r53 : i32 to f32
    %s77 = arith.addf %s75, %s76 : f32
    %s78 = arith.sitofp %r54 : i32 to f32
    %s79 = arith.addf %s77, %s78 : f32
    %s80 = arith.sitofp %r55 : i32 to f32
    %s81 = arith.addf %s79, %s80 : f32
    %s82 = arith.sitofp %r56 : i32 to f32
    %s83 = arith.addf %s81, %s82 : f32
    %s84 = arith.sitofp %r57 : i32 to f32
    %s85 = arith.addf %s83, %s84 : f32
    %s86 = arith.sitofp %r58 : i32 to f32
    %s87 = arith.addf %s85, %s86 : f32
    %s88 = arith.sitofp %r113 : i32 to f32
    %s89 = arith.addf %s87, %s88 : f32
    %s90 = arith.sitofp %r117 : i32 to f32
    %s91 = arith.addf %s89, %s90 : f32
    %s92 = arith.sitofp %r118 : i32 to f32
    %s93 = arith.addf %s91, %s92 : f32
    %s94 = arith.sitofp %r119 : i32 to f32
    %s95 = arith.addf %s93, %s94 : f32
    %s96 = arith.sitofp %r121 : i32 to f32
    %s97 = arith.addf %s95, %s96 : f32
    %s98 = arith.sitofp %r59 : i64 to f32
    %s99 = arith.addf %s97, %s98 : f32
    %s100 = arith.sitofp %r60 : i64 to f32
    %s101 = arith.addf %s99, %s100 : f32
    %s102 = arith.sitofp %r61 : i64 to f32
    %s103 = arith.addf %s101, %s102 : f32
    %s104 = arith.sitofp %r62 : i64 to f32
    %s105 = arith.addf %s103, %s104 : f32
    %s106 = arith.sitofp %r63 : i64 to f32
    %s107 = arith.addf %s105, %s106 : f32
    %s108 = arith.sitofp %r64 : i64 to f32
    %s109 = arith.addf %s107, %s108 : f32
    %s110 = arith.sitofp %r65 : i64 to f32
    %s111 = arith.addf %s109, %s110 : f32
    %s112 = arith.sitofp %r66 : i64 to f32
    %s113 = arith.addf %s111, %s112 : f32
    %s114 = arith.sitofp %r67 : i64 to f32
    %s115 = arith.addf %s113, %s114 : f32
    %s116 = arith.sitofp %r68 : i64 to f32
    %s117 = arith.addf %s115, %s116 : f32
    %s118 = arith.sitofp %r69 : i64 to f32
    %s119 = arith.addf %s117, %s118 : f32
    %s120 = arith.sitofp %r70 : i64 to f32
    %s121 = arith.addf %s119, %s120 : f32
    %s122 = arith.sitofp %r71 : i64 to f32
    %s123 = arith.addf %s121, %s122 : f32
    %s124 = arith.sitofp %r72 : i64 to f32
    %s125 = arith.addf %s123, %s124 : f32
    %s126 = arith.sitofp %r73 : i64 to f32
    %s127 = arith.addf %s125, %s126 : f32
    %s128 = arith.sitofp %r74 : i64 to f32
    %s129 = arith.addf %s127, %s128 : f32
    %s130 = arith.sitofp %r75 : i64 to f32
    %s131 = arith.addf %s129, %s130 : f32
    %s132 = arith.sitofp %r76 : i64 to f32
    %s133 = arith.addf %s131, %s132 : f32
    %s134 = arith.sitofp %r77 : i64 to f32
    %s135 = arith.addf %s133, %s134 : f32
    %s136 = arith.sitofp %r78 : i64 to f32
    %s137 = arith.addf %s135, %s136 : f32
    %s138 = arith.sitofp %r79 : i64 to f32
    %s139 = arith.addf %s137, %s138 : f32
    %s140 = arith.sitofp %r80 : i64 to f32
    %s141 = arith.addf %s139, %s140 : f32
    %s142 = arith.sitofp %r114 : i64 to f32
    %s143 = arith.addf %s141, %s142 : f32
    %s144 = arith.sitofp %r115 : i64 to f32
    %s145 = arith.addf %s143, %s144 : f32
    %s146 = arith.sitofp %r116 : i64 to f32
    %s147 = arith.addf %s145, %s146 : f32
    %s148 = arith.uitofp %r81 : i1 to f32
    %s149 = arith.addf %s147, %s148 : f32
    %s150 = arith.uitofp %r82 : i1 to f32
    %s151 = arith.addf %s149, %s150 : f32
    %s152 = arith.uitofp %r83 : i1 to f32
    %s153 = arith.addf %s151, %s152 : f32
    %s154 = arith.uitofp %r84 : i1 to f32
    %s155 = arith.addf %s153, %s154 : f32
    %s156 = arith.uitofp %r85 : i1 to f32
    %s157 = arith.addf %s155, %s156 : f32
    %s158 = arith.uitofp %r86 : i1 to f32
    %s159 = arith.addf %s157, %s158 : f32
    %s160 = arith.uitofp %r87 : i1 to f32
    %s161 = arith.addf %s159, %s160 : f32
    %s162 = arith.uitofp %r88 : i1 to f32
    %s163 = arith.addf %s161, %s162 : f32
    %s164 = arith.uitofp %r89 : i1 to f32
    %s165 = arith.addf %s163, %s164 : f32
    %s166 = arith.uitofp %r90 : i1 to f32
    %s167 = arith.addf %s165, %s166 : f32
    %s168 = arith.uitofp %r91 : i1 to f32
    %s169 = arith.addf %s167, %s168 : f32
    %s170 = arith.uitofp %r92 : i1 to f32
    %s171 = arith.addf %s169, %s170 : f32
    %s172 = arith.uitofp %r93 : i1 to f32
    %s173 = arith.addf %s171, %s172 : f32
    %s174 = arith.uitofp %r94 : i1 to f32
    %s175 = arith.addf %s173, %s174 : f32
    %s176 = arith.uitofp %r95 : i1 to f32
    %s177 = arith.addf %s175, %s176 : f32
    %s178 = arith.uitofp %r96 : i1 to f32
    %s179 = arith.addf %s177, %s178 : f32
    %s180 = arith.uitofp %r97 : i1 to f32
    %s181 = arith.addf %s179, %s180 : f32
    %s182 = arith.uitofp %r98 : i1 to f32
    %s183 = arith.addf %s181, %s182 : f32
    %s184 = arith.uitofp %r99 : i1 to f32
    %s185 = arith.addf %s183, %s184 : f32
    %s186 = arith.uitofp %r100 : i1 to f32
    %s187 = arith.addf %s185, %s186 : f32
    %s188 = arith.uitofp %r101 : i1 to f32
    %s189 = arith.addf %s187, %s188 : f32
    %s190 = arith.uitofp %r102 : i1 to f32
    %s191 = arith.addf %s189, %s190 : f32
    %s192 = arith.uitofp %r103 : i1 to f32
    %s193 = arith.addf %s191, %s192 : f32
    %s194 = arith.uitofp %r104 : i1 to f32
    %s195 = arith.addf %s193, %s194 : f32
    %s196 = arith.uitofp %r105 : i1 to f32
    %s197 = arith.addf %s195, %s196 : f32
    %s198 = arith.uitofp %r106 : i1 to f32
    %s199 = arith.addf %s197, %s198 : f32
    %s200 = arith.uitofp %r107 : i1 to f32
    %s201 = arith.addf %s199, %s200 : f32
    %s202 = arith.uitofp %r120 : i1 to f32
    %s203 = arith.addf %s201, %s202 : f32
    %o0 = arith.addf %s203, %z : f32
    %o1 = arith.addf %o0, %a4 : f32
    %o2 = arith.addf %o1, %b3 : f32
    %o3 = arith.uitofp %d4 : i1 to f32
    %o4 = arith.sitofp %e1 : i64 to f32
    %o5 = arith.sitofp %f1 : i32 to f32
    %o6 = arith.addf %o2, %o3 : f32
    %o7 = arith.addf %o6, %o4 : f32
    %o8 = arith.addf %o7, %o5 : f32
    sched.store_element %o8, %L[%b, %h, %t] : f32, !tile.view<3, f32>
  }
}
