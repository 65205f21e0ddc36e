#include "tools/attune/Cli.h"

int main(int argc, char **argv) { return attune_main(argc, argv); }
