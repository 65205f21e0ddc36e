//===- print-cuda.cpp - Scheduled IR text to CUDA ---------------------------===//
//
//     attune-print-cuda FILE      prints the CUDA of the file's sched.kernel, or its error
//
//===----------------------------------------------------------------------===//

#include "tests/cuda/Parse.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: attune-print-cuda FILE\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  mlir::MLIRContext context;
  attune::Expected<std::string> source = attune::tests::printText(context, text.str(), argv[1]);
  if (!source) {
    std::cerr << "error: " << source.error().message << "\n";
    return 1;
  }
  std::cout << *source;
}
