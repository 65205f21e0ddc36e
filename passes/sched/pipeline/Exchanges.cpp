//===- Exchanges.cpp - Barriers between the write and the reads of a tile that warps exchange in shared memory ===//

#include "passes/analysis/dataflow/BlockDependences.h"
#include "passes/sched/NamedBarriers.h"
#include "passes/sched/pipeline/Stages.h"

using namespace mlir;

namespace attune::pipeline {

void synchronizeForExchanges(sched::RoleOp role, Block &block) {
  for (auto exchange : llvm::make_early_inc_range(block.getOps<sched::ExchangeOp>())) {
    Operation *first = firstReader(exchange.getResult(), block);
    if (!first)
      continue;
    OpBuilder builder(first);
    Value id = arith::ConstantIntOp::create(builder, exchange.getLoc(), barriers::ofRole, 32);
    sched::SyncWarpsOp::create(builder, exchange.getLoc(), id, 32 * role.getWarps());
  }
}

} // namespace attune::pipeline
