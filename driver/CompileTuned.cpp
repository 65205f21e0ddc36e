//===- CompileTuned.cpp - compile(): measure what is missing, then compile ---===//
//
// compile() joins the tuner, which compiles the plans that it measures, and compiling, which reads the plans that the
// tuner has stored. Neither calls this file.
//
//===----------------------------------------------------------------------===//

#include "attune/Compile.h"

#include "driver/Compiling.h"
#include "driver/Tuner.h"

using namespace attune;
using namespace attune::driver;

/// compileSource; with Tuning::Measure, the tuner first measures the sizes of options.shapes that have no measurements.
static Expected<Kernel> compileTuned(const Source &source, const CompileOptions &options, const Target &target) {
  if (options.tuning == Tuning::Measure) {
    if (Expected<void> good = checkRequest(source, options, target); !good)
      return good.error();
    if (Expected<void> measured = measureMissing(source, options, target); !measured)
      return measured.error();
    if (options.gradients && !options.backward)
      if (Expected<void> measured = measureMissing(source, backwardOf(options), target); !measured)
        return measured.error();
  }
  return compileSource(source, options, target, compileTuned);
}

Expected<Kernel> attune::compile(const Variant &variant, const CompileOptions &options, const Target &target) {
  return compileTuned({.variant = &variant}, options, target);
}
Expected<Kernel> attune::compileFromText(const IrText &text, const CompileOptions &options, const Target &target) {
  return compileTuned({.text = &text}, options, target);
}
