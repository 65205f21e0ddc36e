#include "tests/gpu/GpuTests.h"

int main(int argc, char **argv) { return attune::tests::gpuTestsMain(argc, argv); }
