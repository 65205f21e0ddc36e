//===- Names.cpp - Identifiers of the generated source --------------------===//

#include "codegen/cuda/Names.h"

#include "codegen/cuda/DeviceFunctions.h"
#include "codegen/cuda/Primitives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace attune::codegen::cuda {

static const llvm::StringLiteral reservedWords[] = {
    "alignas", "alignof", "and", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t",
    "char32_t", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do",
    "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto",
    "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator",
    "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
    "wchar_t", "while", "xor", "xor_eq", "main", "NULL", "signbit", "isnan", "isinf", "isfinite",
    // names that the generated source refers to
    "params", "Params", "bf16", "f16", "shared_base", "shared_memory", "threadIdx", "blockIdx", "blockDim", "gridDim",
    "warpSize", "min", "max", "abs", "fabsf", "fmaf", "fmodf", "fmaxf", "fminf", "floorf", "ceilf", "truncf", "rintf",
    "roundf", "copysignf", "expf", "exp2f", "expm1f", "logf", "log2f", "log10f", "log1pf", "tanhf", "sinf", "cosf",
    "tanf", "sqrtf", "rsqrtf", "powf", "erff", "atanf", "atan2f", "sinhf", "coshf", "asinf", "acosf", "asinhf",
    "acoshf", "atanhf", "cbrtf", "GridTile", "uint4", "int2", "float2", "exp", "exp2", "log", "log2", "tanh", "sin",
    "cos", "tan", "sqrt", "rsqrt", "pow", "floor", "ceil", "round", "trunc", "erf"};

/// Further names that CUDA declares before every source. `mask` is the name of a parameter of CUDA's shuffles: NVRTC
/// 13.0 crashes on a kernel called `mask` that follows a kernel with shuffles.
static constexpr llvm::StringLiteral declaredByCuda =
    "acos acosh asin asinh assert atan atan2 atanh cbrt clock64 clock_t copysign cosh cospi cospif cyl_bessel_i0 "
    "cyl_bessel_i0f cyl_bessel_i1 cyl_bessel_i1f dim3 erfc erfcf erfcinv erfcinvf erfcx erfcxf erfinv erfinvf "
    "exp10 exp10f expm1 fabs fdim fdimf fdivide fdividef fma fmax fmin fmod free frexp frexpf hypot hypotf ilogb "
    "ilogbf j0 j0f j1 j1f jn jnf labs ldexp ldexpf lgamma lgammaf libraryPropertyType llabs llmax llmin llrint "
    "llrintf llround llroundf log10 log1p logb logbf lrint lrintf lround lroundf malloc mask modf modff nan nanf "
    "nearbyint nearbyintf nextafter nextafterf norm norm3d norm3df norm4d norm4df normcdf normcdff normcdfinv "
    "normcdfinvf normf printf ptrdiff_t rcbrt rcbrtf remainder remainderf remquo remquof rhypot rhypotf rint "
    "rnorm rnorm3d rnorm3df rnorm4d rnorm4df rnormf scalbln scalblnf scalbn scalbnf sincos sincosf sincospi "
    "sincospif sinh sinpi sinpif size_t std tgamma tgammaf ullmax ullmin umax umin va_arg va_copy va_end va_list "
    "va_start y0 y0f y1 y1f yn ynf";

bool isReservedGlobal(StringRef name) {
  return isReserved(name) || isFunctionName(name) || llvm::is_contained(llvm::split(declaredByCuda, ' '), name) ||
         name.starts_with("cuda");
}

bool isReserved(StringRef name) {
  return llvm::is_contained(reservedWords, name) || codegen::isPrimitive(name) || name.starts_with("__");
}

std::string identifier(StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (result.empty() || llvm::isDigit(result[0]))
    result.insert(0, "_");
  return result;
}

bool isIdentifier(StringRef text) { return !text.empty() && identifier(text) == text; }

std::string numbered(StringRef name, unsigned number) {
  return number == 1 ? name.str() : (name + (llvm::isDigit(name.back()) ? "_" : "") + llvm::Twine(number)).str();
}

StringRef withoutNumber(StringRef name) {
  StringRef base = name.rtrim("0123456789");
  if (base.size() == name.size())
    return name;
  base.consume_back("_");
  return base.empty() ? name : base;
}

std::string Names::take(StringRef wish) {
  std::string base = identifier(wish);
  if (isReserved(base) || isFunctionName(base))
    base += "_";
  unsigned &next = nexts.try_emplace(base, 1).first->second;
  const unsigned before = next;
  std::string name = numbered(base, next);
  for (; taken.contains(name); name = numbered(base, next))
    ++next;
  taken.insert(name);
  undo.push_back({std::move(base), before, name});
  return name;
}

void Names::close(size_t mark) {
  for (; undo.size() > mark; undo.pop_back()) {
    taken.erase(undo.back().name);
    nexts[undo.back().base] = undo.back().next;
  }
}

} // namespace attune::codegen::cuda
