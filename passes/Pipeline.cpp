//===- Pipeline.cpp - The compiler, as a list of passes ----------------------===//
//
//     attn ──► tile ──► sched
//               └────► cpu
//
// Each decision is made by one pass and stands in the IR that it prints. Comments state ordering constraints.
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

void attune::addAttnToTile(OpPassManager &passes, const PipelineOptions &options) {
  bool cpu = options.arch == "cpu";

  // Each stage is verified as a whole where it begins and ends, so that text at a stage is held to the same rules.
  addAttnVerifier(passes);

  // The cost model counts its ops.
  addDifferentiate(passes);
  // Of what the regions of gradients need.
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

  // mma.sync contracts 16 elements at a time; the CPU has no such granularity.
  passes.addPass(createAttnToTile(AttnToTileOptions{cpu ? 8 : 16}));
  passes.addPass(createAttnToTileBackward(AttnToTileBackwardOptions{cpu ? 8 : 16}));

  // Before a bias is divided by what is left of the scale.
  passes.addPass(createScaleQueries());
  // The scale has met the score: first one factor, then into the exponent.
  passes.addPass(createFoldFactors());
  // Before hoisting: the folded addend of the exponent is then computed once a row.
  passes.addPass(createFoldSoftmaxScale());
  if (!cpu)
    passes.addPass(createSplitRowSums());
  passes.addPass(createCanonicalizerPass());
  if (!cpu) {
    // ChoosePath runs before the passes that write ops for producer warps, so that a kernel which no producer warps can
    // serve gets none of these ops.
    passes.addPass(createChoosePath(ChoosePathOptions{options.arch, /*ordersChosen=*/false}));
    // Before hoisting, which leaves alone what producer warps bring. Both kernels gain by a scaled Q.
    passes.addPass(createAddFallbackKernels());
  }
  passes.addPass(createHoistInvariants(HoistInvariantsOptions{/*conditionalColumns=*/!cpu}));
  if (!cpu) {
    // What is computed in any case needs no stage.
    passes.addPass(createCSEPass());
    passes.addPass(createStageRelativePositions());
    passes.addPass(createStageBiases());
    passes.addPass(createStageColumns());
  }
  // Of the distances that are left.
  passes.addPass(createSplitRelativePositions());
  passes.addPass(createCancelRowTerms());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (!cpu) {
    passes.addPass(createAccumulateBias());
    // After the pass that cancels row terms, which asks for differences.
    passes.addPass(createFuseExponents());
    // The exponent has its one factor.
    passes.addPass(createExpandLogistic());
    passes.addPass(createSkipRescale());
    passes.addPass(createSeparateScore());
    // Of exponents, too.
    passes.addPass(createStageVectors());
    passes.addPass(createCanonicalizerPass());
  }
  addTileVerifier(passes, options);
}

void attune::addTileToCpu(OpPassManager &passes) { passes.addPass(createScheduleBlocks()); }

void attune::addTileToSched(OpPassManager &passes, const PipelineOptions &options) {
  // Which axis is rows says what a warpgroup's product can take.
  passes.addPass(createPlaceOperands());
  passes.addPass(createChoosePath(ChoosePathOptions{options.arch, /*ordersChosen=*/true}));
  // How many warps compute a tile for the others is in its layout.
  passes.addPass(createAssignRoles());
  // Layouts follow from which axis is rows and from the path; rings and fragments inherit them.
  passes.addPass(createAssignLayouts());
  passes.addPass(createVerifySchedule({"layouts"}));
  // What is packed is known by its layout.
  passes.addPass(createFoldRectifiers());
  // When ops run, as attributes; what a hand wrote stays.
  passes.addPass(createOverlapProducts());
  // Of the products that are deferred, too.
  passes.addPass(createPingPong());
  // Each leaves kernels alone whose plan is for the other.
  passes.addPass(createPipelineCopies());
  passes.addPass(createSpecializeWarps());
  passes.addPass(createVerifySchedule({"copies"}));
  passes.addPass(createPipelineStages());
  passes.addPass(createVerifySchedule({"stages"}));
  // Behind the first tile, which that pass sets apart.
  passes.addPass(createLazyRescale());
  passes.addPass(createRecomputeMaps());
  passes.addPass(createInterleaveFunctions());
  passes.addPass(createPairElements());
  passes.addPass(createStoreByTma());
  passes.addPass(createTileToSched(TileToSchedOptions{options.arch}));
  passes.addPass(createExpandSearches());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // After CSE, which would merge what this pass repeats.
  passes.addPass(createRematerialize());
  // Last: lifetimes are final.
  passes.addPass(createAssignSharedMemory());
  addSchedVerifier(passes, options);
}
