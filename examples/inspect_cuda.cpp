// From a variant to CUDA for an H100 or H200, stage by stage, on any machine: no GPU, no driver, no CUDA toolkit. With
// a folder as its argument it writes each stage there.
#include "common.h"

#include <fstream>

using namespace attune;
using example::report;

int main(int argc, char **argv) {
  auto variant = Variant("soft_causal").mask(causal()).score(softcap(30));
  const CompileOptions options = {.dtype = bf16, .headDim = 128};
  const Target target = Target::cuda("sm_90");

  std::string tile, cuda;
  for (Stage stage : {Stage::Dsl, Stage::Attn, Stage::Tile, Stage::Sched, Stage::Cuda}) {
    Expected<std::string> text = emit(variant, options, target, stage);
    if (!text)
      return report(text.error());
    std::printf("%-5s %5td lines\n", std::string(name(stage)).c_str(), std::count(text->begin(), text->end(), '\n'));
    if (argc > 1)
      std::ofstream(std::string(argv[1]) + "/soft_causal." + std::string(name(stage))) << *text;
    if (stage == Stage::Tile)
      tile = *text;
    if (stage == Stage::Cuda)
      cuda = *text;
  }

  // Any stage may be edited and continued from. Unedited, it gives the same CUDA to the byte.
  Expected<std::string> again = emitFromText({tile, "soft_causal.tile"}, {}, target, Stage::Cuda);
  if (!again)
    return report(again.error());
  const bool same = *again == cuda;
  std::printf("CUDA from the printed tile IR is %s\n", same ? "the same" : "DIFFERENT");

  // The comment at the top says what the kernel does and what it takes.
  for (size_t begin = 0, end; cuda.compare(begin, 2, "//") == 0; begin = end + 1) {
    end = cuda.find('\n', begin);
    std::printf("%s\n", cuda.substr(begin, end - begin).c_str());
  }
  return same && cuda.find("mma.sync") != std::string::npos ? 0 : 1;
}
