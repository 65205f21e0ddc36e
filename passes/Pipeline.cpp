//===- Pipeline.cpp - The compiler, as a list of passes ----------------------===//
//
//     attn ──► tile ──► sched
//               └────► cpu
//
// Each decision is made by one pass and recorded in the IR as attributes, types or ops. The comments in this file state
// the ordering constraints between passes.
//
//===----------------------------------------------------------------------===//

#include "passes/Pipeline.h"

#include "passes/Passes.h"

#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace attune;

void attune::addAttnVerifier(OpPassManager &passes) { passes.addPass(createVerifyAttn()); }

void attune::addTileVerifier(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createVerifyTile(VerifyTileOptions{options.arch, options.sramBudget}));
}

void attune::addPlans(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createPlanKernels(PlanKernelsOptions{options.arch, options.sramBudget}));
}

void attune::addSchedVerifier(OpPassManager &passes, const PipelineOptions &options) {
  passes.addPass(createVerifySched(VerifySchedOptions{options.sramBudget}));
}

void attune::addAttnCanonical(OpPassManager &passes) {
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void attune::addDifferentiate(OpPassManager &passes) {
  passes.addPass(createDifferentiate());
  addAttnCanonical(passes);
}

void attune::addRecompute(OpPassManager &passes, const PipelineOptions &options) {
  const SavingOptions &saving = options.saving;
  RecomputeOptions recompute;
  recompute.arch = options.arch;
  recompute.memoryBudget = saving.memoryBudget;
  recompute.save.assign(saving.save.begin(), saving.save.end());
  recompute.recompute.assign(saving.recompute.begin(), saving.recompute.end());
  recompute.queries = saving.queries;
  recompute.keys = saving.keys;
  recompute.heads = saving.heads;
  recompute.batch = saving.batch;
  passes.addPass(createRecompute(recompute));
}

void attune::addAttnToTileMap(OpPassManager &passes, int64_t tileQ, int64_t tileK) {
  passes.addPass(createAttnToTileMap(AttnToTileMapOptions{tileQ, tileK}));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void attune::addAttnPlan(OpPassManager &passes, const PipelineOptions &options) {
  // VerifyAttn runs before the first pass on attn. VerifyTile and VerifySched run after the last pass on their dialect.
  // So IR that a user wrote as text and IR that the passes made obey the same rules.
  addAttnVerifier(passes);

  // Differentiate runs before TileSize, because the cost model counts the ops of the gradient regions.
  addDifferentiate(passes);
  // Recompute runs after Differentiate, because it chooses among the forward values that the gradient regions read.
  // Recompute runs before TileSize, because each saved value is an operand that the cost model counts.
  addRecompute(passes, options);

  TileSizeOptions tiles;
  tiles.arch = options.arch;
  tiles.sramBudget = options.sramBudget;
  visitSchedule(
      [](auto, auto, auto &option, const auto &fixed) {
        if constexpr (std::is_same_v<std::decay_t<decltype(*fixed)>, bool>)
          option = !fixed ? "auto" : *fixed ? "true" : "false";
        else
          option = fixed.value_or(0);
      },
      tiles, options.fixed);
  passes.addPass(createTileSize(tiles));
}

void attune::addAttnToTile(OpPassManager &passes, const PipelineOptions &options) {
  bool cpu = options.arch == "cpu";

  // Head dims are padded to multiples of 16 on GPUs, because mma.sync contracts 16 elements at a time. The CPU needs
  // multiples of 8 only.
  passes.addPass(createAttnToTile(AttnToTileOptions{cpu ? 8 : 16}));
  passes.addPass(createAttnToTileBackward(AttnToTileBackwardOptions{cpu ? 8 : 16}));

  // ScaleQueries runs before FoldFactors: FoldFactors divides a bias by the score's constant factor, and that factor is
  // at least 1 only after ScaleQueries has moved a power of two to Q.
  passes.addPass(createScaleQueries());
  // FoldFactors runs after AttnToTile, which multiplies the score by the softmax scale. FoldFactors runs before
  // FoldSoftmaxScale, which moves one constant factor into the exponent and so needs the factors merged to one.
  passes.addPass(createFoldFactors());
  // FoldFactors and FoldSoftmaxScale run before HoistInvariants, so that the factors and addends that these two passes
  // merge are computed once per block or per row.
  passes.addPass(createFoldSoftmaxScale());
  if (!cpu)
    passes.addPass(createSplitRowSums());
  passes.addPass(createCanonicalizerPass());
  if (!cpu) {
    // ChoosePath runs before AddFallbackKernels and the Stage* passes, which write ops for producer warps. A kernel
    // that cannot have producer warps then gets none of these ops.
    passes.addPass(createChoosePath(ChoosePathOptions{options.arch, /*ordersChosen=*/false}));
    // AddFallbackKernels runs before HoistInvariants: HoistInvariants does not move the load of a bias out of its map
    // if producer warps load the bias, but in the fallback kernel it moves the same load. AddFallbackKernels runs after
    // ScaleQueries, so that both kernels have the scaled Q.
    passes.addPass(createAddFallbackKernels());
    // HoistParts runs before HoistInvariants, which splits conditions by axis.
    passes.addPass(createHoistParts());
  }
  passes.addPass(createHoistInvariants(HoistInvariantsOptions{/*conditionalColumns=*/!cpu}));
  if (!cpu) {
    // CSE runs before StageColumns: StageColumns does not copy a per-key vector to shared memory if another map
    // computes the same vector unconditionally. It recognises such a map only if the two maps have the same operands,
    // which CSE makes equal.
    passes.addPass(createCSEPass());
    passes.addPass(createStageRelativePositions());
    passes.addPass(createStageBiases());
    passes.addPass(createStageColumns());
  }
  // StageRelativePositions runs before SplitRelativePositions: the former replaces loads indexed by q - k by reads of a
  // table in shared memory, the latter converts the uses of k - q that remain.
  passes.addPass(createSplitRelativePositions());
  passes.addPass(createCancelRowTerms());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (!cpu) {
    passes.addPass(createAccumulateBias());
    // CancelRowTerms runs before FuseExponents, because it matches the difference x - m in the exponent and
    // FuseExponents replaces that difference by an FMA.
    passes.addPass(createFuseExponents());
    // ExpandLogistic runs after FoldSoftmaxScale, so that the logistic function's exponent is a product with one
    // constant factor: ExpandLogistic adds a constant to the exponent, and the product and the sum are then one
    // multiply-add.
    passes.addPass(createExpandLogistic());
    passes.addPass(createSkipRescale());
    passes.addPass(createSeparateScore());
    // StageVectors runs after FuseExponents, so that the exponent's per-row addend, which FuseExponents computes as one
    // vector, is also copied to shared memory.
    passes.addPass(createStageVectors());
    passes.addPass(createCanonicalizerPass());
  }
  // PackSequences runs last: the other passes know rows by the indices and limits of a batch.
  passes.addPass(createPackSequences());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  addTileVerifier(passes, options);
}

void attune::addTileToCpu(OpPassManager &passes) { passes.addPass(createScheduleBlocks()); }

void attune::addTileToSched(OpPassManager &passes, const PipelineOptions &options) {
  // PlaceOperands runs before this second ChoosePath, which checks that a product has 64 rows for each warpgroup:
  // PlaceOperands decides which axis of a register tile is its rows.
  passes.addPass(createPlaceOperands());
  passes.addPass(createChoosePath(ChoosePathOptions{options.arch, /*ordersChosen=*/true}));
  // AssignRoles runs before AssignLayouts, because the layout of a tile that producer warps compute contains the number
  // of these warps.
  passes.addPass(createAssignRoles());
  // AssignLayouts runs after PlaceOperands and ChoosePath, because a layout depends on which axis is rows and on
  // whether products are warp-level. AssignLayouts runs before PipelineCopies and SpecializeWarps, whose rings inherit
  // the layouts.
  passes.addPass(createAssignLayouts());
  passes.addPass(createVerifySchedule({"layouts"}));
  // FoldRectifiers runs after AssignLayouts, because the layout shows which conversions pack a tile for a product.
  passes.addPass(createFoldRectifiers());
  // OverlapProducts runs before PipelineStages: OverlapProducts only writes attributes with the order and the pipeline
  // stage of each op, and PipelineStages moves the ops. OverlapProducts keeps such attributes where hand-written IR
  // already has them.
  passes.addPass(createOverlapProducts());
  // PingPong runs after OverlapProducts, because products that OverlapProducts defers to the next tile belong to the
  // ping-pong region as well.
  passes.addPass(createPingPong());
  // PipelineCopies and SpecializeWarps may run in either order: PipelineCopies handles the kernels without roles
  // (`sched.roles`), SpecializeWarps the kernels with roles.
  passes.addPass(createPipelineCopies());
  passes.addPass(createSpecializeWarps());
  passes.addPass(createVerifySchedule({"copies"}));
  passes.addPass(createPipelineStages());
  passes.addPass(createVerifySchedule({"stages"}));
  // LazyRescale runs after PipelineStages, which peels the first tile off the loop: the first tile always updates the
  // maximum, only the tiles after it may keep the maximum.
  passes.addPass(createLazyRescale());
  passes.addPass(createRecomputeMaps());
  passes.addPass(createInterleaveFunctions());
  passes.addPass(createPairElements());
  passes.addPass(createStoreByTma());
  passes.addPass(createTileToSched(TileToSchedOptions{options.arch, options.sramBudget}));
  passes.addPass(createExpandSearches());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // UnswitchMasks runs after CSE, which makes equal conditions one value.
  passes.addPass(createUnswitchMasks());
  // Rematerialize runs after CSE, which would merge the values that Rematerialize computes twice.
  passes.addPass(createRematerialize());
  // BoundArithmetic runs after all passes that write integer arithmetic, so that ranges are computed once.
  passes.addPass(createBoundArithmetic());
  // AssignSharedMemory runs after all passes that move or erase uses of shared buffers, so that lifetimes are final.
  passes.addPass(createAssignSharedMemory());
  addSchedVerifier(passes, options);
}
