//===- Decode.cpp - Translating a sched.kernel to simulator steps ---------===//

#include "codegen/sim/Decode.h"

#include "codegen/sim/Decoder.h"

using namespace attune;

Expected<std::shared_ptr<const sim::Program>> sim::decode(sched::KernelOp kernel, const KernelSignature &signature,
                                                          const sched::LaunchMaps &maps) {
  return sim::Decoder(kernel, signature, maps).run();
}
