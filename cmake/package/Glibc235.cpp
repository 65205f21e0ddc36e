// LLVM's archives, and libstdc++'s, ask for arc4random, which glibc has from 2.36 on. With this one in its place, 2.35
// is enough.
#include <cstdlib>
#include <unistd.h>

extern "C" unsigned arc4random() {
  unsigned bits = 0;
  if (getentropy(&bits, sizeof bits) != 0)
    std::abort();
  return bits;
}
