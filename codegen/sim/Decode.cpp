//===- Decode.cpp - Sched IR to steps -------------------------------------===//

#include "codegen/sim/Decode.h"

#include "codegen/sim/Decoder.h"

using namespace attune;

Expected<std::shared_ptr<const sim::Program>> sim::decode(sched::KernelOp kernel, const KernelSignature &signature) {
  return sim::Decoder(kernel, signature).run();
}
